package replay

import (
	"encoding/binary"

	"github.com/bperf/bperf/internal/bpfprog/linear"
)

// programs are the BPF programs that a recording tells of.
type programs struct {
	order binary.ByteOrder // of the recording
	byID  map[uint32]*linear.Info
	at    map[uint64]uint32 // IDs by the address of a function
	err   error             // the first one: why some are missing
}

func newPrograms() programs {
	return programs{byID: map[uint32]*linear.Info{}, at: map[uint64]uint32{}}
}

// add takes the programs of a feature BPF_PROG_INFO. In pipes there can be several, with different programs. Those in front of one that cannot
// be read are taken.
func (p *programs) add(section []byte) {
	infos, err := linear.DecodePrograms(section, p.order)
	if p.err == nil {
		p.err = err
	}
	for _, info := range infos {
		p.byID[info.ID] = info
		for _, addr := range info.Addresses {
			p.at[addr] = info.ID
		}
	}
}

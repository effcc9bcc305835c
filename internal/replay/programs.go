package replay

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/perfdata"
)

// programs are the BPF programs that a recording describes.
type programs struct {
	order binary.ByteOrder // of the recording
	byID  map[uint32]*linear.Info
	at    map[uint64]uint32     // IDs by the address of a function
	types map[uint32]linear.BTF // by ID
	err   error                 // first error: why some programs are missing
	known map[uint32]programUse // by ID, at the last call of forget
}

// programUse is whether code of a program was ever mapped, and the number of calls of forget since.
type programUse struct {
	mapped bool
	idle   int
}

// mostUnmapped is the number of calls of forget after which a program whose code was never mapped is dropped.
const mostUnmapped = 100

func newPrograms() programs {
	return programs{byID: map[uint32]*linear.Info{}, at: map[uint64]uint32{}, types: map[uint32]linear.BTF{}}
}

// add reads programs from a feature. A pipe can contain several features of the same kind, for different programs. Everything before an
// error is kept.
func (p *programs) add(id perfdata.FeatureID, section []byte) {
	var err error
	switch id {
	case perfdata.FeatureBPFProgInfo:
		var infos []*linear.Info
		infos, err = linear.DecodePrograms(section, p.order)
		for _, info := range infos {
			p.byID[info.ID] = info
			for _, addr := range info.Addresses {
				p.at[addr] = info.ID
			}
		}
	case perfdata.FeatureBPFBTF:
		var types []linear.BTF
		types, err = linear.DecodeBTF(section, p.order)
		for _, b := range types {
			p.types[b.ID] = b
		}
	}
	if p.err == nil {
		p.err = err
	}
}

// forget drops the programs of which no code is mapped now, and none was at the previous call. The description of a program comes before its
// code is mapped: that record waits for its round, which can take many calls on a busy machine.
func (p *programs) forget(mapped func(id uint32) bool) {
	known := map[uint32]programUse{}
	for id, info := range p.byID {
		use := p.known[id]
		use.idle++
		switch {
		case mapped(id):
			known[id] = programUse{mapped: true}
		case use.idle < 2 || !use.mapped && use.idle < mostUnmapped:
			known[id] = use
		default:
			delete(p.byID, id)
			delete(p.types, info.BTF)
			for _, addr := range info.Addresses {
				if p.at[addr] == id {
					delete(p.at, addr)
				}
			}
		}
	}
	p.known = known
}

// Programs returns the BPF programs that the recording describes, by ID. Those in a pipe are complete when Run has returned. Parts of a
// program that cannot be read are missing.
func (r *Replay) Programs() []*linear.Program {
	p := &r.machine.programs
	specs := make(map[uint32]*btf.Spec)
	for id, b := range p.types {
		if spec, err := linear.LoadBTF(b.Data); err == nil {
			specs[id] = spec
		}
	}
	var all []*linear.Program
	for _, id := range slices.Sorted(maps.Keys(p.byID)) {
		program, _ := p.byID[id].Program(specs[p.byID[id].BTF])
		all = append(all, program)
	}
	return all
}

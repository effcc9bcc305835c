package bpfprog

import (
	"fmt"

	"github.com/bperf/bperf/internal/bpfprog/linear"
)

// Handle keeps a program, and with it its BTF, as long as it is open. Opening one takes a microsecond, reading the program a hundred: where
// programs come and go, whoever wants to read many of them opens all that there are first.
type Handle struct{ d descriptor }

// Open opens a program. It fails with fs.ErrNotExist if there is none with the ID.
func Open(id uint32) (Handle, error) {
	d, err := programs.open(id)
	return Handle{d}, err
}

// Info reads what perf.data keeps of the program. Linux 5.1.
func (h Handle) Info() (*linear.Info, error) {
	info, err := h.d.linear()
	if err != nil {
		return nil, fmt.Errorf("read a BPF program: %w", err)
	}
	return info, nil
}

// Close lets the program go.
func (h Handle) Close() { h.d.close() }

// IDs are the IDs of all programs, ascending, as they are while this goes over them.
func IDs() ([]uint32, error) {
	var all []uint32
	for id, err := range programs.ids() {
		if err != nil {
			return nil, err
		}
		all = append(all, id)
	}
	return all, nil
}

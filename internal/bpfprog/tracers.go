package bpfprog

import (
	"errors"
	"fmt"
	"io/fs"
)

// Tracers returns the number of tracing programs that are attached to each program, by the program's ID. Each of them holds a reference
// to the program.
func Tracers(all []*Program) (map[uint32]int64, error) {
	ofProgram := make(map[uint32]bool) // tracing programs whose target is a program, not the kernel
	for _, p := range all {
		ofProgram[p.ID] = p.attachBTF == 0
	}
	tracers := make(map[uint32]int64)
	for id, err := range links.ids() {
		if err != nil {
			return nil, err
		}
		d, err := links.open(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		info, _, err := readLink(d)
		d.close()
		if err != nil {
			return nil, fmt.Errorf("read BPF link %d: %w", id, err)
		}
		if info.word(offsetKind) == linkTracing && ofProgram[info.word(offsetProgram)] {
			tracers[info.word(offsetTarget)]++
		}
	}
	return tracers, nil
}

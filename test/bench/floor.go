package main

import (
	"runtime"

	"github.com/bperf/bperf/test/binaries"
)

// compareFloor prints the costs of bperf beside those of a program below test/bench/floor, which does only what the kernel or Go's runtime
// has to do for it.
func (b *bench) compareFloor(name string, runs int, ours []string, floor string, args ...string) error {
	builder, err := binaries.New()
	if err != nil {
		return err
	}
	defer builder.Remove()
	file, err := builder.Program(runtime.GOARCH, "./test/bench/floor/"+floor)
	if err != nil {
		return err
	}
	costs, least, err := alternate(runs, append([]string{b.bperf}, ours...), append([]string{file}, args...))
	if err != nil {
		return err
	}
	printCosts(name, costs, least)
	return nil
}

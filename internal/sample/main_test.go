package sample

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/test/bpfprogram"
)

// loadVariable makes the test binary a program that is profiled: of Go, or one that runs a BPF program.
const loadVariable = "BPERF_SAMPLE_LOAD"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(loadVariable) {
	case "":
		os.Exit(m.Run())
	case "go":
		spendOnGo()
	case "bpf":
		err = spendOnBPF()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// timeVariable is how much CPU time the load takes.
const timeVariable = loadVariable + "_TIME"

func spent() time.Duration {
	d, err := time.ParseDuration(os.Getenv(timeVariable))
	if err != nil {
		panic(err)
	}
	return d
}

var sink uint64

// spendOnGo spends three parts of its time in one function, and one in another.
func spendOnGo() {
	for end := usedCPU() + spent(); usedCPU() < end; {
		for range 100 {
			threeParts(3000)
			onePart(1000)
		}
	}
}

//go:noinline
func threeParts(n uint64) {
	for i := range n {
		sink += i
	}
}

//go:noinline
func onePart(n uint64) {
	for i := range n {
		sink += i
	}
}

// spendOnBPF runs a BPF program, and unloads it.
func spendOnBPF() error {
	p, err := bpfprogram.Load()
	if err != nil {
		return err
	}
	for end := usedCPU() + spent(); usedCPU() < end; {
		if err := bpfprogram.Run(p, 1000); err != nil && err != syscall.EINTR {
			return err
		}
	}
	return p.Close()
}

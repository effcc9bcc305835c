package sample

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/test/bpfprogram"
	"github.com/bperf/bperf/test/require"
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

// spent is how much CPU time the load takes: emulated machines are given less.
func spent() time.Duration {
	if require.IsGuest() {
		return time.Second
	}
	return 2 * time.Second
}

var sink uint64

// spendOnGo spends three parts of its time in one function, and one in another.
func spendOnGo() {
	for usedCPU() < spent() {
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
	for usedCPU() < spent() {
		if err := bpfprogram.Run(p, 1000); err != nil && err != syscall.EINTR {
			return err
		}
	}
	return p.Close()
}

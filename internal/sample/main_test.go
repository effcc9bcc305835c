package sample

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/test/split"
	"github.com/bperf/bperf/test/stacks"
)

// loadVariable is the environment variable that makes the test binary a program to profile.
const loadVariable = "BPERF_SAMPLE_LOAD"

func TestMain(m *testing.M) {
	split.Main()
	var err error
	switch os.Getenv(loadVariable) {
	case "":
		os.Exit(m.Run())
	case "go":
		spendOnGo()
	case "sleep":
		err = sleepInFunctions()
	case "wall":
		spendOnGo()
		err = sleepInFunctions()
	case "handover":
		err = handOver()
	case "stacks":
		err = walkStacks()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// timeVariable is the environment variable with the CPU time of the load.
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

// The work of walkStacks: each of walkers threads takes page faults in ways different stacks, walks times.
const (
	walkers = 2
	ways    = 5000
	walks   = 4
)

func walkStacks() error {
	errs := make([]error, walkers)
	var threads sync.WaitGroup
	for i := range errs {
		threads.Go(func() { errs[i] = walkWithFaults() })
	}
	threads.Wait()
	return errors.Join(errs...)
}

func walkWithFaults() error {
	page, err := syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return err
	}
	for range walks {
		stacks.Walk(ways, func() {
			page[0] = 1
			err = errors.Join(err, syscall.Madvise(page, syscall.MADV_DONTNEED))
		})
	}
	return errors.Join(err, syscall.Munmap(page))
}

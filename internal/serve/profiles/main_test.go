package profiles

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

// loadVariable is the environment variable that makes the test binary a load, which uses that much CPU time.
const loadVariable = "BPERF_PROFILES_LOAD"

func TestMain(m *testing.M) {
	text := os.Getenv(loadVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	spend, err := time.ParseDuration(text)
	if err == nil {
		_, err = os.Stdin.Read(make([]byte, 1)) // until it is in its cgroup
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for usedCPU() < spend {
		for range 100 {
			threeParts(3000)
			onePart(1000)
		}
	}
}

func usedCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var sink uint64

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

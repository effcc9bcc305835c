package profiles

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/perfevent"
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
	_ = perfevent.OnCPU(0, func() error { // it cannot fail
		for usedCPU() < spend {
			spin(4000)
		}
		return nil
	})
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
func spin(n uint64) {
	for i := range n {
		sink += i
	}
}

package profiles

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/test/require"
)

// loadVariable is the environment variable that makes the test binary a load. It is the CPU time that the load uses for each byte that it
// reads; it answers with a line that has the CPU time which it has used so far, as far as timers see it.
const loadVariable = "BPERF_PROFILES_LOAD"

// emulated says that this is a guest whose clock counts its instructions. No host steals time from it: in a gap, its kernel worked in the
// process's time, for instance in interrupts, and timers see that.
var emulated = require.IsGuest() && runtime.GOARCH == "arm64"

func TestMain(m *testing.M) {
	text := os.Getenv(loadVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	spend, err := time.ParseDuration(text)
	if err == nil {
		err = perfevent.OnCPU(0, func() error {
			for stolen := time.Duration(0); ; fmt.Println(usedCPU() - stolen) {
				if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
					return err
				}
				if missed := useCPU(spend); !emulated {
					stolen += missed
				}
			}
		})
	}
	if err != io.EOF {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// truthPeriod is the time between two samples of TestTruth.
const truthPeriod = time.Second / 999

// useCPU uses CPU time. While the host of a virtual machine runs something else on the CPU, the time goes on for the process, but of all
// expirations of a timer in that time there is only one, afterwards. useCPU returns the time that a timer with truthPeriod misses so, which
// is not part of spend.
func useCPU(spend time.Duration) (stolen time.Duration) {
	start := usedCPU()
	for last := start; last-start-stolen < spend; {
		spin(4000)
		now := usedCPU()
		stolen += max(0, now-last-truthPeriod)
		last = now
	}
	return stolen
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

package perfevent

import (
	"errors"
	"math"
	"testing"

	"golang.org/x/sys/unix"
)

func TestClockFrequency(t *testing.T) {
	for name, c := range map[string]struct {
		page unix.PerfEventMmapPage
		want float64
		err  error
	}{
		"2.1 GHz":       {unix.PerfEventMmapPage{Capabilities: 1<<2 | 1<<3, Time_shift: 31, Time_mult: 1022611261}, 2.1e9, nil},
		"1 GHz":         {unix.PerfEventMmapPage{Capabilities: 1 << 3, Time_shift: 10, Time_mult: 1024}, 1e9, nil},
		"another clock": {unix.PerfEventMmapPage{Capabilities: 1 << 2, Time_shift: 10, Time_mult: 1024}, 0, ErrNoClock},
		"no factor":     {unix.PerfEventMmapPage{Capabilities: 1 << 3, Time_shift: 10}, 0, ErrNoClock},
	} {
		got, err := clockFrequency(&c.page)
		if !errors.Is(err, c.err) || math.Abs(got-c.want) > 1e-8*c.want {
			t.Errorf("%s: got %v, %v, want %v, %v", name, got, err, c.want, c.err)
		}
	}
}

// TestClockOfHost reads the frequency of this machine's counter, which not every kernel uses.
func TestClockOfHost(t *testing.T) {
	hz, err := ClockFrequency()
	switch {
	case errors.Is(err, ErrNoClock):
		t.Log(err)
	case err != nil:
		t.Error(err)
	case hz < 1e6 || hz > 1e10: // the generic timer of arm64 runs at 1 MHz to 1 GHz (Arm ARM, D12.1.2), the TSC at some GHz
		t.Errorf("the time stamp counter runs at %v Hz", hz)
	default:
		t.Logf("the time stamp counter runs at %v Hz", hz)
	}
}

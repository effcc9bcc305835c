package count

import (
	"errors"
	"syscall"
	"testing"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
)

func reading(value, enabled, running uint64) perfevent.Reading {
	return perfevent.Reading{Value: value, Enabled: enabled, Running: running}
}

func TestSum(t *testing.T) {
	tests := []struct {
		name            string
		readings        []perfevent.Reading
		raw             bool
		want            Total
		counted, scaled bool
	}{
		{name: "nothing", want: Total{}},
		{name: "exact", readings: []perfevent.Reading{reading(10, 100, 100), reading(20, 100, 100)}, want: Total{30, 200, 200}, counted: true},
		{name: "exact and zero", readings: []perfevent.Reading{reading(0, 100, 100)}, want: Total{0, 100, 100}, counted: true},
		{name: "each by its own times", readings: []perfevent.Reading{reading(10, 100, 50), reading(20, 100, 25)}, want: Total{100, 200, 75}, counted: true, scaled: true},
		{name: "one of two scaled", readings: []perfevent.Reading{reading(10, 100, 100), reading(10, 100, 50)}, want: Total{30, 200, 150}, counted: true, scaled: true},
		{name: "raw", readings: []perfevent.Reading{reading(10, 100, 50), reading(20, 100, 25)}, raw: true, want: Total{30, 200, 75}, counted: true, scaled: true},
		{name: "never ran", readings: []perfevent.Reading{reading(0, 100, 0)}, want: Total{0, 100, 0}},
		{name: "never enabled", readings: []perfevent.Reading{reading(0, 0, 0)}, want: Total{}},
		{name: "one of two never ran", readings: []perfevent.Reading{reading(10, 100, 100), reading(0, 100, 0)}, want: Total{20, 200, 100}, counted: true, scaled: true},
		{name: "a third never ran, one is scaled", readings: []perfevent.Reading{reading(10, 100, 50), reading(10, 100, 100), reading(0, 100, 0)}, want: Total{45, 300, 150}, counted: true, scaled: true},
		{name: "raw with one that never ran", readings: []perfevent.Reading{reading(10, 100, 100), reading(0, 100, 0)}, raw: true, want: Total{10, 200, 100}, counted: true, scaled: true},
		{name: "one was not enabled", readings: []perfevent.Reading{reading(10, 100, 100), reading(0, 0, 0)}, want: Total{10, 100, 100}, counted: true},
		{name: "ran longer than enabled", readings: []perfevent.Reading{reading(10, 100, 101)}, want: Total{10, 100, 101}, counted: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Sum(tt.readings, tt.raw)
			if got != tt.want || got.Counted() != tt.counted || got.Scaled() != tt.scaled {
				t.Errorf("got %+v, counted %v, scaled %v; want %+v, %v, %v",
					got, got.Counted(), got.Scaled(), tt.want, tt.counted, tt.scaled)
			}
		})
	}
}

func TestUnsupported(t *testing.T) {
	u := &Unsupported{Event: &event.Event{Name: "cycles"}, Err: syscall.ENOENT, Reason: "There is none."}
	if got, want := u.Error(), "cycles: There is none."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	u.Remedy = "Buy one."
	if got, want := u.Error(), "cycles: There is none. Buy one."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !errors.Is(u, syscall.ENOENT) {
		t.Error("does not wrap the errno")
	}
}

package cli

import (
	"errors"
	"slices"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/sample"
)

// blockedOptions are the flags of profile that measure how long threads are blocked.
type blockedOptions struct {
	blocked bool // only blocked time, and events only if the user gives them
	wall    bool // blocked time and the time on CPUs
}

func (o *blockedOptions) add(f *pflag.FlagSet) {
	f.BoolVar(&o.blocked, "off-cpu", false, "measure how long threads are blocked, and sample only the events that are given")
	f.BoolVar(&o.wall, "wall", false, "show the time on CPUs and the time that threads are blocked in one graph")
}

// prepareBlocked selects the events, and the keys of --by if the user did not give them.
func (o *profileOptions) prepareBlocked(given func(string) bool) error {
	if !o.blocked && !o.wall {
		return nil
	}
	if !given("by") {
		o.by = []string{"comm", "state", "stack"}
	}
	if !o.wall {
		return nil
	}
	if given("event") {
		return errors.New("--wall samples cpu-clock, the time on CPUs, and no other events: leave out -e, or use --off-cpu instead")
	}
	o.events = slices.Insert(o.events, 0, eventArg{argEvents, "cpu-clock"})
	return nil
}

// wallClock names the event whose values add up the time on CPUs and the blocked time.
const wallClock = "wall-clock"

// setBlocked configures a session that measures blocked time.
func (o *profileOptions) setBlocked(given func(string) bool, cfg *sample.Config) {
	cfg.OffCPU, cfg.Wall = o.blocked && !o.wall, o.wall
	switch {
	case o.wall:
		renamed := *cfg.Record.Events[0].Events[0]
		renamed.Name = wallClock
		group := cfg.Record.Events[0]
		group.Events = []*event.Event{&renamed}
		cfg.Record.Events = event.List{group}
		cfg.Record.NoIdle = true // idle time is not a thread's time
		cfg.Keep |= profile.Other
	case o.blocked && !given("event"):
		cfg.Record.Events, cfg.Record.EventCgroups = nil, nil
	}
}

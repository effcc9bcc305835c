package node

import (
	"errors"
	"time"

	"github.com/bperf/bperf/internal/serve/container"
)

// Config says what a Collector counts.
type Config struct {
	Events []string              // in perf's syntax, each string one event or a list
	Most   int                   // count only this many events, the first ones: the others are given up to keep a budget; 0 for all
	Dirs   container.Dirs        // those of container.FindDirs if empty
	Names  func(*container.Name) // adds the names of a container that the node's files do not have, as container.NewTree takes it; nil for none
	Share  string                // directory in bpffs of the sessions to share perf events with, usually shared.Dir; empty to share none
	Inside Inside                // what is counted inside BPF programs
	Duty   Duty                  // one second in sixty if zero

	// NoContainers counts nothing of containers, and runs nothing at context switches: they are given up to keep a budget.
	NoContainers bool
}

// Duty says when the kernel counts the runs of BPF programs: for the time For, once in the time Every.
type Duty struct {
	Every, For time.Duration
}

// defaultDuty is one second in sixty. While the kernel counts runs, each run of each BPF program of the machine takes 20 to 44 ns longer.
var defaultDuty = Duty{time.Minute, time.Second}

// withDefaults returns the configuration with the defaults of what is not set.
func (c Config) withDefaults() (Config, error) {
	if c.Duty == (Duty{}) {
		c.Duty = defaultDuty
	}
	if c.Duty.For <= 0 || c.Duty.Every < c.Duty.For {
		return c, errors.New("count the runs of BPF programs: the time for which they are counted must be above 0, and at most the time between")
	}
	return c, nil
}

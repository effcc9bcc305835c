// Package node counts for the daemon: events of each CPU and of each container, and the runs of BPF programs. It drives the engines of
// package count and of package bpfprog, and measures nothing itself.
package node

import (
	"time"

	"github.com/bperf/bperf/internal/count/process"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/serve/container"
)

// Snapshot has the counts since the collector was opened. Nobody may change it.
type Snapshot struct {
	Time       time.Time
	Events     []Event // each once, by name
	CPUs       []CPU
	Containers []Container // those that run, and those that ended a short time ago; also units of systemd, without an ID
	Programs   []Program   // those that are loaded

	Inside       []InProgram // the BPF programs in which something is counted; nil if the configuration asks for none
	InsideEvents []Event     // that are counted in them

	NoContainers string // why there are none, or why some are missing; "" if they are there
	NoPrograms   string // why Programs are missing or old; "" if they are there
	NoInside     string // why nothing is counted inside BPF programs, or not in all that the configuration selects; "" if it is
	NotShared    string // why the events take counters of their own beside those of other sessions, though Config.Share is set; "" if they do not

	Losses []Loss
	Self   Self
}

// Event is an event that the collector counts, or that this machine cannot count.
type Event struct {
	Name   string // as the user gave it
	Reason string // why it is not counted; "" if it is
}

// CPU has the counts of a CPU that is or was online.
type CPU struct {
	Number   int
	Readings []perfevent.Reading // by event; those of an event with a reason mean nothing; without time enabled, the CPU cannot count the event
}

// Container has the counts of a container, or of a unit of systemd: of its cgroup and of the cgroups below it that belong to no other
// Container. So nothing is counted for two of them.
type Container struct {
	container.Name
	CPUTime  time.Duration
	OffCPU   [process.Reasons]time.Duration // that its threads were on no CPU, by process.Reason; counted when a thread has run again
	Switches uint64                         // times that one of its threads left a CPU
	Readings []perfevent.Reading            // by event, as those of a CPU
	Ended    bool                           // its cgroup is gone
}

// Program has the statistics of a loaded BPF program. Counting runs makes each of them slower, so the kernel counts them only in windows:
// Runs and Time are those in the windows, and Window is the time of all windows. Rates are Runs/Window and Time/Window.
type Program struct {
	ID   uint32
	Name string
	Type string
	Tag  string
	Runs uint64
	Time time.Duration // of these runs

	Window time.Duration
}

// Loss is something that the collector could not count.
type Loss struct {
	What  string // a word or two for a label, such as "cgroup_switches"
	Count uint64
}

// Self is the cost of the daemon.
type Self struct {
	CPUTime  time.Duration            // of the process, user and system
	Memory   uint64                   // resident, in bytes
	Unfiled  uint64                   // the part of Memory that is of no file, in bytes: the kernel cannot drop it
	Programs map[string]time.Duration // run time of its own BPF programs in the windows, by name; those of profiles have one name
	Window   time.Duration            // time of all windows

	// PerSwitch is the run time of its own BPF programs for each context switch of the machine in the last window, in seconds; 0 if unknown.
	// Most of their runs are at context switches, so PerSwitch times the switches estimates their run time between windows.
	PerSwitch float64
}

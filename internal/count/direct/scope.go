package direct

import (
	"fmt"
	"os"
	"slices"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
)

// scope is what one perf event can count; the fields are as in count.Cell.
type scope struct{ cpu, thread, cgroup int }

// allScopes returns the scopes of a target: its threads, or its CPUs, or each of its cgroups on its CPUs.
func allScopes(t target.Target) []scope {
	var scopes []scope
	for i := range t.Threads {
		scopes = append(scopes, scope{count.None, i, count.None})
	}
	if len(t.Threads) > 0 {
		return scopes
	}
	for cgroup := range max(len(t.Cgroups), 1) {
		if len(t.Cgroups) == 0 {
			cgroup = count.None
		}
		for _, cpu := range t.CPUs {
			scopes = append(scopes, scope{cpu, count.None, cgroup})
		}
	}
	return scopes
}

// describeScopes returns the target's scopes for an error message, such as "on 2 CPUs".
func describeScopes(t target.Target) string {
	switch {
	case len(t.Threads) > 0:
		return "for " + number(len(t.Threads), "thread")
	case len(t.Cgroups) > 0:
		return "on " + number(len(t.CPUs), "CPU") + " for " + number(len(t.Cgroups), "cgroup")
	default:
		return "on " + number(len(t.CPUs), "CPU")
	}
}

// number returns "1 thread" or "2 threads".
func number(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func (at scope) describe(t target.Target) string {
	switch {
	case at.thread != count.None:
		thread := t.Threads[at.thread]
		return fmt.Sprintf("for thread %d (%s)", thread.TID, thread.Comm)
	case at.cgroup != count.None:
		return fmt.Sprintf("for cgroup %s on CPU %d", t.Cgroups[at.cgroup].Name, at.cpu)
	default:
		return fmt.Sprintf("on CPU %d", at.cpu)
	}
}

// SelectCPUs returns the CPUs of a target on which an event is counted, nil for all of them. It is for engines that open events
// themselves. The error is a *count.Unsupported if there is none.
func SelectCPUs(e *event.Event, t target.Target) ([]int, error) {
	return selectCPUs(e, t, newOpener(os.DirFS("/"), t, count.Options{}).topology)
}

// selectCPUs returns the CPUs of the target on which an event is counted. It returns nil for all of them, and for threads,
// whose events follow them to any CPU. The error is a *count.Unsupported if there is none.
func selectCPUs(e *event.Event, t target.Target, topology func() (target.Topology, error)) ([]int, error) {
	if e.Uncore && (len(t.Threads) > 0 || len(t.Cgroups) > 0) {
		return nil, &count.Unsupported{Event: e,
			Reason: fmt.Sprintf("The PMU %s counts for all that runs, not for single threads or cgroups.", e.PMU),
			Remedy: "Count it for the system (-a) or for CPUs (-C)."}
	}
	if len(t.Threads) > 0 || e.CPUs == nil && !e.PerPkg {
		return nil, nil
	}
	cpus := t.CPUs
	if e.CPUs != nil {
		cpus = slices.DeleteFunc(slices.Clone(cpus), func(cpu int) bool { return !slices.Contains(e.CPUs, cpu) })
	}
	if len(cpus) == 0 {
		return nil, &count.Unsupported{Event: e,
			Reason: fmt.Sprintf("The PMU %s counts on CPU %s, of which none is asked for.", e.PMU, procfs.FormatCPUList(e.CPUs)),
			Remedy: "Count it for the system (-a), or name one of these CPUs with -C."}
	}
	if !e.PerPkg {
		return cpus, nil
	}
	where, err := topology()
	if err != nil {
		return nil, err
	}
	return onePerSocket(cpus, where), nil
}

func onePerSocket(cpus []int, topology target.Topology) []int {
	seen := make(map[int]bool)
	return slices.DeleteFunc(slices.Clone(cpus), func(cpu int) bool {
		socket := topology[cpu].Socket
		again := seen[socket]
		seen[socket] = true
		return again
	})
}

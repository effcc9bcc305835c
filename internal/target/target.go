// Package target selects who is measured: the system, CPUs, processes, threads, cgroups or a command. A Spec is the user's selection; a
// Target is what it resolves to on this machine. The package also starts commands, and reads where the machine's CPUs sit.
package target

// Target is who is measured. The zero value measures nobody.
//
// With Threads, counters follow these threads wherever they run. Without Threads, counters belong to CPUs; with Cgroups they count only
// while a task of the cgroup runs there.
type Target struct {
	CPUs    []int // CPUs to count on, ascending; all online CPUs for the whole system
	Threads []Thread
	Cgroups []Cgroup

	Offline []int // CPUs that were requested and left out, because they are offline; ascending
}

// Thread is a thread that is measured.
type Thread struct {
	TID  int
	PID  int    // the process ID
	Comm string // the process's name when the target was resolved; with Spec.ThreadNames and for Spec.TIDs the thread's own name
}

// Cgroup is a control group that is measured.
type Cgroup struct {
	Name string // as the user wrote it
	Path string // its directory in the mounted hierarchy
}

// SameThreads reports whether both targets have the same threads, in any order. Counters are opened thread by thread, so a thread that
// starts in between can be missed. A caller therefore lists the threads again after opening, and reopens the counters if SameThreads
// returns false.
func (t Target) SameThreads(o Target) bool {
	return len(t.Threads) == len(o.Threads) && t.new(o) == 0
}

// new returns the number of threads of t that an earlier listing does not have.
func (t Target) new(earlier Target) int {
	had := make(map[int]bool, len(earlier.Threads))
	for _, thread := range earlier.Threads {
		had[thread.TID] = true
	}
	n := 0
	for _, thread := range t.Threads {
		if !had[thread.TID] {
			n++
		}
	}
	return n
}

// Package target says who is measured: the system, CPUs, processes, threads, cgroups or a command.
package target

// Target is who is measured. The zero value is nobody.
//
// With Threads, counters follow these threads wherever they run. Without, they belong to CPUs, and
// with Cgroups count only while a task of the cgroup runs there.
type Target struct {
	CPUs    []int // CPUs to count on, ascending; all that are online for the whole system
	Threads []Thread
	Cgroups []Cgroup

	Offline []int // CPUs that were asked for and left out, as they are offline; ascending
}

// Thread is a thread that is measured.
type Thread struct {
	TID  int
	PID  int    // of its process
	Comm string // its process's name when the target was resolved; its own with Spec.ThreadNames, and for Spec.TIDs
}

// Cgroup is a control group that is measured.
type Cgroup struct {
	Name string // as the user wrote it
	Path string // directory in the mounted hierarchy
}

// SameThreads reports whether both targets have the same threads, in any order. Counters are opened
// thread by thread, so a thread that starts meanwhile can be missed: whoever opens lists again
// afterwards and, where this is false, opens anew.
func (t Target) SameThreads(o Target) bool {
	return len(t.Threads) == len(o.Threads) && t.new(o) == 0
}

// new is the number of threads that t has and an earlier listing had not.
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

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
}

// Thread is a thread that is measured.
type Thread struct {
	TID  int
	PID  int    // of its process
	Comm string // its name, as /proc/TID/comm gave it when the target was resolved
}

// Cgroup is a control group that is measured.
type Cgroup struct {
	Name string // as the user wrote it
	Path string // directory in the mounted hierarchy
}

package sample

import (
	"fmt"
	"slices"
	"strings"
)

// Keys select the fields by which samples of an event are grouped.
type Keys struct {
	Stack    bool // kernel and user stack
	IP       bool // the instruction pointer
	PID, TID bool
	Comm     bool // the name of the thread
	CPU      bool
	Cgroup   bool
	Priority bool // the scheduler's priority: up to 99 for real-time tasks, 100 and above for others
	Addr     bool // address of the accessed data, if the event has it
	State    bool // state of the thread: running, unless it has just begun to wait
	Waker    bool // of blocked threads: the thread that woke them

	// Fields of the kernel's sample (Linux 6.2). They are 0 if the event does not have them, and for blocked threads.
	Weight   bool // cost of the access, in a unit of the PMU, often cycles
	DataSrc  bool // level of the memory hierarchy that had the data
	PhysAddr bool // the physical address of Addr
}

// names has the words of --by, and sets the keys that the kernel needs for each.
var names = []struct {
	name string
	add  func(*Keys)
}{
	{"stack", func(k *Keys) { k.Stack, k.PID = true, true }},
	{"ip", func(k *Keys) { k.IP, k.PID = true, true }},
	{"function", func(k *Keys) { k.IP, k.PID = true, true }},
	{"comm", func(k *Keys) { k.Comm = true }},
	{"pid", func(k *Keys) { k.PID, k.Comm = true, true }},
	{"tid", func(k *Keys) { k.PID, k.TID, k.Comm = true, true, true }},
	{"cpu", func(k *Keys) { k.CPU = true }},
	{"priority", func(k *Keys) { k.Priority = true }},
	{"cgroup", func(k *Keys) { k.Cgroup = true }},
	{"container", func(k *Keys) { k.Cgroup = true }},
	{"addr", func(k *Keys) { k.Addr = true }},
	{"phys_addr", func(k *Keys) { k.PhysAddr = true }},
	{"data_src", func(k *Keys) { k.DataSrc = true }},
	{"weight", func(k *Keys) { k.Weight = true }},
	{"state", func(k *Keys) { k.State = true }},
	{"waker", func(k *Keys) { k.Waker = true }},
	{"prog", func(k *Keys) { k.IP, k.PID = true, true }},
}

// KeyNames returns the names that ParseKeys accepts.
func KeyNames() []string {
	var all []string
	for _, n := range names {
		all = append(all, n.name)
	}
	return all
}

// ParseKeys returns the keys with the given names.
func ParseKeys(list []string) (Keys, error) {
	var k Keys
	for _, name := range list {
		i := slices.IndexFunc(names, func(n struct {
			name string
			add  func(*Keys)
		}) bool {
			return n.name == name
		})
		if i < 0 {
			return Keys{}, fmt.Errorf("unknown key %q; valid keys are %s", name, strings.Join(KeyNames(), ", "))
		}
		names[i].add(&k)
	}
	if k.Stack { // a stack begins with the instruction pointer
		k.IP = false
	}
	return k, nil
}

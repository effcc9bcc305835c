package sample

import (
	"fmt"
	"slices"
	"strings"
)

// Keys are what samples with the same event are grouped by.
type Keys struct {
	Stack    bool // of the kernel and the user
	IP       bool // the instruction pointer
	PID, TID bool
	Comm     bool // the name of the thread
	CPU      bool
	Cgroup   bool
	Priority bool // as the scheduler has it: up to 99 for real-time tasks, 100 and above for others
	Addr     bool // of the data that was accessed, where the event tells that
	State    bool // of the thread, which is running where it did not just begin to wait
	Waker    bool // of threads that were blocked: who let them run again

	// What the kernel's own samples have: Linux 6.2. It is 0 where the event has none, and of blocked threads.
	Weight   bool // what the access cost; the unit is the PMU's, often cycles
	DataSrc  bool // where in the memory hierarchy the data was
	PhysAddr bool // the physical address of Addr
}

// names are the words of --by, each with the keys that the kernel needs for it.
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

// KeyNames are the names that ParseKeys knows.
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
	if k.Stack { // which begins with the instruction pointer
		k.IP = false
	}
	return k, nil
}

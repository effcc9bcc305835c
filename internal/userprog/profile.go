package userprog

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/typed"
)

// Profile is a map that counts by process, CPU, stack or the like. Its key is a structure with at least one member that bperf knows, and its
// value is a number or a structure with numbers. bperf knows members by the names that bcc's tools, and tools modelled on them, use. A
// Profile is not safe for concurrent use.
type Profile struct {
	Map    string
	Values []string // the map's name or, for each number of a structure, MAP.MEMBER
	Labels []string // members of the key that bperf does not know

	NoStack uint64 // stacks that Each did not find, because another stack took their place in the map of stacks
	Cut     bool   // Each skipped entries: the map has more than mostRows, or it changed too fast

	object *object
	columns
	previous map[string][]uint64 // the values of each key at the last call of Each; nil if Each is called only once
}

// columns are the members of the key and of the value. Pointers are nil if the key does not have the member.
type columns struct {
	process, thread, cpu, cgroup, ip *typed.Column

	comm        *typed.Column
	commInValue bool // comm is a member of the value

	stacks, labels []typed.Column
	values         []typed.Column
}

// Entry is an entry of a map that is a profile.
type Entry struct {
	PID, TID, CPU int32  // -1 if unknown
	Comm          string // empty if unknown
	Cgroup        uint64 // ID of the cgroup; 0 if unknown
	IP            uint64
	Kernel, User  []uint64 // stacks, innermost frame first
	Labels        []string // as Profile.Labels
	Values        []uint64 // as Profile.Values
}

// Profiles returns the maps of all objects that are profiles. p may be nil.
func (p *Programs) Profiles() []*Profile {
	if p == nil {
		return nil
	}
	var all []*Profile
	for _, o := range p.objects {
		for _, name := range slices.Sorted(maps.Keys(o.spec.Maps)) {
			if m := o.profile(o.spec.Maps[name]); m != nil {
				all = append(all, m)
			}
		}
	}
	return all
}

// profile returns a map as a Profile, or nil if the map is no profile.
func (o *object) profile(spec *ebpf.MapSpec) *Profile {
	if !readable(spec.Type) || !typed.IsStruct(spec.Key) || spec.Value == nil {
		return nil
	}
	m := &Profile{Map: spec.Name, object: o}
	m.takeKey(typed.Columns("key", spec.Key, spec.KeySize))
	known := m.process != nil || m.thread != nil || m.cpu != nil || m.cgroup != nil || m.ip != nil || m.comm != nil || len(m.stacks) > 0
	if !known {
		return nil
	}
	for _, c := range typed.Columns("value", spec.Value, spec.ValueSize) {
		switch {
		case m.comm == nil && isComm(&c):
			m.comm, m.commInValue = &c, true
		case c.IsNumber() && !strings.Contains(c.Name, "["):
			name := spec.Name
			if typed.IsStruct(spec.Value) {
				name += "." + c.Name
			}
			m.Values, m.values = append(m.Values, name), append(m.values, c)
		}
	}
	if len(m.values) == 0 {
		return nil
	}
	return m
}

// takeKey finds the members of the key that bperf knows. The others become labels.
func (m *Profile) takeKey(members []typed.Column) {
	take := func(is func(*typed.Column) bool) *typed.Column {
		i := slices.IndexFunc(members, func(c typed.Column) bool { return is(&c) })
		if i < 0 {
			return nil
		}
		c := members[i]
		members = slices.Delete(members, i, i+1)
		return &c
	}
	number := func(names ...string) *typed.Column {
		return take(func(c *typed.Column) bool { return c.IsNumber() && slices.Contains(names, c.LastName()) })
	}
	m.comm = take(isComm)
	m.process, m.thread = number("tgid"), number("tid")
	if m.process == nil {
		m.process = number("pid")
	} else if m.thread == nil {
		m.thread = number("pid")
	}
	m.cpu, m.cgroup, m.ip = number("cpu", "cpu_id"), number("cgroup", "cgroup_id", "cgid"), number("ip")
	for {
		c := take(func(c *typed.Column) bool {
			return c.IsNumber() && c.Size() >= 4 && strings.Contains(c.LastName(), "stack") && m.object.stacksOf(c) != nil
		})
		if c == nil {
			break
		}
		m.stacks = append(m.stacks, *c)
	}
	m.labels = members
	for _, c := range m.labels {
		m.Labels = append(m.Labels, c.Name)
	}
}

// hasStack reports whether entries have stacks.
func (m *Profile) hasStack() bool { return len(m.stacks) > 0 }

// Keys returns the keys that best distinguish the entries: names of Labels, and "comm", "cgroup", "stack", "ip" and "cpu". A process or thread
// counts as "comm"; "cpu" is a key only if there is no other.
func (m *Profile) Keys() []string {
	var keys []string
	if m.comm != nil || m.process != nil || m.thread != nil {
		keys = append(keys, "comm")
	}
	if m.cgroup != nil {
		keys = append(keys, "cgroup")
	}
	keys = append(keys, m.Labels...)
	switch {
	case m.hasStack():
		keys = append(keys, "stack")
	case m.ip != nil:
		keys = append(keys, "ip")
	case len(keys) == 0:
		keys = append(keys, "cpu")
	}
	return keys
}

// isComm reports whether c is the name of a thread: 16 characters (TASK_COMM_LEN in include/linux/sched.h).
func isComm(c *typed.Column) bool {
	return c.IsText() && c.Size() == 16 && slices.Contains([]string{"comm", "name", "task"}, c.LastName())
}

// stacksOf returns the map of type STACK_TRACE to whose stacks the member c refers, or nil if the object has none. Of several maps it returns
// the one whose name has the longest common prefix with the member's name.
func (o *object) stacksOf(c *typed.Column) *ebpf.MapSpec {
	const withBuildIDs = 1 << 5 // BPF_F_STACK_BUILD_ID in include/uapi/linux/bpf.h: such a map has no addresses
	var all []*ebpf.MapSpec
	for _, name := range slices.Sorted(maps.Keys(o.spec.Maps)) {
		if m := o.spec.Maps[name]; m.Type == ebpf.StackTrace && m.Flags&withBuildIDs == 0 {
			all = append(all, m)
		}
	}
	if len(all) == 0 {
		return nil
	}
	name := c.LastName()
	return slices.MaxFunc(all, func(a, b *ebpf.MapSpec) int { return commonPrefix(a.Name, name) - commonPrefix(b.Name, name) })
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Each calls do for each entry with a value other than 0. With again, Each will be called again: then each call passes the growth of the values
// since the previous call. Programs.Load must come first.
func (m *Profile) Each(again bool, do func(*Entry) error) error {
	if again && m.previous == nil {
		m.previous = make(map[string][]uint64)
	}
	spec := m.object.spec.Maps[m.Map]
	cut, err := eachEntry(spec, m.object.loaded.Maps[m.Map], func(key []byte, each [][]byte) error {
		e, err := m.entry(key, each)
		if err != nil || !m.isNew(key, e) {
			return err
		}
		return do(e)
	})
	if err != nil {
		return fmt.Errorf("%s: read the map %s: %w", m.object.file, m.Map, err)
	}
	m.Cut = m.Cut || cut
	return nil
}

// isNew subtracts the values of the previous call of Each. It returns false if all values are then 0.
func (m *Profile) isNew(key []byte, e *Entry) bool {
	if m.previous != nil {
		before := m.previous[string(key)]
		m.previous[string(key)] = slices.Clone(e.Values)
		for i, b := range before {
			if e.Values[i] >= b { // if not, the program deleted the entry and created it again
				e.Values[i] -= b
			}
		}
	}
	return slices.ContainsFunc(e.Values, func(v uint64) bool { return v != 0 })
}

// entry makes an entry of a key and the values of all CPUs.
func (m *Profile) entry(key []byte, each [][]byte) (*Entry, error) {
	e := &Entry{PID: idOf(m.process, key), TID: idOf(m.thread, key), CPU: idOf(m.cpu, key), Cgroup: numberOf(m.cgroup, key), IP: numberOf(m.ip, key)}
	if m.thread == nil {
		e.TID = e.PID
	}
	switch {
	case m.commInValue:
		for _, value := range each { // values of CPUs without an entry are empty
			if e.Comm == "" {
				e.Comm = m.comm.Read(value).(string)
			}
		}
	case m.comm != nil:
		e.Comm = m.comm.Read(key).(string)
	}
	for _, c := range m.labels {
		e.Labels = append(e.Labels, fmt.Sprint(c.Read(key)))
	}
	for _, c := range m.values {
		e.Values = append(e.Values, natural(c.Sum(each)))
	}
	for _, c := range m.stacks {
		stack, err := m.stack(&c, key)
		if err != nil {
			return nil, err
		}
		if len(stack) > 0 && int64(stack[0]) < 0 { // kernel addresses are in the upper half
			e.Kernel = stack
		} else if len(stack) > 0 {
			e.User = stack
		}
	}
	return e, nil
}

// numberOf returns member c of a key as a number, or 0 if c is nil.
func numberOf(c *typed.Column, key []byte) uint64 {
	if c == nil {
		return 0
	}
	return natural(c.Read(key))
}

// idOf returns member c of a key as an ID, or -1 if c is nil.
func idOf(c *typed.Column, key []byte) int32 {
	if c == nil {
		return -1
	}
	return int32(numberOf(c, key))
}

// natural returns a cell as a number, or 0 if the cell is negative or no number.
func natural(cell any) uint64 {
	switch n := cell.(type) {
	case uint64:
		return n
	case int64:
		return uint64(max(0, n))
	}
	return 0
}

// stack reads the stack whose ID is member c of the key. It returns nil for a negative ID, which is an error of bpf_get_stackid.
func (m *Profile) stack(c *typed.Column, key []byte) ([]uint64, error) {
	const taken = -int32(syscall.EEXIST) // another stack has its place
	var id int32
	switch n := c.Read(key).(type) {
	case uint64:
		id = int32(n)
	case int64:
		id = int32(n)
	}
	if id == taken {
		m.NoStack++
	}
	if id < 0 {
		return nil, nil
	}
	b, err := m.object.loaded.Maps[m.object.stacksOf(c).Name].LookupBytes(uint32(id))
	if err != nil {
		return nil, fmt.Errorf("read a stack: %w", err)
	}
	if b == nil { // deleted, or replaced by another stack
		m.NoStack++
	}
	var stack []uint64
	for ; len(b) >= 8; b = b[8:] {
		ip := binary.NativeEndian.Uint64(b)
		if ip == 0 {
			break
		}
		stack = append(stack, ip)
	}
	return stack, nil
}

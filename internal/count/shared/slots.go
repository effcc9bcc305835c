package shared

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
)

// key identifies an event: events are the same if their attributes are the same bit for bit, and so are their filters.
type key struct {
	attr   perfdata.Attr
	filter string
}

const attrSize = int(unsafe.Sizeof(perfdata.Attr{}))

func (k key) bytes() []byte {
	k.attr.Size = uint32(attrSize)
	return bytes.Clone((*[attrSize]byte)(unsafe.Pointer(&k.attr))[:])
}

func (s *countersSlot) used() bool { return s.Attr != [len(s.Attr)]uint8{} }

func (s *countersSlot) is(k key) bool {
	return bytes.Equal(s.Attr[:], k.bytes()) && text(s.Filter[:]) == k.filter
}

func (s *countersSlot) attr() perfdata.Attr {
	return *(*perfdata.Attr)(unsafe.Pointer(&s.Attr))
}

func (s *countersSlot) has(cpu int) bool { return s.Cpus[cpu/64]>>(cpu%64)&1 != 0 }

func (s *countersSlot) mark(cpu int, has bool) {
	bit := uint64(1) << (cpu % 64)
	s.Cpus[cpu/64] &^= bit
	if has {
		s.Cpus[cpu/64] |= bit
	}
}

// maxCPUs is the number of CPUs in a slot's mask. The maximum that Linux can be configured for is 8192 on x86.
const maxCPUs = len(countersSlot{}.Cpus) * 64

func text(b []uint8) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return string(before)
}

// slots is the table of shared events.
type slots struct {
	o     *objects
	table []countersSlot
}

func readSlots(o *objects) (*slots, error) {
	s := &slots{o: o, table: make([]countersSlot, maxEvents)}
	if err := readArray(o.maps[countersMapSlots], s.table); err != nil {
		return nil, fmt.Errorf("read the table of events: %w", err)
	}
	return s, nil
}

func (s *slots) put(slot int) error {
	if err := s.o.maps[countersMapSlots].Put(uint32(slot), &s.table[slot]); err != nil {
		return fmt.Errorf("write the table of events: %w", err)
	}
	return nil
}

// index returns the index of a slot's perf event for a CPU in the map of events.
func index(slot, cpu int) (uint32, error) {
	cpus, err := ebpf.PossibleCPU()
	return uint32(slot*cpus + cpu), err
}

// find returns the slots of an event that are in use. There are two if an upstream leader counts the event, but not on all CPUs that another
// session needs, so that bperf opened its own perf events.
func (s *slots) find(k key) (found []int) {
	for i := range s.table {
		if s.table[i].is(k) {
			found = append(found, i)
		}
	}
	return found
}

// add makes a slot for an event. The caller writes it to the map.
func (s *slots) add(k key, e *event.Event) (int, error) {
	i := slices.IndexFunc(s.table, func(c countersSlot) bool { return !c.used() })
	if i < 0 {
		return 0, fmt.Errorf("all sessions together share %d events already: no more can", maxEvents)
	}
	c := &s.table[i]
	*c = countersSlot{Since: uint64(time.Now().UnixNano())}
	copy(c.Attr[:], k.bytes())
	copy(c.Filter[:len(c.Filter)-1], k.filter)
	copy(c.Name[:len(c.Name)-1], e.Name)
	if e.CPUs != nil {
		c.Partial = 1
	}
	return i, nil
}

// openFirst publishes a new slot, then opens its first perf events. Publishing first means that a session killed in between leaks nothing.
// It returns an errno of the kernel unchanged.
func (s *slots) openFirst(slot int, cpus []int) error {
	if err := s.put(slot); err != nil {
		return err
	}
	return s.open(slot, cpus)
}

// open opens the perf events of a slot on these CPUs, unless they are open.
func (s *slots) open(slot int, cpus []int) error {
	for _, cpu := range cpus {
		if s.table[slot].has(cpu) {
			continue
		}
		if err := s.openOn(slot, cpu); err != nil {
			return err
		}
	}
	return nil
}

func (s *slots) openOn(slot, cpu int) error {
	if cpu >= maxCPUs {
		return fmt.Errorf("CPU %d: shared counters know CPUs up to %d", cpu, maxCPUs-1)
	}
	c := &s.table[slot]
	attr := c.attr()
	e, err := perfevent.Open(&attr, perfevent.Where{Thread: perfevent.AnyThread, CPU: cpu})
	if err != nil {
		return err
	}
	defer e.Close() // the map keeps it open
	if filter := text(c.Filter[:]); filter != "" {
		if err := e.SetFilter(filter); err != nil {
			return err
		}
	}
	at, err := index(slot, cpu)
	if err != nil {
		return err
	}
	if err := s.o.maps[countersMapEvents].Put(at, uint32(e.FD())); err != nil {
		return fmt.Errorf("hand the event on CPU %d to the BPF programs: %w", cpu, err)
	}
	c.mark(cpu, true)
	return s.put(slot)
}

// closeOn closes the perf event of a slot on a CPU.
func (s *slots) closeOn(slot, cpu int) error {
	at, err := index(slot, cpu)
	if err != nil {
		return err
	}
	if err := s.o.maps[countersMapEvents].Delete(at); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("close the event on CPU %d: %w", cpu, err)
	}
	s.table[slot].mark(cpu, false)
	return s.put(slot)
}

// keep closes the events of all slots that are not in the set.
func (s *slots) keep(events uint64) error {
	possible, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	for i := range s.table {
		c := &s.table[i]
		if events>>i&1 != 0 || !c.used() {
			continue
		}
		for cpu := range possible { // all, because a session may have been killed between opening and marking
			if err := s.closeOn(i, cpu); err != nil {
				return err
			}
		}
		*c = countersSlot{}
		if err := s.put(i); err != nil {
			return err
		}
	}
	return nil
}

// switchEvents returns the slots whose events the kernel counts for the outgoing task only after the tracepoint sched_switch: all for each
// context switch, cgroup only if the next task is in another cgroup. They happen in the kernel, so slots that exclude it are not among them.
func (s *slots) switchEvents() (all, cgroup uint64) {
	for i := range s.table {
		attr := s.table[i].attr()
		if !s.table[i].used() || attr.Type != perfdata.TypeSoftware || attr.Has(perfdata.AttrExcludeKernel) {
			continue
		}
		switch attr.Config {
		case perfdata.SoftwareContextSwitches:
			all |= 1 << i
		case perfdata.SoftwareCgroupSwitches:
			cgroup |= 1 << i
		}
	}
	return all, cgroup
}

// followedEvents returns the slots that upstream leaders count.
func (s *slots) followedEvents() (followed uint64) {
	for i := range s.table {
		if s.table[i].Leader != 0 {
			followed |= 1 << i
		}
	}
	return followed
}

// partialEvents returns the slots of PMUs that do not have all CPUs.
func (s *slots) partialEvents() (partial uint64) {
	for i := range s.table {
		if s.table[i].Partial != 0 {
			partial |= 1 << i
		}
	}
	return partial
}

// keyOf returns the key of a shared event. The event always counts, so keyOf clears its period, which is for sampling.
func keyOf(e *event.Event, allUser, allKernel bool) key {
	attr := e.Attr
	attr.SamplePeriod = 0
	attr.Flags &^= perfdata.AttrFreq
	attr.ReadFormat = perfevent.ReadFormatTimes
	if allUser {
		attr.Flags |= perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV
	}
	if allKernel {
		attr.Flags |= perfdata.AttrExcludeUser
	}
	return key{attr, e.Filter}
}

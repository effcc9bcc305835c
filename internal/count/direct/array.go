package direct

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/perfevent"
)

// NewArray makes a BPF map from which BPF programs read perf events: event ev on a CPU is element ev*N+CPU, where N is the number of
// possible CPUs. It needs Linux 5.10.
func NewArray(name string, events int) (*ebpf.Map, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	fd, err := perfevent.NewArray(name, max(cpus*events, 1))
	if err != nil {
		return nil, err
	}
	return ebpf.NewMapFromFD(fd)
}

// UseMaps makes programs use existing maps, by the maps' names in the programs' object. The library can replace maps too, but refuses an
// array of NewArray, because it knows only arrays with at most one element per CPU.
func UseMaps(programs map[string]*ebpf.ProgramSpec, maps map[string]*ebpf.Map) error {
	for _, program := range programs {
		for i := range program.Instructions {
			ins := &program.Instructions[i]
			m, ok := maps[ins.Reference()]
			if !ok || !ins.IsLoadFromMap() {
				continue
			}
			if err := ins.AssociateMap(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// CPUs returns the CPUs on which an event is counted.
func (c *Counter) CPUs(event int) (cpus []int) {
	for _, cell := range c.cells {
		if cell.Event == event {
			cpus = append(cpus, cell.CPU)
		}
	}
	return cpus
}

// Fill puts the perf events of a target of CPUs into an array of NewArray, and keeps it up to date until Close. While a CPU is offline, its
// elements are empty. When it comes online, Fill first calls refill with the CPU, if refill is not nil, and then puts the new perf events
// there. refill must not call methods of the counter.
func (c *Counter) Fill(array *ebpf.Map, refill func(cpu int) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.array = array
	for i := range c.sets {
		if err := c.fillIn(&c.sets[i]); err != nil {
			return err
		}
	}
	c.refill = refill
	return nil
}

// fillIn puts the perf events of a set into the array of Fill, or empties their elements if the CPU is offline.
func (c *Counter) fillIn(s *set) error {
	if c.array == nil {
		return nil
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	if c.refill != nil && s.events != nil {
		if err := c.refill(s.cpu); err != nil {
			return fmt.Errorf("let BPF programs read the events of CPU %d again: %w", s.cpu, err)
		}
	}
	for i, cell := range s.cells {
		ev := c.cells[cell].Event
		at := uint32(ev*cpus + s.cpu)
		if s.events != nil {
			err = c.array.Put(at, uint32(s.events[i].FD()))
		} else if err = c.array.Delete(at); errors.Is(err, ebpf.ErrKeyNotExist) {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("let BPF programs read event %d on CPU %d: %w", ev, s.cpu, err)
		}
	}
	return nil
}

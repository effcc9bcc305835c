package shared

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/perfevent"
)

// reader reads the counts of a session's cells from the shared maps.
type reader struct {
	o        *objects
	session  session
	followed followers
	events   []counted    // of the list
	cells    []count.Cell // events in order, with the counts up to the last Disable
}

// counted is an event of the list.
type counted struct {
	slot  int
	cpus  []int // CPUs of the target on which it is counted
	opens []int // CPUs on which it has a perf event while they are online; nil for all
	err   error
}

// supported returns the slots of the events that are counted, one bit each.
func (r *reader) supported() (events uint64) {
	for _, e := range r.events {
		if e.err == nil {
			events |= 1 << e.slot
		}
	}
	return events
}

// readSystem reads the events of a target of CPUs, for all cells.
func (r *reader) readSystem(dst []perfevent.Reading, cpus []int) error {
	own := r.session.events
	for slot := range r.followed {
		own &^= 1 << slot
	}
	if err := r.o.syncCPUs(cpus, syncSystem, own); err != nil {
		return err
	}
	if err := r.followed.run(cpus); err != nil {
		return err
	}
	sums := make(map[int][]perfevent.Reading) // by slot and CPU
	for i, cell := range r.cells {
		slot := r.events[cell.Event].slot
		if sums[slot] == nil {
			var err error
			if sums[slot], err = r.systemSums(slot); err != nil {
				return err
			}
		}
		dst[i] = sums[slot][cell.CPU]
	}
	return nil
}

// systemSums returns the counts of an event, by CPU.
func (r *reader) systemSums(slot int) ([]perfevent.Reading, error) {
	if f := r.followed[slot]; f != nil {
		return f.readings()
	}
	var all []countersSystem
	if err := r.o.maps[countersMapSystems].Lookup(uint32(slot), &all); err != nil {
		return nil, fmt.Errorf("read the sums of the CPUs: %w", err)
	}
	sums := make([]perfevent.Reading, len(all))
	for cpu := range all {
		sums[cpu] = all[cpu].Sum.reading()
	}
	return sums, nil
}

func (r countersReading) reading() perfevent.Reading {
	return perfevent.Reading{Value: r.Value, Enabled: r.Enabled, Running: r.Enabled - r.Stopped}
}

// readUnits reads the sums of the session's nodes and of all nodes below them. First it updates the CPUs on which such a
// node runs. The caller holds the lock, so that no node moves.
func (r *reader) readUnits(dst []perfevent.Reading) error {
	var state countersSharedState
	if err := r.o.maps[mapState].Lookup(uint32(0), &state); err != nil {
		return fmt.Errorf("read the shared state: %w", err)
	}
	table, err := readNodes(r.o, state)
	if err != nil {
		return err
	}
	units := table.units(r.session)
	if err := r.syncWhere(units); err != nil {
		return err
	}
	cells := r.cellsByUnit()
	for id, of := range units {
		for bank := range uint32(maxEvents / bankEvents) {
			if r.session.events>>(bank*bankEvents)&(1<<bankEvents-1) == 0 {
				continue
			}
			if err := r.addBank(dst, cells, id, bank, of); err != nil {
				return err
			}
		}
	}
	return nil
}

// syncWhere runs sync and the leaders on the CPUs on which one of the nodes runs now.
func (r *reader) syncWhere(units map[uint32][]uint32) error {
	var cpus []countersCpu
	if err := r.o.maps[countersMapCpus].Lookup(uint32(0), &cpus); err != nil {
		return fmt.Errorf("read what the CPUs count: %w", err)
	}
	var run []int
	for cpu, at := range cpus {
		for _, track := range at.Tracks {
			if units[track.Node] != nil {
				run = append(run, cpu)
				break
			}
		}
	}
	if err := r.o.syncCPUs(run, syncTracks, 0); err != nil {
		return err
	}
	return r.followed.run(run)
}

// eventUnit identifies the cells of one event and unit, which differ only in the CPU.
type eventUnit struct {
	slot int
	unit uint32
}

// cellsByUnit returns the indexes of the cells of each event and unit.
func (r *reader) cellsByUnit() map[eventUnit][]int {
	cells := make(map[eventUnit][]int)
	for i, cell := range r.cells {
		of := eventUnit{r.events[cell.Event].slot, unitOf(cell)}
		cells[of] = append(cells[of], i)
	}
	return cells
}

// bankSums is an element of the map of sums: those of a bank of events.
type bankSums [bankEvents]countersReading

// addBank adds the sums of a node for one bank to the cells of the units that the node counts for.
func (r *reader) addBank(dst []perfevent.Reading, cells map[eventUnit][]int, id, bank uint32, units []uint32) error {
	var sums []bankSums // by CPU
	err := r.o.maps[countersMapSums].Lookup(countersBankKey{Node: id, Bank: bank}, &sums)
	if errors.Is(err, ebpf.ErrKeyNotExist) { // the node has never counted these events
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the sums of a node: %w", err)
	}
	for events := r.session.events >> (bank * bankEvents) & (1<<bankEvents - 1); events != 0; events &= events - 1 {
		i := bits.TrailingZeros64(events)
		for _, unit := range units {
			for _, cell := range cells[eventUnit{int(bank*bankEvents) + i, unit}] {
				for cpu := range sums {
					if at := r.cells[cell].CPU; at == count.None || at == cpu {
						dst[cell].Add(sums[cpu][i].reading())
					}
				}
			}
		}
	}
	return nil
}

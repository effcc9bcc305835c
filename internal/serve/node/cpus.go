package node

import (
	"maps"
	"slices"

	"github.com/bperf/bperf/internal/perfevent"
)

// readCPUs returns the counts of the CPUs that are or were online.
func (c *Collector) readCPUs() ([]CPU, error) {
	cells, err := c.counter.ReadCPUs(nil)
	if err != nil {
		return nil, err
	}
	all := make(map[int][]perfevent.Reading)
	for _, cell := range cells {
		if cell.Enabled == 0 { // offline since Open
			continue
		}
		if all[cell.CPU] == nil {
			all[cell.CPU] = make([]perfevent.Reading, len(c.events.all))
		}
		all[cell.CPU][c.events.at[cell.Event]] = cell.Reading
	}
	var cpus []CPU
	for _, number := range slices.Sorted(maps.Keys(all)) {
		cpus = append(cpus, CPU{number, all[number]})
	}
	return cpus, nil
}

package stat

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/recorded"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
)

// These are the values of PERF_STAT_CONFIG_TERM__AGGR_MODE. Each version of perf numbers only the modes that it has: enum aggr_mode in
// tools/perf/util/stat.h.
var (
	modesSince69 = []Aggregation{AggregateNone, AggregateGlobal, AggregateSocket, AggregateDie, AggregateCluster, AggregateCache,
		AggregateCore, AggregateThread, unsetMode, AggregateNode}
	modesSince65 = []Aggregation{AggregateNone, AggregateGlobal, AggregateSocket, AggregateDie, AggregateCache,
		AggregateCore, AggregateThread, unsetMode, AggregateNode}
	modesBefore = []Aggregation{AggregateNone, AggregateGlobal, AggregateSocket, AggregateDie,
		AggregateCore, AggregateThread, unsetMode, AggregateNode}
)

// unsetMode is AGGR_UNSET.
const unsetMode Aggregation = -1

// recordedAggregation returns the aggregation of a recorded session.
func recordedAggregation(c *recorded.Config, version string) (by Aggregation, known bool) {
	modes := modesSince69
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor) // other programs than perf have other versions
	switch {
	case !c.HasLevel:
		modes = modesBefore
	case n == 2 && slices.Compare([]int{major, minor}, []int{6, 9}) < 0:
		modes = modesSince65
	}
	if c.Aggregation >= uint64(len(modes)) || modes[c.Aggregation] == unsetMode {
		return AggregateGlobal, false
	}
	return modes[c.Aggregation], true
}

// readings is the Counter of a recording's events. It has no readings itself: they come with each round.
type readings struct {
	errs        []error // why an event has no counters, by its index; nil if it has
	withoutIdle bool    // give events without counters no rows
}

func (r *readings) Enable() error                               { return nil }
func (r *readings) Disable() error                              { return nil }
func (r *readings) Close() error                                { return nil }
func (r *readings) Read(dst []count.Cell) ([]count.Cell, error) { return dst, nil }

func (r *readings) Err(event int) error {
	if r.withoutIdle {
		return nil
	}
	return r.errs[event]
}

// recordedCounters returns the counters of a recording.
func recordedCounters(events []*perfdata.Event, pmus map[uint32]string) (*counters, *readings) {
	c, r := &counters{}, &readings{errs: make([]error, len(events))}
	p := part{Counter: r}
	for i, e := range events {
		p.events = append(p.events, i)
		c.events = append(c.events, recordedEvent(e, pmus))
		if len(e.IDs) == 0 {
			r.errs[i] = &count.Unsupported{Event: c.events[i], Reason: "the recorded session could not count it."}
		}
		// The boxes of an uncore PMU have events of one name, one after the other.
		c.events[i].Term = i
		if i > 0 && events[i-1].Name == e.Name && events[i-1].Attr.Type != e.Attr.Type {
			c.events[i].Term = c.events[i-1].Term
		}
	}
	c.parts = []part{p}
	return c, r
}

// recordedEvent returns an event as the machine that recorded it had it.
func recordedEvent(e *perfdata.Event, pmus map[uint32]string) *event.Event {
	all := &event.Event{Name: e.Name, PMU: pmus[e.Attr.Type], Attr: e.Attr, CPUs: e.CPUs, Scale: e.Scale, Unit: e.Unit}
	if all.Scale == 0 {
		all.Scale = 1
	}
	const perfsTools = 0xfffffffe // Attr.Type since perf 6.12; before, they were dummies
	dummy := e.Attr.Type == perfdata.TypeSoftware && e.Attr.Config == perfdata.SoftwareDummy
	if dummy || e.Attr.Type == perfsTools {
		all.Tool = event.ToolOf(e.Name)
	}
	switch e.Attr.Type {
	case perfdata.TypeHardware, perfdata.TypeHWCache, perfdata.TypeRaw:
		all.PMU = "cpu"
		if pmu := uint32(e.Attr.Config >> perfdata.PMUTypeShift); pmu != 0 {
			all.PMU = pmus[pmu]
		}
	}
	all.Name = cmp.Or(all.Name, canonical(all), "[unnamed]") // an event without counters has no name in a pipe
	return all
}

// pmuNames returns the names of the recorded machine's PMUs by type.
func pmuNames(f *perfdata.Features) map[uint32]string {
	v, _ := f.Get(perfdata.FeaturePMUMappings) // without it, PMUs have no names
	mappings, _ := v.(perfdata.PMUMappings)
	names := make(map[uint32]string, len(mappings))
	for _, m := range mappings {
		names[m.Type] = m.Name
	}
	return names
}

// recordedTarget returns who was measured.
func recordedTarget(r *recorded.Rounds, cells []count.Cell) target.Target {
	var t target.Target
	for _, c := range cells {
		if c.CPU != count.None {
			t.CPUs = append(t.CPUs, c.CPU)
		}
	}
	if len(t.CPUs) > 0 {
		t.CPUs = append(t.CPUs, r.CPUs...)
	}
	slices.Sort(t.CPUs)
	t.CPUs = slices.Compact(t.CPUs)
	if r.TID(0) == -1 {
		return t
	}
	for _, thread := range r.Threads {
		t.Threads = append(t.Threads, target.Thread{TID: int(thread.TID), Comm: thread.Comm})
	}
	return t
}

// recordedTopology returns where the CPUs of the recorded machine are. level is that of AggregateCache.
func recordedTopology(f *perfdata.Features, cpus []int, by Aggregation, level int) (target.Topology, error) {
	v, err := f.Get(perfdata.FeatureCPUTopology)
	if err != nil {
		return nil, err
	}
	places, there := v.(perfdata.CPUTopology)
	if !there || by == AggregateCluster {
		return nil, errors.New("the recording does not say which CPUs belong together")
	}
	topology := make(target.Topology, len(cpus))
	for _, cpu := range cpus {
		l := target.Location{Core: -1, Die: -1, Socket: -1, Node: -1}
		if cpu < len(places.CPUs) {
			at := places.CPUs[cpu]
			l.Core, l.Socket, l.Die = int(int32(at.Core)), int(int32(at.Socket)), int(int32(at.Die))
		}
		topology[cpu] = l
	}
	switch by {
	case AggregateNode:
		return topology, addNodes(topology, f)
	case AggregateCache:
		return topology, addCaches(topology, f, level)
	}
	return topology, nil
}

// addNodes adds the NUMA nodes of CPUs.
func addNodes(topology target.Topology, f *perfdata.Features) error {
	v, err := f.Get(perfdata.FeatureNUMATopology)
	if err != nil {
		return err
	}
	nodes, _ := v.(perfdata.NUMATopology)
	for _, n := range nodes {
		err := eachCPU(topology, n.CPUs, len(nodes), func(l *target.Location, _ int) { l.Node = int(n.Node) })
		if err != nil {
			return fmt.Errorf("the NUMA nodes of the recording: %w", err)
		}
	}
	return nil
}

// addCaches adds the caches of CPUs.
func addCaches(topology target.Topology, f *perfdata.Features, level int) error {
	v, err := f.Get(perfdata.FeatureCache)
	if err != nil {
		return err
	}
	caches, _ := v.(perfdata.Caches)
	found := false
	for _, c := range caches {
		if c.Type == "Instruction" || c.Level > target.MaxCacheLevel || level != 0 && int(c.Level) != level {
			continue
		}
		found = true
		err := eachCPU(topology, c.CPUs, len(caches), func(l *target.Location, first int) {
			if int(c.Level) >= l.CacheLevel {
				l.CacheLevel, l.Cache = int(c.Level), first
			}
		})
		if err != nil {
			return fmt.Errorf("the caches of the recording: %w", err)
		}
	}
	if !found {
		return errors.New("the recording does not say which CPUs share such a cache")
	}
	return nil
}

// mostLists limits the lists of CPUs of a recording.
const mostLists = 1 << 13

// eachCPU calls f for the location of each CPU in a list, with the first CPU of the list. It is one of n lists.
func eachCPU(topology target.Topology, list string, n int, f func(l *target.Location, first int)) error {
	if n > mostLists {
		return fmt.Errorf("%d lists of CPUs are more than any machine has", n)
	}
	if list == "" {
		return nil // a node that has only memory
	}
	cpus, err := procfs.ParseCPUList(list)
	if err != nil {
		return err
	}
	for _, cpu := range cpus {
		if l, there := topology[cpu]; there {
			f(&l, cpus[0])
			topology[cpu] = l
		}
	}
	return nil
}

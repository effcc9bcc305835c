package stat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/event/vendor"
	"github.com/bperf/bperf/internal/metric"
	"github.com/bperf/bperf/perfdata"
)

// metrics sets the metrics of the recorded CPU's vendor that the recorded events suffice for: the named ones, otherwise those of sessions
// without named events. A recording does not say which metrics were computed, but it has the CPU and the names of the events.
func (p *reporter) metrics() error {
	cpu := cmp.Or(p.cfg.CPU, vendor.ID(p.reader.Features().Text(perfdata.FeatureCPUID)))
	facts, table := p.facts(cpu), (*vendor.Table)(nil)
	if cpu != "" {
		var err error
		if table, err = vendor.ForCPU(cpu); err != nil {
			return err
		}
	}
	catalog := metric.NewCatalog(slices.Collect(table.Metrics()), facts)
	selection, err := p.selectRecorded(catalog)
	if err != nil {
		if cpu == "" {
			err = fmt.Errorf("%w. The recording does not name its CPU: set PERF_CPUID, for example to GenuineIntel-6-8F-8", err)
		}
		return err
	}
	p.vendor = NewVendorMetrics(facts)
	return p.vendor.addRecorded(selection, p.counters.events)
}

// selectRecorded selects the metrics of the vendor.
func (p *reporter) selectRecorded(catalog *metric.Catalog) (*metric.Selection, error) {
	if p.cfg.Metrics == nil {
		return catalog.SelectDefaults(metric.Options{})
	}
	var names []string
	for _, written := range p.cfg.Metrics {
		switch name, _, err := event.CutModifiers(written); {
		case err != nil:
			return nil, err
		case HasMetric(name): // it is computed in any case
		case len(catalog.Find(name)) > 0:
			names = append(names, written)
		case !HasAlias(name):
			return nil, UnknownMetric(name, catalog.Names())
		}
	}
	s, err := catalog.Select(names, metric.Options{})
	if err != nil || len(names) == 0 {
		return s, err
	}
	return s, s.CheckValues(names, "the recording", p.cfg.Notify)
}

// facts returns what a recording says of its machine. A literal that it says nothing of has no value.
func (p *reporter) facts(cpu string) *metric.Facts {
	return &metric.Facts{
		Literals: recordedLiterals(p.reader.Features(), p.counters.target.CPUs),
		IsCPU:    func(pattern string) bool { return vendor.Fits(cpu, pattern) },
		HasEvent: func(name string) bool { return name == durationTime || findRecorded(p.counters.events, name) != nil },
	}
}

// recordedLiterals returns the literals that follow from the CPUs of the recorded machine, or none if it is not known where they all are.
// counted are the CPUs that the session counted on.
func recordedLiterals(f *perfdata.Features, counted []int) map[string]float64 {
	number, _ := f.Get(perfdata.FeatureNRCPUs)
	cpus, _ := number.(perfdata.NRCPUs)
	places, _ := f.Get(perfdata.FeatureCPUTopology)
	topology, _ := places.(perfdata.CPUTopology)
	var online []int
	for cpu, at := range topology.CPUs {
		if int32(at.Core) >= 0 {
			online = append(online, cpu)
		}
	}
	if len(online) == 0 || len(online) != int(cpus.Online) {
		return nil
	}
	where, err := recordedTopology(f, online, AggregateCore, 0)
	if err != nil {
		return nil
	}
	return metric.LiteralsOf(where, int(cpus.Available), f.Text(perfdata.FeatureCPUDesc), metric.Session{CPUs: counted})
}

// durationTime is the event of the time elapsed, which every recording has.
const durationTime = "duration_time"

// findRecorded returns the first event of a name, ignoring case, or nil.
func findRecorded(events []*event.Event, name string) *event.Event {
	i := slices.IndexFunc(events, func(e *event.Event) bool { return strings.EqualFold(e.Name, name) })
	if i < 0 {
		return nil
	}
	return events[i]
}

// addRecorded adds metrics whose events are counted already.
func (v *VendorMetrics) addRecorded(s *metric.Selection, events []*event.Event) error {
	const elapsed = -1 // the term of durationTime where it is no event
	v.tools[elapsed] = event.DurationTime
	for _, e := range events {
		v.units[e.Term]++
		v.tools[e.Term] = e.Tool
	}
	for _, m := range s.Metrics {
		terms := make(map[string]int)
		for _, name := range m.Events() {
			written := event.AddModifiers(name, m.Modifiers)
			e := findRecorded(events, written)
			switch {
			case e != nil:
				terms[name] = e.Term
			case name == durationTime:
				terms[name] = elapsed
			default:
				return fmt.Errorf("the metric %s needs the event %s, which is not in the recording", m.Title(), written)
			}
		}
		v.wanted = append(v.wanted, wantedMetric{m, terms})
	}
	return nil
}

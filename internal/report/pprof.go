package report

import (
	"fmt"
	"io"
	"slices"

	pprof "github.com/google/pprof/profile"

	"github.com/bperf/bperf/internal/profile"
)

// WritePprof writes a compressed profile in pprof's format. It has the sample type samples/count, which Go's compiler looks for, and one
// for each event. If its frames have lines, it is a profile for `go build -pgo`.
func WritePprof(w io.Writer, p *profile.Profile, o *Options) error {
	out, err := Pprof(p, o)
	if err != nil {
		return err
	}
	return out.Write(w)
}

// Pprof returns what WritePprof writes: the samples of the given events, which are positions in p.Events, or without any of all events.
func Pprof(p *profile.Profile, o *Options, events ...int) (*pprof.Profile, error) {
	e := newPprofExporter(p, events)
	for s := range chosen(p, o) {
		if e.values[s.Event] > 0 {
			e.add(s)
		}
	}
	if err := e.out.CheckValid(); err != nil {
		return nil, fmt.Errorf("write a profile for pprof: %w", err)
	}
	return e.out, nil
}

type pprofExporter struct {
	p         *profile.Profile
	out       *pprof.Profile
	values    []int // by event, the position of its value in a sample; 0 for events that are left out
	mappings  map[mappingKey]*pprof.Mapping
	functions map[profile.FunctionID]*pprof.Function
	locations map[string]*pprof.Location // by the IDs of their frames
}

// mappingKey is a module and, if known, the mapping of one part of it.
type mappingKey struct {
	module profile.ModuleID
	at     profile.Mapping
}

func newPprofExporter(p *profile.Profile, events []int) *pprofExporter {
	e := &pprofExporter{
		p:         p,
		out:       &pprof.Profile{SampleType: []*pprof.ValueType{{Type: "samples", Unit: "count"}}},
		values:    make([]int, len(p.Events)),
		mappings:  map[mappingKey]*pprof.Mapping{},
		functions: map[profile.FunctionID]*pprof.Function{},
		locations: map[string]*pprof.Location{},
	}
	for i, event := range p.Events {
		if len(events) > 0 && !slices.Contains(events, i) {
			continue
		}
		t := &pprof.ValueType{Type: pprofType(p.Events, i), Unit: event.UnitName()}
		if len(e.out.SampleType) == 1 {
			e.out.DefaultSampleType = t.Type
			e.out.PeriodType, e.out.Period = t, int64(event.MeanPeriod())
		}
		e.values[i] = len(e.out.SampleType)
		e.out.SampleType = append(e.out.SampleType, t)
	}
	if !p.Info.Start.IsZero() {
		e.out.TimeNanos = p.Info.Start.UnixNano()
	}
	e.out.DurationNanos = p.Info.Duration.Nanoseconds()
	e.out.Comments = p.Losses.Notes()
	return e
}

// pprofType returns the sample type of event i. It differs from the types of all events before it.
func pprofType(events []profile.Event, i int) string {
	if events[i].IsCPUTime() && !slices.ContainsFunc(events[:i], profile.Event.IsCPUTime) {
		return profile.CPUTime
	}
	return events[i].Name
}

// sameEvent returns the position of an event in a profile, or -1. All clocks match "cpu", because pprof's profiles do not name the clock.
func sameEvent(in *profile.Profile, e profile.Event) int {
	return slices.IndexFunc(in.Events, func(o profile.Event) bool {
		return o.Name == e.Name || (o.Name == profile.CPUTime || e.Name == profile.CPUTime) && o.IsCPUTime() && e.IsCPUTime()
	})
}

func (e *pprofExporter) add(s *profile.Sample) {
	sample := &pprof.Sample{Value: make([]int64, len(e.out.SampleType))}
	sample.Value[0], sample.Value[e.values[s.Event]] = int64(s.Count), int64(s.Value)
	for frames := range e.p.Instructions(s) {
		sample.Location = append(sample.Location, e.location(frames))
	}
	e.label(sample, s)
	e.out.Sample = append(e.out.Sample, sample)
}

func (e *pprofExporter) label(to *pprof.Sample, s *profile.Sample) {
	labels, keys := e.p.Labels()[s.Labels], e.p.Keys()
	to.Label, to.NumLabel = map[string][]string{}, map[string][]int64{}
	text := func(key, value string) {
		if value != "" {
			to.Label[key] = append(to.Label[key], value)
		}
	}
	number := func(wanted profile.Keys, key string, value int64) {
		if keys.Has(wanted) {
			to.NumLabel[key] = []int64{value}
		}
	}
	text("comm", e.p.Strings.At(labels.Comm))
	text("cgroup", e.p.Strings.At(labels.Cgroup))
	number(profile.PID, "pid", int64(labels.PID))
	number(profile.TID, "tid", int64(labels.TID))
	if labels.CPU >= 0 {
		number(profile.CPU, "cpu", int64(labels.CPU))
	}
	number(profile.Time, "time", s.Time)
	for id := labels.Tags; id != 0; id = e.p.Tags.At(id).Next {
		t := e.p.Tags.At(id)
		text(e.p.Strings.At(t.Key), e.p.Strings.At(t.Value))
	}
}

// location returns the location of an instruction. frames are the functions inlined there and, last, the frame that contains them.
func (e *pprofExporter) location(frames []profile.FrameID) *pprof.Location {
	key := fmt.Sprint(frames)
	if known := e.locations[key]; known != nil {
		return known
	}
	outer := e.p.Frames()[frames[len(frames)-1]]
	mapping, address := e.mapping(&outer)
	l := &pprof.Location{ID: uint64(len(e.out.Location) + 1), Address: address, Mapping: mapping}
	for _, id := range frames {
		f := e.p.Frames()[id]
		if f.Function == 0 {
			continue
		}
		l.Line = append(l.Line, pprof.Line{Function: e.function(&f), Line: int64(f.Line)})
		l.Mapping.HasFunctions = true
		l.Mapping.HasInlineFrames = l.Mapping.HasInlineFrames || f.Inlined
		if f.Line != 0 {
			l.Mapping.HasLineNumbers, l.Mapping.HasFilenames = true, true
		}
	}
	l.Mapping.Limit = max(l.Mapping.Limit, address+1)
	e.locations[key] = l
	e.out.Location = append(e.out.Location, l)
	return l
}

// unknownMapping is the file name for code that is in no file.
const unknownMapping = "unknown"

// mapping returns the mapping that contains a frame, and the frame's address in memory. If the profile does not know the mapping, the
// address is that in the module.
func (e *pprofExporter) mapping(f *profile.Frame) (m *pprof.Mapping, address uint64) {
	at, address := e.p.Mapping(f)
	key := mappingKey{module: f.Module, at: at}
	if known := e.mappings[key]; known != nil {
		return known, address
	}
	module := e.p.Modules.At(f.Module)
	m = &pprof.Mapping{ID: uint64(len(e.out.Mapping) + 1), Start: key.at.Start, Limit: key.at.End, Offset: key.at.Offset,
		File: e.p.Strings.At(module.Path), BuildID: e.p.Strings.At(module.BuildID)}
	if f.Module == 0 {
		m.File = unknownMapping
	}
	e.mappings[key] = m
	e.out.Mapping = append(e.out.Mapping, m)
	return m, address
}

func (e *pprofExporter) function(f *profile.Frame) *pprof.Function {
	if known := e.functions[f.Function]; known != nil {
		return known
	}
	function := e.p.Functions.At(f.Function)
	name := e.p.Strings.At(function.Name)
	out := &pprof.Function{ID: uint64(len(e.out.Function) + 1), Name: name, SystemName: name, StartLine: int64(function.StartLine)}
	if function.Linkage != 0 {
		out.SystemName = e.p.Strings.At(function.Linkage)
	}
	out.Filename = e.p.Strings.At(function.File)
	if out.Filename == "" {
		out.Filename = e.p.Strings.At(f.File)
	}
	e.functions[f.Function] = out
	e.out.Function = append(e.out.Function, out)
	return out
}

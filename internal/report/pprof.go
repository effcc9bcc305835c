package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"

	"github.com/bperf/bperf/internal/profile"
)

// WritePprof writes a compressed profile in pprof's format. It has the sample type samples/count, which Go's compiler looks for, and one
// for each event. If its frames have lines, it is a profile for `go build -pgo`.
func WritePprof(w io.Writer, p *profile.Profile, o *Options) error {
	e := newPprofExporter(p)
	for s := range chosen(p, o) {
		e.add(s)
	}
	if err := e.out.CheckValid(); err != nil {
		return fmt.Errorf("write a profile for pprof: %w", err)
	}
	return e.out.Write(w)
}

type pprofExporter struct {
	p         *profile.Profile
	out       *pprof.Profile
	mappings  map[mappingKey]*pprof.Mapping
	functions map[profile.FunctionID]*pprof.Function
	locations map[string]*pprof.Location // by the IDs of their frames
}

// mappingKey is a module and, if known, the mapping of one part of it.
type mappingKey struct {
	module profile.ModuleID
	at     profile.Mapping
}

func newPprofExporter(p *profile.Profile) *pprofExporter {
	e := &pprofExporter{
		p:         p,
		out:       &pprof.Profile{SampleType: []*pprof.ValueType{{Type: "samples", Unit: "count"}}},
		mappings:  map[mappingKey]*pprof.Mapping{},
		functions: map[profile.FunctionID]*pprof.Function{},
		locations: map[string]*pprof.Location{},
	}
	for i, event := range p.Events {
		t := &pprof.ValueType{Type: pprofType(p.Events, i), Unit: pprofUnit(event.Unit)}
		e.out.SampleType = append(e.out.SampleType, t)
		if i == 0 {
			e.out.DefaultSampleType = t.Type
			e.out.PeriodType, e.out.Period = t, int64(cmp.Or(event.Period, event.Value/max(1, event.Samples)))
		}
	}
	if !p.Info.Start.IsZero() {
		e.out.TimeNanos = p.Info.Start.UnixNano()
	}
	e.out.DurationNanos = p.Info.Duration.Nanoseconds()
	if p.Losses.Samples > 0 {
		e.out.Comments = append(e.out.Comments, fmt.Sprintf("lost samples: %d", p.Losses.Samples))
	}
	if p.Losses.MissedEstimate > 0 {
		e.out.Comments = append(e.out.Comments, fmt.Sprintf("missed samples (estimate): about %d", p.Losses.MissedEstimate))
	}
	for _, l := range p.Losses.Reasons {
		e.out.Comments = append(e.out.Comments, fmt.Sprintf("missing samples: %d: %s", l.Samples, l.Reason))
	}
	return e
}

// cpuTime is the sample type of CPU time in Go's own profiles.
const cpuTime = "cpu"

// pprofType returns the sample type of event i. It differs from the types of all events before it.
func pprofType(events []profile.Event, i int) string {
	if isClock(events[i]) && !slices.ContainsFunc(events[:i], isClock) {
		return cpuTime
	}
	return events[i].Name
}

// isClock reports whether an event counts CPU time.
func isClock(e profile.Event) bool {
	return e.Unit == "ns" && (e.Name == cpuTime || strings.HasPrefix(e.Name, "cpu-clock") || strings.HasPrefix(e.Name, "task-clock"))
}

// sameEvent returns the position of an event in a profile, or -1. All clocks match "cpu", because pprof's profiles do not name the clock.
func sameEvent(in *profile.Profile, e profile.Event) int {
	return slices.IndexFunc(in.Events, func(o profile.Event) bool {
		return o.Name == e.Name || (o.Name == cpuTime || e.Name == cpuTime) && isClock(o) && isClock(e)
	})
}

func pprofUnit(unit string) string {
	switch unit {
	case "ns":
		return "nanoseconds"
	case "":
		return "count"
	}
	return unit
}

func (e *pprofExporter) add(s *profile.Sample) {
	sample := &pprof.Sample{Value: make([]int64, len(e.out.SampleType))}
	sample.Value[0], sample.Value[1+s.Event] = int64(s.Count), int64(s.Value)
	var inlined []profile.FrameID // the frames that are inlined into the next one that is not
	for _, f := range frames(e.p, s) {
		inlined = append(inlined, f)
		if !e.p.Frames()[f].Inlined {
			sample.Location = append(sample.Location, e.location(inlined))
			inlined = inlined[:0]
		}
	}
	if len(inlined) > 0 {
		sample.Location = append(sample.Location, e.location(inlined))
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
	key, address := mappingKey{module: f.Module}, f.CodeAddress()
	for _, at := range e.p.Mappings[f.Module] {
		if address >= at.Offset && address-at.Offset < at.End-at.Start {
			key.at, address = at, address-at.Offset+at.Start
			break
		}
	}
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

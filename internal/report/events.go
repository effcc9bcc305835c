package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/tracedata"
	"github.com/bperf/bperf/perfdata"
)

// EventsOptions select what Events prints of each event besides its name.
type EventsOptions struct {
	Rate        bool // the sampling frequency or period
	Attr        bool // all fields of its perf_event_attr that are not 0, in place of Rate
	Groups      bool // the events of a group in one line; it excludes Rate and Attr
	TraceFields bool // the fields of a tracepoint
}

// Events writes the names of a recording's events, one event or group per line, in the format of perf evlist. The error can also report a
// feature that could not be read: Events then has written what it could without it.
func Events(w io.Writer, r *perfdata.Reader, o EventsOptions) error {
	out := bufio.NewWriter(w)
	e := eventPrinter{o: o, all: r.Events()}
	err := e.readFeatures(r.Features())
	for _, event := range e.all {
		if !o.Groups || !e.followers[event.Index] {
			out.WriteString(printable.Text(e.line(event)) + "\n")
		}
	}
	e.writeTips(out)
	return cmp.Or(out.Flush(), err)
}

type eventPrinter struct {
	o         EventsOptions
	all       []*perfdata.Event
	groups    map[int]perfdata.GroupDescription // by the index of the leader
	followers map[int]bool                      // indexes of group members other than the leader
	pmus      map[uint32]string                 // by type
	traces    *tracedata.Data                   // nil if the recording has none
}

// readFeatures reads what the recording says about groups, PMUs and tracepoints. It returns the first error.
func (e *eventPrinter) readFeatures(f *perfdata.Features) error {
	e.groups, e.followers = map[int]perfdata.GroupDescription{}, map[int]bool{}
	value, groupErr := f.Get(perfdata.FeatureGroupDesc)
	groups, _ := value.(perfdata.GroupDescriptions)
	for _, g := range groups.Disjoint(len(e.all)) {
		e.groups[int(g.Leader)] = g
		for i := range g.Members - 1 {
			e.followers[int(g.Leader+1+i)] = true
		}
	}
	value, pmuErr := f.Get(perfdata.FeaturePMUMappings)
	mappings, _ := value.(perfdata.PMUMappings)
	e.pmus = make(map[uint32]string, len(mappings))
	for _, m := range mappings {
		e.pmus[m.Type] = m.Name
	}
	var traceErr error
	if b, there := f.Raw(perfdata.FeatureTracingData); there {
		e.traces, traceErr = tracedata.Parse(b)
	}
	return cmp.Or(groupErr, pmuErr, traceErr)
}

func (e *eventPrinter) line(event *perfdata.Event) string {
	if e.o.Groups {
		return e.group(event)
	}
	var details []string
	switch {
	case e.o.Attr:
		details = e.attrFields(&event.Attr)
	case e.o.Rate && event.Attr.Has(perfdata.AttrFreq):
		details = []string{fmt.Sprintf("sample_freq=%d", event.Attr.SamplePeriod)}
	case e.o.Rate:
		details = []string{fmt.Sprintf("sample_period=%d", event.Attr.SamplePeriod)}
	}
	if e.o.TraceFields {
		details = append(details, e.traceFields(&event.Attr))
	}
	if len(details) == 0 {
		return eventName(event)
	}
	return eventName(event) + ": " + strings.Join(details, ", ")
}

// group returns the names of the group that the event leads, or the event's own name.
func (e *eventPrinter) group(leader *perfdata.Event) string {
	g, leads := e.groups[leader.Index]
	if !leads {
		return eventName(leader)
	}
	var names []string
	for _, member := range e.all[leader.Index:][:g.Members] {
		names = append(names, eventName(member))
	}
	name := g.Name
	if name == "{anon_group}" {
		name = ""
	}
	return name + "{" + strings.Join(names, ",") + "}"
}

// eventName returns the event's name. Pipes without EVENT_DESC have none.
func eventName(event *perfdata.Event) string { return cmp.Or(event.Name, "[unnamed]") }

func (e *eventPrinter) traceFields(attr *perfdata.Attr) string {
	if attr.Type != perfdata.TypeTracepoint {
		return "(not a tracepoint)"
	}
	format := e.traces.Format(attr.Config)
	if format == nil || len(format.Fields) == 0 {
		return "(no trace field)"
	}
	var names []string
	for _, field := range format.Fields {
		names = append(names, field.Name)
	}
	return "trace_fields: " + strings.Join(names, ",")
}

// writeTips names the flags that would show more of these events.
func (e *eventPrinter) writeTips(out *bufio.Writer) {
	tracepoints := false
	for _, event := range e.all {
		tracepoints = tracepoints || event.Attr.Type == perfdata.TypeTracepoint
	}
	if tracepoints && !e.o.TraceFields {
		out.WriteString("# Tip: 'bperf evlist --trace-fields' shows the fields of tracepoints\n")
	}
	if len(e.followers) > 0 && !e.o.Groups {
		out.WriteString("# Tip: 'bperf evlist -g' shows which events are a group\n")
	}
}

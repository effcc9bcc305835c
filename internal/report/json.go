package report

import (
	"io"
	"time"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
)

// WriteJSON writes the tables and call trees as one JSON object. docs/report.md describes its fields.
func WriteJSON(w io.Writer, p *profile.Profile, o *Options) error {
	object := jsonReport{
		Hostname: p.Info.Hostname, Release: p.Info.Release, Arch: p.Info.Arch, Command: p.Info.Command,
		Duration: p.Info.Duration.Nanoseconds(),
		Lost:     jsonLosses{p.Losses.Records, p.Losses.Samples, p.Losses.MissedEstimate, p.Losses.Filtered, p.Losses.Truncated, []jsonLoss{}},
		Tables:   []jsonTable{},
	}
	if !p.Info.Start.IsZero() {
		object.Start = p.Info.Start.UTC().Format(time.RFC3339Nano)
	}
	for _, l := range p.Losses.Reasons {
		object.Lost.Reasons = append(object.Lost.Reasons, jsonLoss(l))
	}
	for _, events := range groupEvents(p.Events, o.Group) {
		t, err := newTable(p, o, events)
		if err != nil {
			return err
		}
		object.Tables = append(object.Tables, t.json())
	}
	encoder := printable.JSONEncoder(w)
	encoder.SetIndent("", " ")
	return encoder.Encode(object)
}

type jsonReport struct {
	Hostname string      `json:"hostname,omitempty"`
	Release  string      `json:"release,omitempty"`
	Arch     string      `json:"arch,omitempty"`
	Command  []string    `json:"command,omitempty"`
	Start    string      `json:"start,omitempty"`
	Duration int64       `json:"duration_ns,omitempty"`
	Lost     jsonLosses  `json:"lost"`
	Tables   []jsonTable `json:"tables"`
}

type jsonLosses struct {
	Records   uint64     `json:"records"`
	Samples   uint64     `json:"samples"`
	Missed    uint64     `json:"missed_estimate"`
	Filtered  uint64     `json:"filtered"`
	Truncated uint64     `json:"truncated_stacks"`
	Reasons   []jsonLoss `json:"reasons"`
}

type jsonLoss struct {
	Reason  string `json:"reason"`
	Samples uint64 `json:"samples"`
}

type jsonTable struct {
	Events []jsonEvent `json:"events"`
	Rows   []jsonRow   `json:"rows"`
}

type jsonEvent struct {
	Name    string `json:"name"`
	Unit    string `json:"unit,omitempty"`
	Samples uint64 `json:"samples"`
	Value   uint64 `json:"value"`
}

type jsonRow struct {
	Keys   map[string]string `json:"keys"`
	Values []jsonValue       `json:"values"` // one per event
	Calls  []jsonBranch      `json:"calls,omitempty"`
}

type jsonValue struct {
	Samples  uint64   `json:"samples"`
	Self     uint64   `json:"self"`
	Percent  float64  `json:"self_percent"`
	Total    *uint64  `json:"children,omitempty"`
	TotalPct *float64 `json:"children_percent,omitempty"`
}

type jsonBranch struct {
	Frames  []jsonFrame  `json:"frames"`
	Samples uint64       `json:"samples"`
	Value   uint64       `json:"value"`
	Ending  uint64       `json:"ending"` // value of the samples that end in this branch
	Calls   []jsonBranch `json:"calls,omitempty"`
}

type jsonFrame struct {
	Function string `json:"function"`
	Module   string `json:"module"`
	Kind     string `json:"kind"`
	Program  uint32 `json:"bpf_prog,omitempty"`
	File     string `json:"file,omitempty"`
	Line     uint32 `json:"line,omitempty"`
	Inlined  bool   `json:"inlined,omitempty"`
}

func (t *table) json() jsonTable {
	object := jsonTable{Rows: []jsonRow{}}
	for i, event := range t.events {
		e := t.p.Events[event]
		object.Events = append(object.Events, jsonEvent{e.Name, e.Unit, t.totals[i].samples, t.totals[i].value})
	}
	for _, r := range t.rows {
		if !t.shown(r) {
			continue
		}
		line := jsonRow{Keys: map[string]string{}, Calls: t.jsonCalls(r.calls)}
		for _, c := range t.columns {
			if c.key != nil {
				line.Keys[c.name] = c.key.text(t.p, &r.properties, 0)
			}
		}
		for i, v := range r.values {
			each := jsonValue{Samples: v.samples, Self: v.self, Percent: percent(v.self, t.base(i))}
			if t.o.Children {
				share := percent(v.total, t.base(i))
				each.Total, each.TotalPct = &v.total, &share
			}
			line.Values = append(line.Values, each)
		}
		object.Rows = append(object.Rows, line)
	}
	return object
}

func (t *table) jsonCalls(calls []*branch) []jsonBranch {
	var all []jsonBranch
	for _, b := range calls {
		object := jsonBranch{Samples: b.samples, Value: b.value, Ending: b.ending.value, Calls: t.jsonCalls(b.calls)}
		for _, id := range b.frames {
			object.Frames = append(object.Frames, t.jsonFrame(id))
		}
		all = append(all, object)
	}
	return all
}

func (t *table) jsonFrame(id profile.FrameID) jsonFrame {
	f := t.p.Frames()[id]
	function := t.p.Functions.At(f.Function)
	object := jsonFrame{Function: t.p.Strings.At(function.Name), Module: moduleName(t.p, &f), Kind: f.Kind.String(),
		Program: t.p.Programs.At(function.Program).ID, File: t.p.Strings.At(f.File), Line: f.Line, Inlined: f.Inlined}
	if f.Function == 0 {
		object.Function = address(f.Address)
	}
	return object
}

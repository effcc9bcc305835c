package report

import (
	"time"

	"github.com/bperf/bperf/internal/profile"
)

// NewJSON returns the tables and call trees of a profile.
func NewJSON(p *profile.Profile, o *Options) (*JSON, error) {
	object := &JSON{
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
			return nil, err
		}
		object.Tables = append(object.Tables, t.json())
	}
	return object, nil
}

// JSON is a profile as it is encoded as JSON.
type JSON struct {
	Hostname string      `json:"hostname,omitempty"`    // of the machine that was sampled
	Release  string      `json:"release,omitempty"`     // of its kernel
	Arch     string      `json:"arch,omitempty"`        // of its CPUs, as uname -m prints it
	Command  []string    `json:"command,omitempty"`     // that recorded
	Start    string      `json:"start,omitempty"`       // RFC 3339
	Duration int64       `json:"duration_ns,omitempty"` // from the start to the end of the samples
	Lost     jsonLosses  `json:"lost"`                  // what is missing
	Tables   []jsonTable `json:"tables"`                // one per event, or per group with --group
}

type jsonLosses struct {
	Records   uint64     `json:"records"`          // records of any type that the kernel had no room for
	Samples   uint64     `json:"samples"`          // samples that are known to be lost
	Missed    uint64     `json:"missed_estimate"`  // samples that were due, but were not taken
	Filtered  uint64     `json:"filtered"`         // samples that a filter of the event dropped
	Truncated uint64     `json:"truncated_stacks"` // samples whose stack is incomplete
	Reasons   []jsonLoss `json:"reasons"`
}

type jsonLoss struct {
	Reason  string `json:"reason"`  // and how to fix it
	Samples uint64 `json:"samples"` // that are missing
}

type jsonTable struct {
	Events []jsonEvent `json:"events"` // one, or those of a group
	Rows   []jsonRow   `json:"rows"`   // in the order of the table
}

type jsonEvent struct {
	Name    string `json:"name"`
	Unit    string `json:"unit,omitempty"` // of value and self: count, ns or bytes; absent if unknown
	Samples uint64 `json:"samples"`        // of the rows and of what is left out
	Value   uint64 `json:"value"`          // sum of the periods of the samples
}

type jsonRow struct {
	Keys   map[string]string `json:"keys"`            // values of the sort keys, by their names
	Values []jsonValue       `json:"values"`          // one per event
	Calls  []jsonBranch      `json:"calls,omitempty"` // the call tree; absent without callchains
}

type jsonValue struct {
	Samples  uint64   `json:"samples"`                    // in the row
	Self     uint64   `json:"self"`                       // sum of the periods of samples in the row itself
	Percent  float64  `json:"self_percent"`               // share of the event
	Total    *uint64  `json:"children,omitempty"`         // with callees; absent with --no-children
	TotalPct *float64 `json:"children_percent,omitempty"` // share of the event; absent with --no-children
}

type jsonBranch struct {
	Frames  []jsonFrame  `json:"frames"`          // one below the other
	Samples uint64       `json:"samples"`         // through this branch
	Value   uint64       `json:"value"`           // sum of the periods of the samples
	Ending  uint64       `json:"ending"`          // value of the samples that end in this branch
	Calls   []jsonBranch `json:"calls,omitempty"` // branches below; absent if there are none
}

type jsonFrame struct {
	Function string `json:"function"`           // or its address in hexadecimal, without a symbol
	Module   string `json:"module"`             // file, kernel module or BPF program
	Kind     string `json:"kind"`               // of code, such as user and kernel
	Program  uint32 `json:"bpf_prog,omitempty"` // ID of the BPF program; absent for other code
	File     string `json:"file,omitempty"`     // of the source; absent if unknown
	Line     uint32 `json:"line,omitempty"`     // in the file; absent if unknown
	Inlined  bool   `json:"inlined,omitempty"`  // whether it is inlined into the next caller
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

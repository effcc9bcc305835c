package annotate

import (
	"cmp"
	"io"
	"slices"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/symbol/debuginfod"
	"github.com/bperf/bperf/perfdata"
)

// Options select functions. Empty fields do not restrict anything.
type Options struct {
	Symbol       string   // the name of the function
	Modules      []string // the names that report or script prints
	Program      string   // ID, name or tag of the BPF program
	PercentLimit float64  // share of all samples: functions with less in every event are left out
	NoSource     bool     // do not look for source lines
	Mangled      bool     // leave names of symbols as compilers made them
	Style        string   // one of disasm.Styles, or empty: syntax of x86 instructions
	SkipMissing  bool     // leave out functions whose code cannot be read
	SymFS        string   // directory that contains the files and their source
	Prefix       string   // directory that contains the source files, in place of the first PrefixStrip parts of their paths
	PrefixStrip  int
	BuildIDs     string               // directory of perf's buildid-cache; empty for ~/.debug
	Allowance    *allowance.Allowance // limits time and memory for files of other users; nil for no limits
	Debuginfod   *debuginfod.Client   // fetches files that are not on this machine; nil for none
}

// hits are the samples of a function.
type hits struct {
	dso    *replay.DSO
	symbol replay.Symbol
	values []Value
	at     map[uint64][]Value // by Addr of replay.Location
}

// key identifies a function.
type key struct {
	dso   *replay.DSO
	start uint64
}

// collector collects samples by function. Each goroutine has its own.
type collector struct {
	*replay.Resolver
	options  *Options
	known    map[*replay.Location]*hits // nil: not wanted
	all      map[key]*hits
	events   []Value
	nameless uint64
}

// Samples is the data of a recording that annotation needs: the samples by function and address.
type Samples struct {
	events   []Event
	hits     []*hits
	nameless uint64
	programs []*linear.Program
}

// Collect reads a recording once and returns its samples.
func Collect(r *replay.Replay, reader *perfdata.Reader, o *Options) (*Samples, error) {
	var all []*collector
	err := r.Run(func(resolver *replay.Resolver) replay.Handler {
		c := &collector{Resolver: resolver, options: o, known: make(map[*replay.Location]*hits), all: make(map[key]*hits)}
		all = append(all, c)
		return c.handle
	}, io.Discard)
	if err != nil {
		return nil, err
	}
	s := &Samples{programs: r.Programs()}
	for _, e := range reader.Events() {
		s.events = append(s.events, Event{Name: e.Name})
	}
	merged := make(map[key]*hits)
	for _, c := range all {
		s.nameless += c.nameless
		for e, v := range c.events {
			s.events[e].Samples += v.Samples
			s.events[e].Value += v.Value
		}
		for k, h := range c.all {
			to := merged[k]
			if to == nil {
				to = &hits{dso: h.dso, symbol: h.symbol, at: make(map[uint64][]Value)}
				merged[k] = to
				s.hits = append(s.hits, to)
			}
			to.take(h, len(s.events))
		}
	}
	s.leaveOutEvents()
	slices.SortFunc(s.hits, func(a, b *hits) int {
		return cmp.Or(byValues(a.values, b.values), cmp.Compare(a.symbol.Name, b.symbol.Name), cmp.Compare(a.dso.Index, b.dso.Index),
			cmp.Compare(a.symbol.Start, b.symbol.Start))
	})
	return s, nil
}

// leaveOutEvents drops events without samples: recorders open some events only for other records.
func (s *Samples) leaveOutEvents() {
	sampled := make([]bool, len(s.events))
	for e := range s.events {
		sampled[e] = s.events[e].Samples > 0
	}
	s.events = only(s.events, sampled)
	for _, h := range s.hits {
		h.values = only(h.values, sampled)
		for addr, values := range h.at {
			h.at[addr] = only(values, sampled)
		}
	}
}

func only[T any](all []T, wanted []bool) []T {
	kept := all[:0]
	for i, v := range all {
		if wanted[i] {
			kept = append(kept, v)
		}
	}
	return kept
}

// take adds the samples of the same function from another goroutine.
func (h *hits) take(from *hits, events int) {
	h.values = grown(h.values, events)
	add(h.values, from.values)
	for addr, values := range from.at {
		h.at[addr] = grown(h.at[addr], events)
		add(h.at[addr], values)
	}
}

func grown(values []Value, n int) []Value {
	if len(values) < n {
		values = append(values, make([]Value, n-len(values))...)
	}
	return values
}

func (c *collector) handle(items []replay.Item, out []byte) []byte {
	for i := range items {
		if s := items[i].Sample; s != nil && items[i].Event != nil && s.Fields.Has(perfdata.SampleIP) {
			c.add(&items[i])
		}
	}
	return out
}

func (c *collector) add(item *replay.Item) {
	event := item.Event.Index
	count := func(values []Value) []Value {
		values = grown(values, event+1)
		values[event].Samples++
		values[event].Value += replay.Period(item)
		return values
	}
	c.events = count(c.events)
	l := c.IP(item)
	h, known := c.known[l]
	if !known {
		h = c.hits(l)
		c.known[l] = h
	}
	if l.Symbol == nil {
		c.nameless++
	}
	if h == nil {
		return
	}
	h.values = count(h.values)
	h.at[l.Addr] = count(h.at[l.Addr])
}

// hits returns the hits that the samples at a location are added to, or nil if they are not wanted.
func (c *collector) hits(l *replay.Location) *hits {
	o := c.options
	if l.Symbol == nil || o.Symbol != "" && o.Symbol != l.Symbol.Name && o.Symbol != l.Symbol.Linkage ||
		len(o.Modules) > 0 && !l.DSO.Named(o.Modules) {
		return nil
	}
	k := key{l.DSO, l.Symbol.Start}
	h := c.all[k]
	if h == nil {
		h = &hits{dso: l.DSO, symbol: *l.Symbol, at: make(map[uint64][]Value)}
		c.all[k] = h
	}
	return h
}

// Code annotates functions whose samples the caller has, one at a time.
type Code struct {
	reader   *perfdata.Reader
	programs []*linear.Program
	options  *Options
}

// NewCode returns the code of a recording that r has read to its end. The reader stays open while it is used.
func NewCode(r *replay.Replay, reader *perfdata.Reader, o *Options) *Code {
	return &Code{reader, r.Programs(), o}
}

// LiveCode returns the code of what runs on this machine, with these BPF programs.
func LiveCode(programs []*linear.Program, o *Options) *Code {
	return &Code{programs: programs, options: o}
}

// Listing reads the code of a function.
func (c *Code) Listing(dso *replay.DSO, symbol replay.Symbol) (*Listing, error) {
	sources, err := newSources(c.reader, c.programs, c.options)
	if err != nil {
		return nil, err
	}
	defer sources.close()
	return sources.listing(&hits{dso: dso, symbol: symbol}), nil
}

// Function returns the function with samples. at has a value of each event by address; the events' sums are 100 percent of the function.
func (l *Listing) Function(events []Event, at map[uint64][]Value) *Function {
	h := &hits{values: make([]Value, len(events)), at: at}
	totals := make([]Value, len(events))
	for _, values := range at {
		add(h.values, values)
	}
	for e := range events {
		totals[e].Value = events[e].Value
	}
	setPercents(h.values, totals)
	return l.with(h)
}

// Function annotates a function. at has the samples by address, those of one event; the event's sum is 100 percent of the function.
func (c *Code) Function(dso *replay.DSO, symbol replay.Symbol, event Event, at map[uint64]Value) (*Function, error) {
	l, err := c.Listing(dso, symbol)
	if err != nil {
		return nil, err
	}
	values := make(map[uint64][]Value, len(at))
	for addr, v := range at {
		values[addr] = []Value{v}
	}
	return l.Function([]Event{event}, values), nil
}

// Report annotates the wanted functions. An error means that the recording cannot be annotated at all. What a single function lacks is in
// its fields Missing and NoSource.
func (s *Samples) Report(reader *perfdata.Reader, o *Options) (*Report, error) {
	sources, err := newSources(reader, s.programs, o)
	if err != nil {
		return nil, err
	}
	defer sources.close()
	report := &Report{Events: s.events, Functions: []*Function{}, Nameless: s.nameless}
	totals := make([]Value, len(s.events))
	for e := range s.events {
		totals[e].Value = s.events[e].Value
	}
	for _, h := range s.hits {
		if !sources.wanted(h) {
			continue
		}
		setPercents(h.values, totals)
		if !slices.ContainsFunc(h.values, func(v Value) bool { return v.Percent >= o.PercentLimit }) {
			report.Others++
			continue
		}
		f := sources.listing(h).with(h)
		if o.SkipMissing && f.Missing != "" {
			report.Unreadable++
			continue
		}
		report.Functions = append(report.Functions, f)
	}
	return report, nil
}

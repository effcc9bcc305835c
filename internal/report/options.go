// Package report turns a profile into formats for people and other tools: perf's tables and call trees, CSV, JSON, folded stacks, pprof,
// flame graphs, and the formats of speedscope and the Firefox Profiler.
//
// A table has one row for each combination of its keys, for example of command, shared object and symbol. Self is the value of a row's own
// samples. Total, with Options.Children, also includes the callees. Samples, or frames, with equal keys form a class. A call tree consists
// of branches, which are chains of frames without a fork.
package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/profile"
)

// Options select what a report shows. There is one for each flag of perf report, so that they are many.
type Options struct {
	Title    string   // whose profile WriteHTML shows; "" for the host only
	Sort     []string // keys that distinguish rows: see Keys; nil for the default
	Labels   []string // tags of the profile that are keys too
	Fields   []string // columns in output order, values and keys; if empty, the values of the flags below, then the keys
	More     []string // columns between the values and the keys, if Fields is empty
	Children bool     // add the values of callees to each function
	Group    bool     // show all events side by side, even if they were not recorded as a group

	// SortEvent is the position in its group of the event that orders rows, or of no event for the first one. 0 is for all events, one after
	// the other.
	SortEvent int

	Hierarchy bool // the text shows a level of rows for each key, each below its row of the level above

	CallGraph CallGraph

	Event    string  // the event that formats with room for one event show
	Limit    float64 // leave out rows with a smaller percentage
	Relative bool    // percentages relate to the filtered samples, not to all samples

	// IgnoreCallees is a pattern for functions whose callees CutCallees removes from a profile. It may be nil.
	IgnoreCallees *regexp.Regexp

	Filter

	Samples     bool // add a column with the number of samples
	Period      bool // add a column with the sum of the values
	Nanoseconds bool // the key "time" has nine decimals, not six
	Utilization bool // add columns with the shares of kernel and user code

	Parent    *regexp.Regexp // pattern for the key "parent", which is then a key; DefaultParent if nil
	Branches  bool           // samples are branches: there are keys for their sources
	Memory    bool           // samples are accesses to memory, and values their weights
	Counted   bool           // samples were counted in the kernel, where some keys are tags
	Slices    string         // the parts of the recording that the samples are of, as the user wrote them; empty for all of it
	Quantum   int64          // length of the intervals of the key "time", in ns; 0 for DefaultQuantum
	Separator string         // separates columns, which are then not aligned
	Widths    []int          // of the columns of the text, in characters; 0 for as wide as needed
	FullPaths bool           // the keys srcline and srcfile show whole paths
	NoHeads   bool           // the text shows only rows and call trees
	Blocks    bool           // of branches, the text shows the blocks between them in place of rows
	RawTrace  bool           // show the fields of tracepoints without their print formats

	tracepoints *tracepoints // nil if the keys do not include fields: see ReadTracepoints
}

// DefaultQuantum is the default of Options.Quantum, as in perf.
const DefaultQuantum = 100e6

// DefaultParent returns the default of Options.Parent.
func DefaultParent() *regexp.Regexp { return regexp.MustCompile("^sys_|^do_page_fault") }

// defaultSort returns the keys that distinguish rows if neither Options.Sort nor Options.Fields is set.
func (o *Options) defaultSort() []string {
	switch {
	case o.Branches:
		return []string{"comm", "dso_from", "symbol_from", "symbol_to", "cycles"}
	case o.Memory:
		return []string{"local_weight", "mem", "sym", "dso", "symbol_daddr", "dso_daddr", "snoop", "tlb", "locked", "blocked", "local_ins_lat",
			"local_p_stage_cyc"}
	}
	if o.tracepoints != nil && o.tracepoints.only {
		if fields, err := o.withFields([]string{traceFields}); err == nil && o.RawTrace {
			return fields
		}
		return []string{traceName}
	}
	return []string{"comm", "dso", "symbol"}
}

// sortKeys returns the keys that distinguish rows if Options.Fields is not set.
func (o *Options) sortKeys() []string {
	if o.Sort == nil {
		return o.defaultSort()
	}
	return slices.Clone(o.Sort)
}

// SetSort sets Sort. A plus sign before the first key adds the keys to the defaults, which are those of a report if defaults is nil.
// Names of fields become those of keys. The error is about a field: other unknown names stay.
func (o *Options) SetSort(keys, defaults []string) (err error) {
	if added, ok := afterPlus(keys); ok {
		if defaults == nil {
			defaults = o.defaultSort()
		}
		keys = append(defaults, added...)
	}
	o.Sort, err = o.withFields(keys)
	return err
}

// SetFields sets Fields, or More if a plus sign is before the first column.
func (o *Options) SetFields(columns []string) {
	if added, ok := afterPlus(columns); ok {
		o.Fields, o.More = nil, added
	} else {
		o.Fields, o.More = columns, nil
	}
}

// afterPlus returns the names without the plus sign before the first, and whether there is one.
func afterPlus(names []string) ([]string, bool) {
	if len(names) == 0 || !strings.HasPrefix(names[0], "+") {
		return names, false
	}
	names = slices.Clone(names)
	names[0] = names[0][1:]
	return names, true
}

// CallGraph selects how call trees are shown.
type CallGraph struct {
	Mode  CallGraphMode
	Limit float64 // leave out branches with a smaller percentage
	Order Order
	Lines int // maximum number of entries for each row; 0 for all
	Value GraphValue
}

// CallGraphMode is the layout of call trees.
type CallGraphMode uint8

// The modes. Percentages relate to the total in Graph, and to the branch above in Fractal. Flat and Folded print lists of stacks.
const (
	NoGraph CallGraphMode = iota
	Graph
	Fractal
	Flat
	Folded
)

// Order is the end at which call trees begin.
type Order uint8

// The orders. DefaultOrder is CallerFirst if the values of callees are added to their callers (Options.Children), otherwise CalleeFirst.
const (
	DefaultOrder Order = iota
	CalleeFirst
	CallerFirst
)

// GraphValue is the value that is printed at the branches of a call tree.
type GraphValue uint8

// The values of branches.
const (
	Percent GraphValue = iota
	Period
	Count
)

// defaultCallGraph returns the call graph that perf shows for samples with callchains.
func defaultCallGraph() CallGraph { return CallGraph{Mode: Graph, Limit: 0.5} }

// ParseCallGraph parses the argument of perf's option -g: words in any order, separated by commas. They are a mode (graph, fractal, flat,
// folded, none), a limit in percent and after it the maximum number of lines, an order (caller, callee), and a value (percent, period,
// count). The words "function" and "children" change nothing: what they select always applies. Any other word is an error.
func ParseCallGraph(text string) (CallGraph, error) {
	g := defaultCallGraph()
	modes := map[string]CallGraphMode{"none": NoGraph, "graph": Graph, "fractal": Fractal, "flat": Flat, "folded": Folded}
	orders := map[string]Order{"caller": CallerFirst, "callee": CalleeFirst}
	values := map[string]GraphValue{"percent": Percent, "period": Period, "count": Count}
	numbers := 0
	for _, word := range strings.Split(text, ",") {
		word = strings.TrimSpace(word)
		if mode, ok := modes[word]; ok {
			g.Mode = mode
			continue
		}
		if order, ok := orders[word]; ok {
			g.Order = order
			continue
		}
		if value, ok := values[word]; ok {
			g.Value = value
			continue
		}
		if word == "" || word == "function" || word == "children" {
			continue
		}
		number, err := strconv.ParseFloat(word, 64)
		if err != nil || number < 0 || numbers == 2 {
			return g, fmt.Errorf("call graph %q: %q is no mode (graph, fractal, flat, folded, none), order (caller, callee), "+
				"value (percent, period, count), limit in percent or number of lines", text, word)
		}
		if numbers == 0 {
			g.Limit = number
		} else {
			g.Lines = int(number)
		}
		numbers++
	}
	return g, nil
}

// order returns the order in effect.
func (o *Options) order() Order {
	if o.CallGraph.Order != DefaultOrder {
		return o.CallGraph.Order
	}
	if o.Children {
		return CallerFirst
	}
	return CalleeFirst
}

// NeedsStacks reports whether tables need the stacks of samples.
func (o *Options) NeedsStacks() bool {
	return o.Children || o.CallGraph.Mode != NoGraph || len(o.Programs) > 0 || o.Parent != nil || o.Caller != nil || o.IgnoreCallees != nil ||
		slices.Contains(slices.Concat(o.Sort, o.Fields, o.More), "parent")
}

// CheckEarly checks the columns before the recording is known: unknown sort keys can be fields of its tracepoints, unless samples are
// counted.
func (o *Options) CheckEarly() error {
	early := *o
	if !o.Counted {
		early.Sort = slices.DeleteFunc(slices.Clone(o.Sort), func(name string) bool { return !o.isColumn(name) })
	}
	_, err := early.NeededKeys()
	return err
}

// NeededKeys returns the keys that a profile must keep for a report with these options. An unknown column is an error.
func (o *Options) NeededKeys() (profile.Keys, error) {
	var keys profile.Keys
	columns, err := o.columns()
	if err != nil {
		return 0, err
	}
	for _, c := range columns {
		keys |= c.needs
		if c.key != nil {
			keys |= c.key.needs
		}
	}
	if len(o.Comms) > 0 {
		keys |= profile.Comm
	}
	if o.Blocks {
		keys |= profile.Branch | profile.Block | profile.Address | profile.Line
	}
	return keys, nil
}

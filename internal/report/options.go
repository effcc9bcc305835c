// Package report turns a profile into what people and other tools read: perf's tables and call trees, CSV, JSON, folded stacks,
// pprof, flame graphs, and the formats of speedscope and the Firefox Profiler.
package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/profile"
)

// Options say what a report shows of a profile. They are those of perf report.
type Options struct {
	Sort     []string // the keys that tell rows apart: see Keys
	Labels   []string // tags of the profile that are keys, too
	Fields   []string // the columns in their order, values and keys; without them the values of the flags below, then the keys
	Children bool     // add to each function what its callees have
	Group    bool     // show all events side by side, not only those that were recorded as a group

	CallGraph CallGraph

	Event    string  // of several, the one that formats with room for one show
	Limit    float64 // rows of a smaller percentage are left out
	Relative bool    // percentages are of what the filters leave, not of everything

	Comms    []string // only samples of these names of threads
	DSOs     []string // only samples in these modules, by short or whole name
	Symbols  []string // only samples in these functions
	Programs []string // only samples with one of these BPF programs, by name or ID, on their stack

	Samples     bool // a column with the number of samples
	Period      bool // a column with the sum of the values
	Utilization bool // columns with the shares of kernel and user code

	Parent      *regexp.Regexp // what the key "parent" looks for; DefaultParent if it is nil
	TimeQuantum int64          // what the key "time" is rounded down to, in ns; 100 ms if it is 0
	Separator   string         // between columns, which then are not aligned
}

// defaultParent is what the key "parent" looks for.
const defaultParent = "^sys_|^do_page_fault"

// defaultSort are the keys that rows are told apart by when nobody says otherwise.
func defaultSort() []string { return []string{"comm", "dso", "symbol"} }

// CallGraph says how call trees are shown.
type CallGraph struct {
	Mode  CallGraphMode
	Limit float64 // branches of a smaller percentage are left out
	Order Order
	Lines int // the most entries that are shown of each row; 0 is all
	Value GraphValue
}

// CallGraphMode is how call trees are drawn.
type CallGraphMode uint8

// The modes. In a Graph percentages are of the total, in a Fractal one of the branch above. Flat and Folded are lists of stacks.
const (
	NoGraph CallGraphMode = iota
	Graph
	Fractal
	Flat
	Folded
)

// Order is the end at which call trees begin.
type Order uint8

// The orders. By default trees begin at the callers where the values of callees are added to them, else at the callees.
const (
	DefaultOrder Order = iota
	CalleeFirst
	CallerFirst
)

// GraphValue is what stands at the branches of a call tree.
type GraphValue uint8

// The values of branches.
const (
	Percent GraphValue = iota
	Period
	Count
)

// defaultCallGraph is what perf shows of samples with callchains.
func defaultCallGraph() CallGraph { return CallGraph{Mode: Graph, Limit: 0.5} }

// ParseCallGraph parses what perf takes behind -g: words with a comma between them, in any order. They are a mode (graph, fractal, flat,
// folded, none), a limit in percent and behind it the most lines, an order (caller, callee), and a value (percent, period, count). The
// words "function" and "children" say what is so anyway.
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

// order returns the order that is in force.
func (o *Options) order() Order {
	if o.CallGraph.Order != DefaultOrder {
		return o.CallGraph.Order
	}
	if o.Children {
		return CallerFirst
	}
	return CalleeFirst
}

// NeedsStacks tells whether tables need the stacks of samples.
func (o *Options) NeedsStacks() bool {
	return o.Children || o.CallGraph.Mode != NoGraph || len(o.Programs) > 0 || slices.Contains(o.Sort, "parent") || slices.Contains(o.Fields, "parent")
}

// NeededKeys returns the keys that a profile must keep for a report with these options.
func (o *Options) NeededKeys() (profile.Keys, error) {
	var keys profile.Keys
	columns, err := o.columns()
	if err != nil {
		return 0, err
	}
	for _, c := range columns {
		if c.key != nil {
			keys |= c.key.needs
		}
	}
	if len(o.Comms) > 0 {
		keys |= profile.Comm
	}
	return keys, nil
}

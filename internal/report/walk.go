package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
)

// Walk holds a profile for a reader who moves through its tables. Nothing in it changes the profile, so its methods, and those of its
// tables, may run at the same time.
type Walk struct {
	p      *profile.Profile
	groups [][]int
}

// NewWalk returns a walk of the events that have samples. With group, all events are side by side in one table.
func NewWalk(p *profile.Profile, group bool) *Walk {
	groups := slices.DeleteFunc(groupEvents(p.Events, group), func(events []int) bool {
		return !slices.ContainsFunc(events, func(e int) bool { return p.Events[e].Samples > 0 })
	})
	return &Walk{p, groups}
}

// Profile returns the profile of NewWalk.
func (w *Walk) Profile() *profile.Profile { return w.p }

// Tables returns the number of tables: one for each event, or for each group of events.
func (w *Walk) Tables() int { return len(w.groups) }

// WalkTable is the table of an event or of a group of events. All its texts are clean for a terminal.
type WalkTable struct {
	Events  string // their names
	Samples uint64 // of all events
	Left    uint64 // samples that the zooms leave
	Value   uint64 // the sum of the values of Samples
	Columns []WalkColumn
	Rows    []*WalkRow

	t *table
}

// WalkColumn is a column of a table.
type WalkColumn struct {
	Title string
	Width int  // of its widest text, in characters
	Value bool // a value of events, not a key
	Right bool // the title is aligned to the right
	Fixed bool // its texts have no names, only numbers: they must not be cut
}

// WalkRow is a row of a table.
type WalkRow struct {
	r *row
	t *table
}

// WalkCall is a branch of a row's call tree: functions that all samples of the branch pass through.
type WalkCall struct {
	Value string // of the branch, as Options.CallGraph shows values

	b    *branch
	base uint64 // value of 100 percent for the branches below
	t    *table
}

// WalkFunction is a function of a row or a call tree.
type WalkFunction struct {
	Name    string // as tables show it, clean for a terminal
	Symbol  string // the name of its symbol; "" if it has none
	Module  string // the path of its file, or the name that stands for one
	Inlined bool   // the code is in the function that called it
}

// Table returns a table. The error is about unknown keys.
func (w *Walk) Table(number int, o *Options, zooms []Zoom) (*WalkTable, error) {
	options := *o
	columns, err := options.columns()
	if err != nil {
		return nil, err
	}
	ofFiles := slices.ContainsFunc(columns, func(c *column) bool { return c.key != nil && c.key.scope == ofFrame })
	var byRow []Zoom
	for _, z := range zooms {
		if z.kind == zoomFile && ofFiles {
			byRow = append(byRow, z)
		} else {
			options.zooms = append(options.zooms, z)
		}
	}
	t, err := newTable(w.p, &options, w.groups[number])
	if err != nil {
		return nil, err
	}
	out := &WalkTable{t: t}
	for _, r := range t.rows {
		if t.shown(r) && !slices.ContainsFunc(byRow, func(z Zoom) bool { return moduleName(w.p, r.frame) != z.name }) {
			out.Rows = append(out.Rows, &WalkRow{r, t})
		}
	}
	out.describe()
	return out, nil
}

// describe sets what WalkTable shows besides its rows.
func (w *WalkTable) describe() {
	t := w.t
	var names []string
	for i, sums := range t.totals {
		w.Samples += sums.samples
		w.Left += sums.leftSamples
		w.Value += sums.value
		names = append(names, printable.Text(t.p.Events[t.events[i]].Name))
	}
	w.Events = strings.Join(names, ", ")
	for i, width := range t.widths() {
		c := t.columns[i]
		w.Columns = append(w.Columns, WalkColumn{Title: c.title, Width: width, Value: c.key == nil, Right: c.key == nil || c.key.right,
			Fixed: c.key == nil || w.numbers(c)})
	}
}

// numbers reports whether a column of a key has only numbers.
func (w *WalkTable) numbers(c *column) bool {
	return !slices.ContainsFunc(w.Rows, func(r *WalkRow) bool {
		return strings.Trim(c.key.text(w.t.p, &r.r.properties, 0), "0123456789abcdefx+-.:% ") != ""
	})
}

// Cells returns the texts of a row in all columns. Values and numbers have leading blanks.
func (r *WalkRow) Cells(columns []WalkColumn) []string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = r.t.fit(r.t.cell(r.t.columns[i], r.r, c.Width), i)
	}
	return cells
}

// Has reports whether one of a row's keys has a text in it, which must be in lower case.
func (r *WalkRow) Has(text string) bool {
	return slices.ContainsFunc(r.t.columns, func(c *column) bool {
		return c.key != nil && strings.Contains(strings.ToLower(printable.Text(c.key.text(r.t.p, &r.r.properties, 0))), text)
	})
}

// HasCall reports whether a function in a row's call tree has a text in its name, which must be in lower case.
func (r *WalkRow) HasCall(text string) bool {
	var has func([]*branch) bool
	has = func(branches []*branch) bool {
		return slices.ContainsFunc(branches, func(b *branch) bool {
			return has(b.calls) || slices.ContainsFunc(b.frames, func(id profile.FrameID) bool {
				f := r.t.p.Frames()[id]
				return strings.Contains(strings.ToLower(printable.Text(frameName(r.t.p, &f))), text)
			})
		})
	}
	return has(r.r.calls)
}

// HasCalls reports whether a row has a call tree.
func (r *WalkRow) HasCalls() bool { return len(r.r.calls) > 0 }

// Calls returns the branches of a row's call tree. Percentages are of the table's base or, in a fractal graph, of the row.
func (r *WalkRow) Calls() []WalkCall {
	base := r.t.base(0)
	if r.t.o.CallGraph.Mode == Fractal {
		base = r.t.whole(r.r, 0)
	}
	return walkCalls(r.t, r.r.calls, base)
}

// Calls returns the branches below a branch.
func (c *WalkCall) Calls() []WalkCall { return walkCalls(c.t, c.b.calls, c.base) }

func walkCalls(t *table, branches []*branch, base uint64) []WalkCall {
	if t.o.CallGraph.Lines > 0 {
		branches = branches[:min(len(branches), t.o.CallGraph.Lines)]
	}
	calls := make([]WalkCall, 0, len(branches))
	for _, b := range branches {
		below := base
		if t.o.CallGraph.Mode == Fractal {
			below = b.value - b.ending.value
		}
		calls = append(calls, WalkCall{Value: callValue(t.o, b.sum, base), b: b, base: below, t: t})
	}
	return calls
}

// Functions returns the functions of a branch, from the one that is nearest to the row on.
func (c *WalkCall) Functions() []WalkFunction {
	functions := make([]WalkFunction, 0, len(c.b.frames))
	for _, id := range c.b.frames {
		f := c.t.p.Frames()[id]
		functions = append(functions, walkFunction(c.t.p, &f))
	}
	return functions
}

// HasCalls reports whether there are branches below a branch.
func (c *WalkCall) HasCalls() bool { return len(c.b.calls) > 0 }

// Function returns a row's function, or false if rows are not of functions.
func (r *WalkRow) Function() (WalkFunction, bool) {
	if _, elided := r.t.o.elided()["symbol"]; !elided && !r.t.hasKey("symbol") {
		return WalkFunction{}, false
	}
	return walkFunction(r.t.p, r.r.frame), true
}

func walkFunction(p *profile.Profile, f *profile.Frame) WalkFunction {
	function := p.Functions.At(f.Function)
	module := p.Modules.At(f.Module)
	w := WalkFunction{Name: printable.Text(frameName(p, f)), Symbol: p.Strings.At(function.Name), Module: p.Strings.At(module.Path),
		Inlined: f.Inlined}
	if function.Linkage != 0 {
		w.Symbol = p.Strings.At(function.Linkage)
	}
	if w.Module == "" {
		w.Module = p.Strings.At(module.Name)
	}
	return w
}

// hasKey reports whether a table has the column of a key.
func (t *table) hasKey(names ...string) bool {
	return slices.ContainsFunc(t.columns, func(c *column) bool { return c.key != nil && slices.Contains(names, c.name) })
}

// Zoom leaves only the samples of a thread or of threads with a name, or only what is in a file.
type Zoom struct {
	kind zoomKind
	id   int32  // of the thread or process
	name string // of the thread or the file
}

type zoomKind uint8

const (
	zoomThread zoomKind = iota
	zoomProcess
	zoomComm
	zoomFile
)

// String returns what is left, clean for a terminal.
func (z Zoom) String() string {
	name := printable.Text(z.name)
	switch z.kind {
	case zoomThread:
		return "thread " + strconv.Itoa(int(z.id)) + " " + name
	case zoomProcess:
		return "process " + strconv.Itoa(int(z.id)) + " " + name
	case zoomComm:
		return "threads named " + name
	}
	return "file " + name
}

// ZoomThread returns the zoom that leaves only a row's thread, as far as rows differ in threads.
func (r *WalkRow) ZoomThread() (Zoom, error) {
	l := r.r.labels
	name := r.t.p.Strings.At(l.Comm)
	switch {
	case r.t.hasKey("pid", "tid"):
		return Zoom{kind: zoomThread, id: l.TID, name: name}, nil
	case r.t.hasKey("tgid"):
		return Zoom{kind: zoomProcess, id: l.PID, name: name}, nil
	case r.t.hasKey("comm"):
		return Zoom{kind: zoomComm, name: name}, nil
	}
	return Zoom{}, fmt.Errorf("a row can be of several threads: sort by tid or comm first")
}

// ZoomFile returns the zoom that leaves only the file of a row.
func (r *WalkRow) ZoomFile() (Zoom, error) {
	if !r.t.hasKey("dso", "symbol") {
		return Zoom{}, fmt.Errorf("a row can be of several files: sort by dso or symbol first")
	}
	return Zoom{kind: zoomFile, name: moduleName(r.t.p, r.r.frame)}, nil
}

// passes reports whether a zoom leaves a sample.
func (z *Zoom) passes(p *profile.Profile, s *profile.Sample) bool {
	l := p.Labels()[s.Labels]
	switch z.kind {
	case zoomThread:
		return l.TID == z.id
	case zoomProcess:
		return l.PID == z.id
	case zoomComm:
		return p.Strings.At(l.Comm) == z.name
	}
	leaf := p.Frames()[s.Leaf]
	return moduleName(p, &leaf) == z.name
}

// SortKeys returns the keys that distinguish rows, in their order.
func (o *Options) SortKeys() []string { return o.sortKeys() }

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/serve/remote"
	"github.com/bperf/bperf/internal/top"
	"github.com/bperf/bperf/test/require"
)

// functionsLine returns what bperf top --json prints for functions, from "share|object|name" each.
func functionsLine(t testing.TB, rows ...string) string {
	columns := []top.Column{{Name: "share", Title: "now %"}, {Kind: top.Trend}, {Name: "samples", Title: "samples"}, {Name: "object", Title: "object", Kind: top.Word},
		{Name: "name", Title: "name", Kind: top.Word}}
	r := &top.Reading{Total: "12 samples", Cost: "bperf takes 1 %"}
	for i, row := range rows {
		f := strings.SplitN(row, "|", 3)
		share, err := strconv.ParseFloat(f[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		r.Rows = append(r.Rows, top.Row{ID: uint64(i), Cells: []top.Cell{{Text: f[0], Value: share}, {}, {Text: "7", Value: 7}, {Text: f[1]}, {Text: f[2]}}})
	}
	return topLine(t, "functions", columns, r)
}

func topLine(t testing.TB, subject string, columns []top.Column, r *top.Reading) string {
	t.Helper()
	var b bytes.Buffer
	if err := writeTopJSON(&b, subject, columns, r, top.Order{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// startNodesTop returns a merger of the tables of nodes a, b and c, and its output.
func startNodesTop(t *testing.T, sort string) (*nodesTop, *bytes.Buffer) {
	t.Helper()
	require.NoKernel(t)
	var out bytes.Buffer
	return newNodesTop(&out, []*remote.Node{{Name: "a"}, {Name: "b"}, {Name: "c\x1b"}}, sort), &out
}

func (n *nodeTop) send(t *testing.T, text string) {
	t.Helper()
	for i := range len(text) { // the parts may be of any length
		if _, err := io.WriteString(n, text[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
}

// rowsOf returns the lines of the output below those about nodes, without what pads them.
func rowsOf(out string) (rows []string) {
	for line := range strings.Lines(out) {
		if !strings.Contains(line, ": ") {
			rows = append(rows, strings.Join(strings.Fields(line), " "))
		}
	}
	return rows
}

func TestNodesTop(t *testing.T) {
	all, out := startNodesTop(t, "")
	a, b, c := all.nodes[0], all.nodes[1], all.nodes[2]
	b.send(t, functionsLine(t, "60.0|[kernel]  x|überall", "10.0|app|x\x1b[2J"))
	c.send(t, functionsLine(t))
	if out.Len() > 0 {
		t.Fatalf("a table was printed before those of all nodes were there:\n%s", out)
	}
	a.send(t, functionsLine(t, "40.0|app|main", "9.0||a  b"))
	want := `a: 0001-01-01 00:00:00, 0.000 s: 12 samples
a: bperf takes 1 %
b: 0001-01-01 00:00:00, 0.000 s: 12 samples
b: bperf takes 1 %
c?: 0001-01-01 00:00:00, 0.000 s: 12 samples
c?: bperf takes 1 %
node  now %  samples  object       name
b      60.0        7  [kernel]  x  überall
a      40.0        7  app          main
b      10.0        7  app          x?[2J
a       9.0        7               a  b
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	out.Reset()
	for _, n := range all.nodes {
		n.send(t, functionsLine(t, "1.0|app|main"))
		if err := n.end(nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := rowsOf(out.String()); len(got) != 5 || got[0] != "" || got[2] != "a 1.0 7 app main" || got[4] != "c? 1.0 7 app main" {
		t.Errorf("the last table:\n%s", out)
	}
}

// TestNodesTopWithoutSome checks that a node that goes away or hangs is marked, and does not hold up the others.
func TestNodesTopWithoutSome(t *testing.T) {
	all, out := startNodesTop(t, "")
	a, b, c := all.nodes[0], all.nodes[1], all.nodes[2]
	a.send(t, functionsLine(t, "1.0|app|first"))
	b.send(t, strings.TrimSuffix(functionsLine(t, "2.0|app|cut off"), "\n"))
	if err := errors.Join(b.end(errors.New("connection\nreset"), 0), c.end(nil, 1)); err != nil {
		t.Fatal(err)
	}
	a.send(t, functionsLine(t, "1.0|app|second"))
	got := out.String()
	for _, want := range []string{"\nb: connection?reset\n", "\nc?: it ended with status 1\n", "first"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	if strings.Contains(got, "cut off") {
		t.Errorf("a table that was cut off is shown:\n%s", got)
	}

	all, out = startNodesTop(t, "")
	a, b, c = all.nodes[0], all.nodes[1], all.nodes[2]
	if err := c.end(nil, 0); err != nil {
		t.Fatal(err)
	}
	b.send(t, "half a line of a node that hangs")
	for i := range mostWaiting {
		a.send(t, functionsLine(t, fmt.Sprint("1.0|app|", i)))
	}
	if out.Len() > 0 {
		t.Errorf("nobody waits for a slow node:\n%s", out)
	}
	a.send(t, functionsLine(t, "1.0|app|last"))
	if got := out.String(); !strings.Contains(got, "\nb: no table yet\n") || strings.Contains(got, "c?") || strings.Count(got, "app") != 1 {
		t.Errorf("got\n%s", got)
	}
}

func TestNodesTopOthers(t *testing.T) {
	columns := []top.Column{{Name: "cpu", Title: "cpu %"}, {Name: "ns", Title: "ns/run"}, {Name: "id", Title: "id", Kind: top.Number},
		{Name: "type", Title: "type", Kind: top.Word}, {Name: "name", Title: "name", Kind: top.Word}}
	row := func(id uint64, cpu, ns float64, kind, name string) top.Row {
		return top.Row{ID: id, Cells: []top.Cell{{Text: fmt.Sprint(cpu), Value: cpu}, {Text: fmt.Sprint(ns), Value: ns}, {Text: fmt.Sprint(id), Value: float64(id)},
			{Text: kind}, {Text: name}}}
	}
	programs := topLine(t, "programs", columns, &top.Reading{Total: "now", Cost: "cost",
		Rows: []top.Row{row(9, 1, 27_100, "xdp", "p1"), row(10, 3, math.NaN(), "kprobe", "p2"), row(11, 2, 900, "xdp", "p3")}})
	for _, tt := range []struct{ sort, first, last string }{
		{"", "p2", "p1"}, {"cpu", "p2", "p1"}, {"ns", "p1", "p2"}, {"id", "p1", "p3"}, {"name", "p1", "p3"}, {"type", "p2", "p3"},
	} {
		all, out := startNodesTop(t, tt.sort)
		for _, n := range all.nodes[1:] {
			if err := n.end(nil, 0); err != nil {
				t.Fatal(err)
			}
		}
		all.nodes[0].send(t, programs)
		rows := rowsOf(out.String())
		if len(rows) != 4 || !strings.Contains(rows[1], tt.first) || !strings.Contains(rows[3], tt.last) {
			t.Errorf("by %q:\n%s", tt.sort, out)
		}
	}
	all, out := startNodesTop(t, "")
	all.nodes[0].send(t, programs)
	all.nodes[1].send(t, functionsLine(t, "1.0|app|main"))
	all.nodes[2].send(t, functionsLine(t, "2.0|app|main"))
	if rows := rowsOf(out.String()); len(rows) != 7 || rows[0] != "node cpu % ns/run id type name" || rows[4] != "node now % samples object name" || rows[5] != "c? 2.0 7 app main" {
		t.Errorf("tables of other columns:\n%s", out)
	}
	const head = `{"schema":"bperf.top/1","data":{`
	for _, text := range []string{"\n", "a\n", `{"schema":"bperf.diff/1","data":{}}` + "\n", `{"data":{}}` + "\n", head + `"rows":[{}]}}` + "\n",
		head + `"columns":[{"kind":"trend"}]}}` + "\n", head + `"columns":[{"kind":"word"}],"rows":[{"cells":[{},{}]}]}}` + "\n",
		strings.Repeat("x", maxReading+1)} {
		all, _ := startNodesTop(t, "cpu")
		if _, err := io.WriteString(all.nodes[0], text); !errors.Is(err, errNoTop) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

// FuzzNodesTop checks that no node can break the table of others.
func FuzzNodesTop(f *testing.F) {
	f.Add(functionsLine(f, "40.0|app|main") + functionsLine(f, "9.0||a  b"))
	f.Add(strings.Replace(functionsLine(f, "1|x|y"), "word", "number", 1))
	f.Fuzz(func(t *testing.T, text string) {
		all, out := startNodesTop(t, "")
		for i, n := range all.nodes {
			sent := text
			if i > 0 {
				sent = functionsLine(t, "1.0|app|good")
			}
			_, err := io.WriteString(n, sent)
			if err := n.end(err, 0); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Count(out.String(), "good\n") < 2 {
			t.Errorf("%q:\n%s", text, out)
		}
	})
}

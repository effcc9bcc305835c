package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/serve/remote"
	"github.com/bperf/bperf/internal/top"
	"github.com/bperf/bperf/test/require"
)

// functionsTable returns what bperf top prints for functions, from "share object name" each.
func functionsTable(first bool, rows ...string) string {
	columns := []top.Column{{Title: "now %"}, {Title: "", Kind: top.Trend}, {Title: "samples"}, {Title: "object", Kind: top.Word}, {Title: "name", Kind: top.Word}}
	r := &top.Reading{Total: "12 samples", Cost: "bperf takes 1 %"}
	for i, row := range rows {
		var share float64
		var text, object, name string
		f := strings.SplitN(row, "|", 3)
		text, object, name = f[0], f[1], f[2]
		fmt.Sscan(text, &share)
		r.Rows = append(r.Rows, top.Row{ID: uint64(i), Cells: []top.Cell{{Text: text, Value: share}, {}, {Text: "7"}, {Text: object}, {Text: name}}})
	}
	var b bytes.Buffer
	if !first {
		b.WriteByte('\n')
	}
	writeTop(&b, columns, r, top.Order{})
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
	a.send(t, functionsTable(true, "40.0|app|main", "9.0||a  b"))
	b.send(t, functionsTable(true, "60.0|[kernel]  x|überall", "10.0|app|x\x1b[2J"))
	c.send(t, functionsTable(true))
	for _, n := range all.nodes {
		if out.Len() > 0 {
			t.Fatalf("a table was printed before those of all nodes were complete:\n%s", out)
		}
		n.send(t, functionsTable(false, "1.0|app|main"))
	}
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
	a.send(t, functionsTable(true, "1.0|app|first"))
	b.send(t, functionsTable(true, "2.0|app|cut off"))
	if err := errors.Join(b.end(errors.New("connection\nreset"), 0), c.end(nil, 1)); err != nil {
		t.Fatal(err)
	}
	a.send(t, functionsTable(false, "1.0|app|second"))
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
	for i := range mostWaiting + 1 {
		a.send(t, functionsTable(i == 0, fmt.Sprint("1.0|app|", i)))
	}
	if out.Len() > 0 {
		t.Errorf("nobody waits for a slow node:\n%s", out)
	}
	a.send(t, functionsTable(false, "1.0|app|last"))
	if got := out.String(); !strings.Contains(got, "\nb: no table yet\n") || strings.Contains(got, "c?") || strings.Count(got, "app") != 1 {
		t.Errorf("got\n%s", got)
	}
}

func TestNodesTopOthers(t *testing.T) {
	programs := "now\ncost\ncpu %  ns/run  id  type    name\n" +
		" 1.00   27.1k   9  xdp     p1\n 3.00       -  10  kprobe  p2\n 2.00     900  11  xdp     p3\n\n"
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
	all.nodes[1].send(t, functionsTable(true, "1.0|app|main")+"\n")
	all.nodes[2].send(t, functionsTable(true, "2.0|app|main")+"\n")
	if rows := rowsOf(out.String()); len(rows) != 7 || rows[0] != "node cpu % ns/run id type name" || rows[4] != "node now % samples object name" || rows[5] != "c? 2.0 7 app main" {
		t.Errorf("tables of other columns:\n%s", out)
	}
	for _, text := range []string{"a\nb\nc\nd\n", "a\nb\nname\nd\ne\ncpu %  name\n\na\nb\ncpu %  name\n\nx\ny\ncpu %  name\n a b  c\n", strings.Repeat("x", maxTable+1),
		strings.Repeat("x\n", maxTable/2+1), "a\nb\ncpu %  name\n\n\n\na\nb\ncpu %  name\nx\n1 2 3 4 5 6 7\n"} {
		all, _ := startNodesTop(t, "cpu")
		if _, err := io.WriteString(all.nodes[0], text); !errors.Is(err, errNoTop) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

// FuzzNodesTop checks that no node can break the table of others.
func FuzzNodesTop(f *testing.F) {
	f.Add(functionsTable(true, "40.0|app|main") + functionsTable(false, "9.0||a  b"))
	f.Add("a\nb\ncpu %  name\n1  x\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, out := startNodesTop(t, "")
		for i, n := range all.nodes {
			sent := text
			if i > 0 {
				sent = "a\nb\ncpu %  name\n  1.0  good\n\n"
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

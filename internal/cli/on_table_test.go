package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/serve/remote"
	"github.com/bperf/bperf/test/require"
)

// TestNodesTable adds up the counts of nodes that count the same, of one that lacks an event, and of one without counts.
func TestNodesTable(t *testing.T) {
	require.NoKernel(t)
	const row = `{"counter-value" : "%s", "unit" : "%s", "event" : "%s", "event-runtime" : 5, "pcnt-running" : %v}` + "\n"
	const metric = `{"metric-value" : "1.5", "metric-unit" : "insn per cycle"}` + "\n\n"
	var nodes []*remote.Node
	var counts [][]nodeCount
	for _, node := range []struct{ name, text string }{
		{"node1", fmt.Sprintf(row+row+metric, "1234567.000000", "", "cycles", 100.0, "10.500000", "msec", "cpu-clock", 100.0)},
		{"node2", fmt.Sprintf(row+row, "999.000000", "", "cycles", 50.0, "<not counted>", "msec", "cpu-clock", 0.0)},
		{"node3", ""},
		{"node4", fmt.Sprintf(row+row, "1.000000", "", "a-long-name-of-an-event-that-only-this-node-counts", 100.0, "NaN", "", "evil\\u001b[2J", 100.0)},
	} {
		n, err := remote.ParseNode(node.name)
		if err != nil {
			t.Fatal(err)
		}
		var c nodeCounts
		c.Write([]byte(node.text))
		rows, err := c.rows()
		if err != nil {
			t.Error(err)
		}
		nodes, counts = append(nodes, n), append(counts, rows)
	}
	const want = `
node       cycles  cpu-clock msec
node1   1,234,567           10.50
node2        ≈999   <not counted>
node4
total  ≈1,235,566           10.50

node   a-long-name-of-an-event-that-only-this-node-counts  evil?[2J
node1
node2
node4                                                   1       NaN
total                                                   1         -

The totals are without node3.
The total of cycles is without node4.
The total of cpu-clock msec is without node2, node4.
The total of a-long-name-of-an-event-that-only-this-node-counts is without node1, node2.
`
	var out strings.Builder
	if err := writeNodes(&out, nodes, counts); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	if err := writeNodes(&out, nodes[:1], [][]nodeCount{nil}); err != nil || out.Len() > 0 {
		t.Errorf("without counts: %v, %q", err, out.String())
	}
}

func TestNodesTableRefuses(t *testing.T) {
	require.NoKernel(t)
	const row = `{"counter-value" : "1", "event" : "cycles"}` + "\n"
	for _, text := range []string{"no JSON\n", row + "{\n", `{"event" : 1}` + "\n", strings.Repeat(row, maxEvents+1)} {
		var c nodeCounts
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.rows(); err == nil {
			t.Errorf("%.50q has rows", text)
		}
	}
	var c nodeCounts
	if _, err := c.Write(make([]byte, maxTable+1)); err == nil {
		t.Error("a node can send without end")
	}
}

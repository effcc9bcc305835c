package report

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/profile"
)

// onAndOff returns a profile of the same function on a CPU and blocked.
func onAndOff(tagged bool) *profile.Profile {
	p := profile.New(profile.Comm | profile.Other)
	p.Events = []profile.Event{{Name: "wall-clock", Unit: "ns"}}
	id := p.Strings.ID
	frame := p.Frame(profile.Frame{Function: p.Functions.ID(profile.Function{Name: id("work")}), Kind: profile.User})
	for i, wall := range []string{"on-CPU", "off-CPU"} {
		labels := profile.Labels{Comm: id("server")}
		if tagged {
			labels.Tags = p.Tags.ID(profile.Tag{Key: id("wall"), Value: id(wall)})
		}
		p.Add(profile.Sample{Labels: p.Label(labels), Leaf: frame, Stack: p.Stacks.ID([]profile.FrameID{frame}), Count: 1, Value: uint64(10 * (i + 1))})
	}
	return p
}

// TestWall expects one frame for the time on CPUs and one for blocked time, with the stacks above them.
func TestWall(t *testing.T) {
	for _, tt := range []struct {
		tagged bool
		folded string
	}{{true, "server;off-CPU;work 20\nserver;on-CPU;work 10\n"}, {false, "server;work 30\n"}} {
		var folded, graph bytes.Buffer
		if err := WriteFolded(&folded, onAndOff(tt.tagged), &Options{Counted: true}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.folded, folded.String()); diff != "" {
			t.Errorf("folded (-want +got):\n%s", diff)
		}
		if err := WriteFlameGraph(&graph, onAndOff(tt.tagged), nil, &Options{Counted: true}); err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal(graph.Bytes(), new(struct{})); err != nil {
			t.Error(err)
		}
		for _, part := range []string{`class="f offcpu"`, `class="f oncpu"`, ">blocked</text>", ">on a CPU</text>"} {
			if strings.Contains(graph.String(), part) != tt.tagged {
				t.Errorf("tagged %v: whether there is %s is otherwise", tt.tagged, part)
			}
		}
	}
}

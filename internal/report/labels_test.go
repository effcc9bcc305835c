package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/profile"
)

// TestLabelFrames expects a frame for each label among the sort keys, in their order.
func TestLabelFrames(t *testing.T) {
	p := profile.New(profile.Comm | profile.PID | profile.TID | profile.CPU | profile.Cgroup | profile.Other)
	p.Events = []profile.Event{{Name: "cycles"}}
	id := p.Strings.ID
	frame := p.Frame(profile.Frame{Function: p.Functions.ID(profile.Function{Name: id("work")}), Kind: profile.User})
	for i, comm := range []string{"sh;x", ""} {
		labels := profile.Labels{Comm: id(comm), PID: 11, TID: 12, CPU: int32(i), Cgroup: id("/user")}
		if i == 0 {
			labels.Tags = p.Tags.ID(profile.Tag{Key: id("state"), Value: id("S"), Next: p.Tags.ID(profile.Tag{Key: id("waker"), Value: id("init:1")})})
		}
		p.Add(profile.Sample{Labels: p.Label(labels), Leaf: frame, Stack: p.Stacks.ID([]profile.FrameID{frame}), Count: 1, Value: uint64(10 * (i + 1))})
	}
	for keys, want := range map[string]string{
		"":                              "sh:x;work 10\nwork 20\n",
		"dso,symbol":                    "sh:x;work 10\nwork 20\n",
		"symbol,comm":                   "sh:x;work 10\nwork 20\n",
		"cpu,comm":                      "cpu 0;sh:x;work 10\ncpu 1;work 20\n",
		"comm,dso,cpu":                  "cpu 1;work 20\nsh:x;cpu 0;work 10\n",
		"cgroup,symbol":                 "/user;work 30\n",
		"pid,cgroup":                    "pid 12:sh:x;/user;work 10\npid 12;/user;work 20\n",
		"state,waker,symbol,cpu,comm":   "cpu 1;work 20\nstate S;waker init:1;cpu 0;sh:x;work 10\n",
		"time,symbol,srcline,cpu,state": "cpu 0;state S;work 10\ncpu 1;work 20\n",
	} {
		o := &Options{Counted: true}
		if keys != "" {
			o.Sort = strings.Split(keys, ",")
		}
		var folded, graph bytes.Buffer
		if err := WriteFolded(&folded, p, o); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, folded.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", keys, diff)
		}
		if err := WriteFlameGraph(&graph, p, nil, o); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(keys, "cpu") != strings.Contains(graph.String(), ">cpu 1<") {
			t.Errorf("%s: whether the graph has a frame of CPU 1 is otherwise", keys)
		}
	}
}

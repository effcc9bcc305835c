package report

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/bperf/bperf/internal/profile"
)

// TestOrderOfInlined prints rows that differ only in the names of inlined functions, which have no addresses. Their order must always be
// the same.
func TestOrderOfInlined(t *testing.T) {
	p := profile.New(0)
	p.Events = []profile.Event{{Name: "cpu-clock", Unit: "ns"}}
	module := p.Modules.ID(profile.Module{Name: p.Strings.ID("program"), Path: p.Strings.ID("/program")})
	frame := func(name string, start uint64, inlined bool) profile.FrameID {
		f := profile.Function{Name: p.Strings.ID(name), Module: module, Start: start, End: start}
		return p.Frame(profile.Frame{Function: p.Functions.ID(f), Module: module, Inlined: inlined, Kind: profile.User})
	}
	outer := frame("outer", 0x1000, false)
	labels := p.Label(profile.Labels{})
	for i := range 50 { // callers come before callees, but only within a thread
		stack := []profile.FrameID{frame(fmt.Sprint("inner", i), 0, true)}
		for range i * 7 % 11 {
			stack = append(stack, outer)
		}
		p.Add(profile.Sample{Leaf: stack[0], Stack: p.Stacks.ID(stack), Labels: labels, Thread: int32(i % 3), First: int64(i), Count: 1, Value: 1})
	}
	var first []byte
	for range 5 {
		var b bytes.Buffer
		if err := Text(&b, p, &Options{Children: true, CallGraph: defaultCallGraph()}); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b.Bytes()
		}
		if !bytes.Equal(first, b.Bytes()) {
			t.Fatalf("%s\nand another time:\n%s", first, &b)
		}
	}
}

// TestRenamedThread has a thread that gets another name. Its row always has the last one.
func TestRenamedThread(t *testing.T) {
	for _, names := range [][]string{{"old", "new"}, {"new", "old"}} {
		p := profile.New(profile.TID | profile.Comm)
		p.Events = []profile.Event{{Name: "cpu-clock", Unit: "ns"}}
		frame := p.Frame(profile.Frame{Function: p.Functions.ID(profile.Function{Name: p.Strings.ID("work")}), Kind: profile.User})
		for _, name := range names {
			at := map[string]int64{"old": 1, "new": 2}[name]
			labels := p.Label(profile.Labels{TID: 7, Comm: p.Strings.ID(name)})
			p.Add(profile.Sample{Leaf: frame, Stack: p.Stacks.ID([]profile.FrameID{frame}), Labels: labels, Thread: 7, Time: at, Count: 1, Value: 1})
		}
		var b bytes.Buffer
		if err := Text(&b, p, &Options{Sort: []string{"pid"}, CallGraph: CallGraph{Mode: NoGraph}}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(b.Bytes(), []byte(" 7:new ")) {
			t.Errorf("samples in the order %q:\n%s", names, &b)
		}
	}
}

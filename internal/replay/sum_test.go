package replay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/perfdata"
)

// TestSums adds more sums than are handed out at a time, in random order, between records that rename their thread.
func TestSums(t *testing.T) {
	const names, each = 5, mostSums
	sums := &Sums{Others: []*perfdata.Event{{Name: "other"}}}
	event := &perfdata.Event{Name: "cycles", Attr: perfdata.Attr{Flags: perfdata.AttrSampleIDAll, SampleType: perfdata.SampleTID | perfdata.SampleTime}}
	reader := written(t, event, func(w *perfdata.Writer) {
		at := perfdata.SampleID{PID: 10, TID: 10}
		for i := range uint64(names) {
			at.Time = 1 + i*1e6
			w.Write(0, &perfdata.Comm{PID: 10, TID: 10, Comm: fmt.Sprint("name", i), SampleID: at})
			if i == names/2 {
				w.Write(0, &perfdata.FinishedRound{})
			}
		}
	})
	for _, n := range rand.New(rand.NewPCG(1, 2)).Perm(names * each) {
		name := n / each
		sums.Add(&Sum{Time: 1 + uint64(name)*1e6 + uint64(n%each), PID: 10, TID: 10, CPU: -1, Count: 2, Value: uint64(name + 1), Event: Other(0)})
	}
	sums.Add(&Sum{Time: 1})
	r := New(reader, Options{Sums: sums})
	p, err := r.Profile(profile.Comm)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, s := range p.Samples() {
		if name := p.Events[s.Event].Name; name != "other" {
			t.Errorf("a sum is of the event %q", name)
		}
		got[p.Strings.At(p.Labels()[s.Labels].Comm)] += s.Value
		if s.Count != 2*each {
			t.Errorf("%d samples have a name, want %d", s.Count, 2*each)
		}
	}
	for i := range uint64(names) {
		if name := fmt.Sprint("name", i); got[name] != (i+1)*each {
			t.Errorf("%s has %d, want %d", name, got[name], (i+1)*each)
		}
	}
}

func TestContainers(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for cgroup, want := range map[string]string{
		"/docker/" + id: id[:12], "/system.slice/docker-" + id + ".scope": id[:12],
		"/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope/child": id[:12],
		"/": "", "": "", "/user.slice/session-1.scope": "", "/docker/" + id[1:]: "", "/x/" + id + "0": "",
	} {
		if got := containerOf(cgroup); got != want {
			t.Errorf("%s: %q, want %q", cgroup, got, want)
		}
	}
}

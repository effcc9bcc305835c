package replay

import (
	"fmt"
	"math/rand/v2"
	"slices"
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

// oneRecord writes a record, as a recording needs one.
func oneRecord(w *perfdata.Writer) { w.Write(0, &perfdata.FinishedRound{}) }

// TestSumsOfOneTime adds sums, many of which have the same time. These are handed out in the order in which they were added.
func TestSumsOfOneTime(t *testing.T) {
	const times, each = 3, 200
	sums := &Sums{}
	var want strings.Builder
	for n := range uint64(times * each) {
		sums.Add(&Sum{Time: 1 + n%times, IP: n, Count: 1})
		fmt.Fprintln(&want, n%each*times+n/each)
	}
	event := &perfdata.Event{Name: "cycles"}
	var got strings.Builder
	err := New(written(t, event, oneRecord), Options{Sums: sums}).Run(func(*Resolver) Handler {
		return func(items []Item, out []byte) []byte {
			for i := range items {
				out = fmt.Appendln(out, items[i].Sample.IP)
			}
			return out
		}
	}, &got)
	if err != nil || got.String() != want.String() {
		t.Errorf("%v\n%s", err, got.String())
	}
}

// TestSumLabels adds sums whose labels differ in one field from those of another sum, each twice. The labels of the second one are remembered.
func TestSumLabels(t *testing.T) {
	cgroup := "/docker/" + strings.Repeat("0123456789abcdef", 4)
	tags := []SumTag{{"key", "value"}}
	want := map[string]Sum{
		"-1/-1 cpu -1":               {PID: -1, TID: -1, CPU: -1},
		"10/10 :10 cpu -1":           {PID: 10, TID: 10, CPU: -1},
		"10/10 name cpu -1":          {PID: 10, TID: 10, CPU: -1, Comm: "name"},
		"10/10 :10 cpu 1":            {PID: 10, TID: 10, CPU: 1},
		"10/10 :10 cpu -1 key=value": {PID: 10, TID: 10, CPU: -1, Tags: tags},
		"10/10 :10 cpu -1 " + cgroup + " container=0123456789ab":           {PID: 10, TID: 10, CPU: -1, CgroupPath: cgroup},
		"10/10 :10 cpu -1 " + cgroup + " key=value container=0123456789ab": {PID: 10, TID: 10, CPU: -1, CgroupPath: cgroup, Tags: tags},
	}
	sums := &Sums{}
	for range 2 {
		for _, s := range want {
			s.Time, s.Count = 1, 1
			sums.Add(&s)
		}
	}
	p, err := New(written(t, &perfdata.Event{Name: "cycles"}, oneRecord), Options{Sums: sums}).Profile(
		profile.Comm | profile.PID | profile.TID | profile.CPU | profile.Cgroup | profile.Other)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Samples() {
		l := p.Labels()[s.Labels]
		words := []string{fmt.Sprintf("%d/%d", l.PID, l.TID), p.Strings.At(l.Comm), fmt.Sprint("cpu ", l.CPU), p.Strings.At(l.Cgroup)}
		for id := l.Tags; id != 0; id = p.Tags.At(id).Next {
			words = append(words, p.Strings.At(p.Tags.At(id).Key)+"="+p.Strings.At(p.Tags.At(id).Value))
		}
		got := strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " ")
		if _, ok := want[got]; !ok || s.Count != 2 {
			t.Errorf("%d sums have the labels %q", s.Count, got)
		}
		delete(want, got)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
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

// TestSumCallchain puts the innermost frame of sums in front of their callers.
func TestSumCallchain(t *testing.T) {
	const kernel, user = perfdata.ContextKernel, perfdata.ContextUser
	const inKernel = 0xffffffff81000000
	for _, tt := range []struct {
		sum  Sum
		want []uint64
	}{
		{Sum{}, nil},
		{Sum{IP: 1}, []uint64{user, 1}},
		{Sum{IP: 1, User: []uint64{2, 3}}, []uint64{user, 1, 2, 3}},
		{Sum{IP: inKernel}, []uint64{kernel, inKernel}},
		{Sum{IP: inKernel, Kernel: []uint64{inKernel + 1}}, []uint64{kernel, inKernel, inKernel + 1}},
		{Sum{IP: inKernel, User: []uint64{2}}, []uint64{kernel, inKernel, user, 2}},
		{Sum{IP: inKernel, Kernel: []uint64{inKernel + 1}, User: []uint64{2}}, []uint64{kernel, inKernel, inKernel + 1, user, 2}},
		{Sum{IP: 1, Kernel: []uint64{inKernel + 1}, User: []uint64{2}}, []uint64{kernel, inKernel + 1, user, 1, 2}},
		{Sum{Kernel: []uint64{inKernel + 1}, User: []uint64{2}}, []uint64{kernel, inKernel + 1, user, 2}},
	} {
		if got := tt.sum.appendCallchain(nil); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %#x, not %#x", tt.sum, got, tt.want)
		}
	}
}

// TestAddSharesCallers adds sums of the same callers: each takes no memory of its own for them.
func TestAddSharesCallers(t *testing.T) {
	callers := []uint64{2, 3, 4}
	s := &Sums{Stacks: true}
	for ip := range uint64(3) {
		s.Add(&Sum{IP: ip, User: callers, Count: 1})
	}
	for _, q := range s.take() {
		if &q.sum.User[0] != &callers[0] {
			t.Errorf("the sum of %d has a copy of its callers", q.sum.IP)
		}
	}
}

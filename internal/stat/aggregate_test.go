package stat

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
)

// fake is a counter with invented cells.
type fake struct {
	count.Counter
	cells []count.Cell
	errs  map[int]error
}

func (f *fake) Read(dst []count.Cell) ([]count.Cell, error) { return append(dst, f.cells...), nil }
func (f *fake) Err(ev int) error                            { return f.errs[ev] }

func cell(ev, cpu, thread, cgroup int, value, enabled, running uint64) count.Cell {
	return count.Cell{Event: ev, CPU: cpu, Thread: thread, Cgroup: cgroup, Program: count.None,
		Reading: perfevent.Reading{Value: value, Enabled: enabled, Running: running}}
}

// fourCPUs is a machine of two sockets with two CPUs each: one core with two threads, and two cores.
func fourCPUs(t *testing.T) target.Topology {
	t.Helper()
	fsys := fstest.MapFS{
		"devices/system/cpu/online":         {Data: []byte("0-3\n")},
		"devices/system/node/node0/cpulist": {Data: []byte("0-3\n")},
	}
	for cpu, at := range []struct{ socket, core int }{{0, 0}, {0, 0}, {1, 0}, {1, 1}} {
		for name, value := range map[string]int{"physical_package_id": at.socket, "core_id": at.core, "die_id": 0} {
			fsys[fmt.Sprintf("devices/system/cpu/cpu%d/topology/%s", cpu, name)] = &fstest.MapFile{Data: fmt.Appendln(nil, value)}
		}
	}
	topo, err := target.ReadTopology(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// render returns each row as one line: place, counters, cgroup, name, value, share of the time.
func render(rows []Row) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%s/%d %s %s ", r.Place.ID, r.Place.Counters, r.Cgroup, r.Name)
		if r.Err != nil {
			fmt.Fprintln(&b, r.Err)
			continue
		}
		fmt.Fprintln(&b, r.Value, r.Enabled, r.Running)
	}
	return b.String()
}

func TestRows(t *testing.T) {
	const none = count.None
	two := []*event.Event{{Name: "a", Term: 0}, {Name: "b", Term: 1}}
	box := []*event.Event{
		{Name: "imc/read/", PMU: "imc_0", Term: 0},
		{Name: "imc/read/", PMU: "imc_1", Term: 0},
	}
	perCPU := []count.Cell{
		cell(0, 0, none, none, 1, 10, 10), cell(0, 1, none, none, 2, 10, 10),
		cell(0, 2, none, none, 4, 10, 10), cell(0, 3, none, none, 8, 10, 5),
		cell(1, 0, none, none, 100, 10, 10),
	}
	tests := []struct {
		name string
		counters
		cells []count.Cell
		errs  map[int]error
		cfg   Config
		want  string
	}{{
		name:     "everything, scaled where it did not run",
		counters: counters{events: two},
		cells:    perCPU,
		want:     "/4  a 23 40 35\n/1  b 100 10 10\n",
	}, {
		name:     "not scaled",
		counters: counters{events: two},
		cells:    perCPU,
		cfg:      Config{Raw: true},
		want:     "/4  a 15 40 35\n/1  b 100 10 10\n",
	}, {
		name:     "per CPU: event by event",
		counters: counters{events: two},
		cells:    perCPU,
		cfg:      Config{Aggregation: AggregateNone},
		want: "CPU0/1  a 1 10 10\nCPU1/1  a 2 10 10\nCPU2/1  a 4 10 10\nCPU3/1  a 16 10 5\n" +
			"CPU0/1  b 100 10 10\n",
	}, {
		name:     "cores of one event among CPUs",
		counters: counters{events: []*event.Event{{Name: "a", PerCore: true}, {Name: "b", Term: 1}}},
		cells:    perCPU,
		cfg:      Config{Aggregation: AggregateNone},
		want: "S0-D0-C0/2  a 3 20 20\nS1-D0-C0/1  a 4 10 10\nS1-D0-C1/1  a 16 10 5\n" +
			"CPU0/1  b 100 10 10\n",
	}, {
		name:     "CPUs with the sums of their cores",
		counters: counters{events: []*event.Event{{Name: "a", PerCore: true}, {Name: "b", Term: 1}}},
		cells:    perCPU,
		cfg:      Config{Aggregation: AggregateNone, PerCoreThreads: true},
		want: "CPU0/1  a 3 20 20\nCPU1/1  a 3 20 20\nCPU2/1  a 4 10 10\nCPU3/1  a 16 10 5\n" +
			"CPU0/1  b 100 10 10\n",
	}, {
		name:     "percore means nothing where rows are sockets",
		counters: counters{events: []*event.Event{{Name: "a", PerCore: true}, {Name: "b", Term: 1}}},
		cells:    perCPU,
		cfg:      Config{Aggregation: AggregateSocket, PerCoreThreads: true},
		want:     "S0/2  a 3 20 20\nS0/1  b 100 10 10\nS1/2  a 20 20 15\n",
	}, {
		name:     "per core: place by place",
		counters: counters{events: two},
		cells:    perCPU,
		cfg:      Config{Aggregation: AggregateCore},
		want:     "S0-D0-C0/2  a 3 20 20\nS0-D0-C0/1  b 100 10 10\nS1-D0-C0/1  a 4 10 10\nS1-D0-C1/1  a 16 10 5\n",
	}, {
		name:     "per socket",
		counters: counters{events: two},
		cells:    perCPU,
		cfg:      Config{Aggregation: AggregateSocket},
		want:     "S0/2  a 3 20 20\nS0/1  b 100 10 10\nS1/2  a 20 20 15\n",
	}, {
		name:     "per node",
		counters: counters{events: two},
		cells:    perCPU,
		cfg:      Config{Aggregation: AggregateNode},
		want:     "N0/4  a 23 40 35\nN0/1  b 100 10 10\n",
	}, {
		name:     "tools are shown on the first CPU",
		counters: counters{events: two, target: target.Target{CPUs: []int{2, 3}}},
		cells:    []count.Cell{cell(0, 3, none, none, 7, 1, 1), cell(1, none, none, none, 9, 1, 1)},
		cfg:      Config{Aggregation: AggregateSocket},
		want:     "S1/1  a 7 1 1\nS1/1  b 9 1 1\n",
	}, {
		name: "per thread",
		counters: counters{events: two, target: target.Target{Threads: []target.Thread{
			{TID: 7, Comm: "x"}, {TID: 9, Comm: "y"}}}},
		cells: []count.Cell{cell(0, none, 0, none, 1, 1, 1), cell(0, none, 1, none, 2, 1, 1), cell(1, none, 1, none, 3, 1, 1)},
		cfg:   Config{Aggregation: AggregateThread},
		want:  "x-7/1  a 1 1 1\ny-9/1  a 2 1 1\ny-9/1  b 3 1 1\n",
	}, {
		name:     "cgroup by cgroup",
		counters: counters{events: two, cgroups: []string{"g", "h"}},
		cells: []count.Cell{
			cell(0, 0, none, 0, 1, 1, 1), cell(0, 0, none, 1, 2, 1, 1),
			cell(1, 0, none, 0, 3, 1, 1), cell(1, 0, none, 1, 4, 1, 1)},
		want: "/1 g a 1 1 1\n/1 g b 3 1 1\n/1 h a 2 1 1\n/1 h b 4 1 1\n",
	}, {
		name:     "an unsupported event in every place",
		counters: counters{events: two, target: target.Target{CPUs: []int{0, 1}}},
		cells:    []count.Cell{cell(0, 0, none, none, 1, 1, 1), cell(0, 1, none, none, 1, 1, 1)},
		errs:     map[int]error{1: errors.New("no PMU")},
		cfg:      Config{Aggregation: AggregateNone},
		want:     "CPU0/1  a 1 1 1\nCPU1/1  a 1 1 1\nCPU0/0  b no PMU\nCPU1/0  b no PMU\n",
	}, {
		name:     "boxes of an uncore PMU are one row",
		counters: counters{events: box},
		cells:    []count.Cell{cell(0, 0, none, none, 1, 1, 1), cell(1, 0, none, none, 2, 1, 1)},
		want:     "/2  imc/read/ 3 2 2\n",
	}, {
		name:     "one box of two is missing",
		counters: counters{events: box},
		cells:    []count.Cell{cell(1, 0, none, none, 2, 1, 1)},
		errs:     map[int]error{0: errors.New("gone")},
		want:     "/1  imc/read/ 2 1 1\n",
	}, {
		name:     "boxes kept apart",
		counters: counters{events: box},
		cells:    []count.Cell{cell(0, 0, none, none, 1, 1, 1), cell(1, 0, none, none, 2, 1, 1)},
		cfg:      Config{NoMerge: true},
		want:     "/1  imc/read/ [imc_0] 1 1 1\n/1  imc/read/ [imc_1] 2 1 1\n",
	}, {
		name:     "never on a counter",
		counters: counters{events: two},
		cells:    []count.Cell{cell(0, 0, none, none, 0, 10, 0), cell(1, 0, none, none, 6, 10, 10), cell(1, 1, none, none, 0, 5, 0)},
		want:     "/1  a 0 10 0\n/2  b 9 15 10\n",
	}}
	topo := fourCPUs(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.counters
			p := part{Counter: &fake{cells: tt.cells, errs: tt.errs}}
			for i := range c.events {
				p.events = append(p.events, i)
			}
			for i := range c.cgroups {
				p.cgroups = append(p.cgroups, i)
			}
			c.parts = []part{p}
			cells, err := c.Read(nil)
			if err != nil {
				t.Fatal(err)
			}
			rows := newLayout(&c, cells, &tt.cfg, topo).snapshot(cells, nil)
			if diff := cmp.Diff(tt.want, render(rows)); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRowsOfAnInterval(t *testing.T) {
	level := &event.Event{Name: "temperature", Snapshot: true, Term: 1}
	c := counters{events: []*event.Event{{Name: "a"}, level},
		parts: []part{{Counter: &fake{}, events: []int{0, 1}}}}
	before := []count.Cell{cell(0, 0, count.None, count.None, 100, 10, 10), cell(1, 0, count.None, count.None, 40, 10, 10)}
	after := []count.Cell{cell(0, 0, count.None, count.None, 160, 30, 30), cell(1, 0, count.None, count.None, 42, 30, 30)}
	rows := newLayout(&c, before, &Config{}, target.Topology{}).snapshot(after, before)
	want := "/1  a 60 20 20\n/1  temperature 42 20 20\n"
	if diff := cmp.Diff(want, render(rows)); diff != "" {
		t.Errorf("a count is a difference, a level is not (-want +got):\n%s", diff)
	}
}

func TestAssign(t *testing.T) {
	group := func(names ...string) event.Group {
		var g event.Group
		for _, n := range names {
			g.Events = append(g.Events, &event.Event{Name: n})
		}
		return g
	}
	cfg := &Config{
		Events:       event.List{group("a"), group("b", "c"), group("d"), group("e")},
		EventCgroups: []string{"g", "h", "h", "", "g"},
	}
	groups := target.Target{Cgroups: []target.Cgroup{{Name: "g"}, {Name: "h"}}}
	var got []string
	for _, a := range assign(cfg, groups) {
		names := fmt.Sprint(a.cgroups)
		for _, e := range a.groups.Events() {
			names += " " + e.Name
		}
		got = append(got, names)
	}
	want := []string{"[0] a e", "[1] b c", "[] d"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("assign with -G (-want +got):\n%s", diff)
	}
	cfg.EventCgroups = nil
	if all := assign(cfg, groups); len(all) != 1 || len(all[0].cgroups) != 2 || len(all[0].groups) != 4 {
		t.Errorf("assign without -G = %+v, want all groups for all cgroups", all)
	}
}

package event

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// bperf may start a thousand times a day, so it must not read files that it does not need.
func TestParseReadsLittle(t *testing.T) {
	for _, test := range []struct {
		machine, in string
		devices     []string
		tracing     []string
	}{
		{"hybrid", "task-clock,cs:u,faults/name=x/,{cpu-clock,migrations},duration_time,mem:0x10:w", nil, nil},
		{"amd", "cycles,instructions:u,L1-dcache-load-misses,r1a8", []string{"cpu/type", "cpu/cpus", "cpu/cpumask"}, nil},
		{"amd", "power/energy-pkg/", []string{"power/type", "power/cpus", "power/cpumask",
			"power/events/energy-pkg", // to find the event
			"power/format/event", "power/events/energy-pkg.unit", "power/events/energy-pkg.scale",
			"power/events/energy-pkg.snapshot", "power/events/energy-pkg.per-pkg"}, nil},
		{"amd", "sched:sched_switch", nil, []string{"events/sched/sched_switch/id"}},
		{"amd", "sched:sched_sw*", nil, []string{"events", "events/sched",
			"events/sched/sched_swap_numa/id", "events/sched/sched_switch/id"}},
	} {
		t.Run(test.machine+" "+test.in, func(t *testing.T) {
			devices, tracing := fakeFS(t, test.machine)
			d, tr := &guarded{FS: devices}, &guarded{FS: tracing}
			if _, err := NewMachine(d, tr).Parse(test.in); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.devices, d.opened); diff != "" {
				t.Errorf("devices -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(test.tracing, tr.opened); diff != "" {
				t.Errorf("tracing -want +got:\n%s", diff)
			}
		})
	}
}

func TestParseWithoutRoots(t *testing.T) {
	m := NewMachine(nil, nil)
	list, err := m.Parse("cycles,task-clock,r1a8,L1-dcache-loads")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"0 cycles @cpu 0/0x0", "1 task-clock @software 1/0x1 ×1e-06 msec", "2 r1a8 @cpu 4/0x1a8", "3 L1-dcache-loads @cpu 3/0x0"}
	if diff := cmp.Diff(want, formatList(list)); diff != "" {
		t.Error(diff)
	}
	for in, want := range map[string]string{
		"sched:sched_switch": "tracefs is not mounted; mount it: mount -t tracefs nodev /sys/kernel/tracing (with lockdown=confidentiality it is empty)",
		"*:*":                "tracefs is not mounted; mount it: mount -t tracefs nodev /sys/kernel/tracing (with lockdown=confidentiality it is empty)",
		"cpu/event=1/":       "this machine has no PMU cpu",
		"mem-loads":          "there is no event mem-loads",
		"8:1":                "no PMU of this machine has type 8",
	} {
		var syntax *syntaxError
		if _, err := m.Parse(in); !errors.As(err, &syntax) || syntax.Msg != want {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

// An error from sysfs or tracefs has its cause, the position in the input and a remedy.
func TestParseUnreadable(t *testing.T) {
	const permission = "tracefs may not be read: permission denied; run as root, or let others read it: " +
		"mount -o remount,mode=755 /sys/kernel/tracing"
	for _, test := range []struct {
		in, file string
		err      error
		msg      string
		pos      int
	}{
		{"cs,sched:sched_switch", "events/sched/sched_switch/id", fs.ErrPermission, permission, 3},
		{"sched:*", "events/sched/sched_switch/id", fs.ErrPermission, permission, 0},
		{"*:*", "events", fs.ErrPermission, permission, 0},
		{"sched:nope", "events", fs.ErrPermission, permission, 0},
		{"sched:sched_switch", "events/sched/sched_switch/id", errors.New("input/output error"),
			"tracefs cannot be read: open events/sched/sched_switch/id: input/output error; mount it anew: " +
				"mount -t tracefs nodev /sys/kernel/tracing", 0},
		{"cs,power/energy-pkg/", "power/type", fs.ErrPermission,
			"read the type of PMU power: open power/type: permission denied", 3},
		{"power/energy-pkg/", "power/cpumask", fs.ErrPermission,
			"read cpumask of PMU power: open power/cpumask: permission denied", 0},
		{"power/energy-pkg/", "power/events/energy-pkg", fs.ErrPermission,
			"read event energy-pkg of PMU power: open power/events/energy-pkg: permission denied", 6},
		{"power/event=1/", "power/format/event", fs.ErrPermission,
			"read the format of event of PMU power: open power/format/event: permission denied", 6},
		{"power/energy-pkg/", "power/format/event", fs.ErrPermission,
			`event energy-pkg of power cannot be used, its file says "event=0x02": ` +
				"read the format of event of PMU power: open power/format/event: permission denied", 6},
	} {
		t.Run(test.in+" "+test.file, func(t *testing.T) {
			devices, tracing := fakeFS(t, "amd")
			fail := map[string]error{test.file: test.err}
			_, err := NewMachine(&guarded{FS: devices, fail: fail}, &guarded{FS: tracing, fail: fail}).Parse(test.in)
			var syntax *syntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("got %v, want a *SyntaxError", err)
			}
			if syntax.Msg != test.msg || syntax.Pos != test.pos {
				t.Errorf("got %q at %d,\nwant %q at %d", syntax.Msg, syntax.Pos, test.msg, test.pos)
			}
			if !errors.Is(err, test.err) {
				t.Errorf("%v does not wrap %v", err, test.err)
			}
		})
	}
}

// A driver's files can have any content.
func TestParseBrokenSysfs(t *testing.T) {
	whole := fstest.MapFS{
		"p/type":          {Data: []byte("40\n")},
		"p/format/event":  {Data: []byte("config:0-7\n")},
		"p/events/e":      {Data: []byte("event=0x1\n")},
		"p/events/nodata": {Data: []byte("event=0x2")},
	}
	if _, err := NewMachine(whole, nil).Parse("p/e/,p/nodata/"); err != nil {
		t.Fatal(err)
	}
	const broken = `event e of p cannot be used, its file says `
	for _, test := range []struct{ file, text, in, msg string }{
		{"p/type", "x", "p/e/", `type of PMU p: "x" is not a number`},
		{"p/type", "4294967296", "p/e/", `type of PMU p: "4294967296" is not a number`},
		{"p/type", "", "p*/e/", `type of PMU p: "" is not a number`},
		{"p/cpumask", "0-", "p/e/", `cpumask of PMU p: CPU list "0-": "0-" is not a number or a range`},
		{"p/cpumask", "3-1", "p/e/", `cpumask of PMU p: CPU list "3-1": "3-1" ends before it begins`},
		{"p/cpumask", "0-4294967295", "p/e/", `cpumask of PMU p: CPU list "0-4294967295": "0-4294967295" is larger than 65535`},
		{"p/cpus", "00000000,00000003x", "p/e/", `cpus of PMU p: CPU list "00000000,00000003x": "00000003x" is not a number or a range`},
		{"p/format/event", "config", "p/event=1/", `format of event of PMU p: "config" is not a list of bits of config`},
		{"p/format/event", "config:", "p/event=1/", `format of event of PMU p: "config:" is not a list of bits of config`},
		{"p/format/event", "config9:1", "p/event=1/", `format of event of PMU p: "config9:1" is not a list of bits of config`},
		{"p/format/event", "config:0-64", "p/event=1/", `format of event of PMU p: "config:0-64" is not a list of bits of config`},
		{"p/format/event", "config:7-0", "p/event=1/", `format of event of PMU p: "config:7-0" is not a list of bits of config`},
		{"p/events/e", "", "p/e/", broken + `"": there is no term ""`},
		{"p/events/e", "event", "p/e,event=/", "a value is missing here"},
		{"p/events/e", "event=x", "p/e/", broken + `"event=x": "x" is not a number`},
		{"p/events/e", "event=256", "p/e/", broken + `"event=256": 256 is too great for event`},
		{"p/events/e", "evnt=1", "p/e/", broken + `"evnt=1": there is no term "evnt"`},
		{"p/events/e.scale", "much", "p/e/", `scale of event e of PMU p: "much" is not a number`},
		{"p/events/e.scale", "inf", "p/e/", `scale of event e of PMU p: "inf" is not a number`},
		{"p/events/e.scale", "nan", "e", `scale of event e of PMU p: "nan" is not a number`},
	} {
		t.Run(test.file+" "+test.text, func(t *testing.T) {
			tree := fstest.MapFS{test.file: {Data: []byte(test.text)}}
			for name, f := range whole {
				if name != test.file {
					tree[name] = f
				}
			}
			_, err := NewMachine(tree, nil).Parse(test.in)
			var syntax *syntaxError
			if !errors.As(err, &syntax) || syntax.Msg != test.msg {
				t.Errorf("got %v,\nwant %s", err, test.msg)
			}
		})
	}
}

func TestParseEmptyCPUMask(t *testing.T) {
	tree := fstest.MapFS{"p/type": {Data: []byte("40")}, "p/cpumask": {Data: []byte("\n")}}
	list, err := NewMachine(tree, nil).Parse("p//")
	if err != nil {
		t.Fatal(err)
	}
	if e := list[0].Events[0]; e.CPUs == nil || len(e.CPUs) != 0 || !e.Uncore {
		t.Errorf("got CPUs %#v, uncore %v: a PMU without a CPU is not one on all CPUs", e.CPUs, e.Uncore)
	}
}

func TestParseTooManyEvents(t *testing.T) {
	devices, tracing := fakeFS(t, "amd")
	m := NewMachine(devices, tracing)
	all, err := m.Parse("*:*")
	if err != nil {
		t.Fatal(err)
	}
	n := maxEvents/len(all) + 1
	_, err = m.Parse(strings.TrimSuffix(strings.Repeat("*:*,", n), ","))
	var syntax *syntaxError
	if !errors.As(err, &syntax) || syntax.Msg != "these are more than 65536 events" || syntax.Pos != 4*(n-1) {
		t.Errorf("got %v", err)
	}
}

// Tracepoints that appear or disappear while they are listed are no error; an invalid id is one.
func TestParseTracepointID(t *testing.T) {
	tree := fstest.MapFS{"events/a/b/id": {Data: []byte("one")}, "events/a/c": {Mode: fs.ModeDir}}
	_, err := NewMachine(nil, tree).Parse("a:*")
	var syntax *syntaxError
	if !errors.As(err, &syntax) || syntax.Msg != `the id of tracepoint a:b is "one", not a number` {
		t.Errorf("got %v", err)
	}
}

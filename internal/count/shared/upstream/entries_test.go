package upstream

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/perfdata"
)

func TestRegister(t *testing.T) {
	a, cpus := create(t), usable(t, 1)
	if l := find(t, a); l != nil {
		t.Errorf("in an empty map, found %v", l)
	}
	own := start(t, cpuClock, cpus...)
	if err := a.Register(own); err != nil {
		t.Fatal(err)
	}
	found := find(t, a)
	if found == nil {
		t.Fatal("did not find the leader")
	}
	if got := found.Attr(); got != cpuClock {
		t.Errorf("it counts %+v", got)
	}
	if all, err := found.Covers(cpus); !all || err != nil {
		t.Errorf("Covers = %v, %v", all, err)
	}
	other := perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwareContextSwitches}
	if l, err := a.Leader(&other); l != nil || err != nil {
		t.Errorf("for another event, found %v, %v", l, err)
	}
}

// TestFoundKeepsAlive follows a leader that its own session has ended.
func TestFoundKeepsAlive(t *testing.T) {
	a, cpus := create(t), usable(t, 1)
	own := start(t, cpuClock, cpus...)
	if err := a.Register(own); err != nil {
		t.Fatal(err)
	}
	if first := find(t, a); first == nil {
		t.Fatal("did not find the leader")
	}
	own.Close()
	second := find(t, a)
	if second == nil {
		t.Fatal("the leader went though it was held")
	}
	if all, err := second.Covers(cpus); !all || err != nil {
		t.Errorf("Covers = %v, %v", all, err)
	}
}

// TestGone removes entries of leaders that are gone, even if another object has their ID.
func TestGone(t *testing.T) {
	a := create(t)
	own := start(t, cpuClock)
	ids, err := own.entry()
	if err != nil {
		t.Fatal(err)
	}
	other, err := start(t, cpuClock).entry()
	if err != nil {
		t.Fatal(err)
	}
	key, _ := a.key(&cpuClock)
	tests := []struct {
		name string
		entry
	}{
		{"placeholder of perf", entry{0xffffffff, 0xffffffff}},
		{"zero", entry{}},
		{"map of another leader", entry{ids.Link, other.Diff}},
		{"map is gone", entry{ids.Link, 0xffffffff}},
		{"another kind of link", entry{sleeperLink(t), ids.Diff}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := a.m.Put(key, tt.entry); err != nil {
				t.Fatal(err)
			}
			if l := find(t, a); l != nil {
				t.Errorf("found %v", l)
			}
			if n := entries(t, a); n != 0 {
				t.Errorf("%d entries are left", n)
			}
		})
	}
	t.Run("ended", func(t *testing.T) {
		if err := a.Register(own); err != nil {
			t.Fatal(err)
		}
		own.Close()
		if l, n := find(t, a), entries(t, a); l != nil || n != 0 {
			t.Errorf("found %v, and %d entries are left", l, n)
		}
	})
}

// sleeperLink returns the ID of a link that is not of a raw tracepoint: of a program on a perf event that never happens.
func sleeperLink(t *testing.T) uint32 {
	t.Helper()
	attr := perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwareDummy, SamplePeriod: 1}
	l, err := link.AttachRawLink(link.RawLinkOptions{
		Target:  openOn(t, attr, usable(t, 1)[0]).FD(),
		Program: idle(t, ebpf.PerfEvent, "sleeper"),
		Attach:  ebpf.AttachPerfEvent,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	info, err := l.Info()
	if err != nil {
		t.Fatal(err)
	}
	return uint32(info.ID)
}

// idle loads a program that does nothing with the maps.
func idle(t *testing.T, kind ebpf.ProgramType, name string, maps ...*ebpf.Map) *ebpf.Program {
	t.Helper()
	var code asm.Instructions
	for _, m := range maps {
		code = append(code, asm.LoadMapPtr(asm.R1, m.FD()))
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         name,
		Type:         kind,
		License:      "Dual BSD/GPL",
		Instructions: append(code, asm.Mov.Imm(asm.R0, 0), asm.Return()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestOtherLayout does not follow a program that lacks parts of a leader's layout, and does not remove its entry.
func TestOtherLayout(t *testing.T) {
	a := create(t)
	diff, err := ebpf.NewMap(&ebpf.MapSpec{Name: "diff_readings", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 32, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer diff.Close()
	p := idle(t, ebpf.RawTracepoint, "on_switch", diff)
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_switch", Program: p})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := a.Register(&Leader{attr: cpuClock, link: l, diff: diff}); err != nil {
		t.Fatal(err)
	}
	want := "use a leader that is registered in the attr map " + a.path +
		`: its program is not laid out as bperf knows it (program "on_switch")`
	if found, err := a.Leader(&cpuClock); found != nil || err == nil || err.Error() != want {
		t.Errorf("found %v, %v\nwant %s", found, err, want)
	}
	if n := entries(t, a); n != 1 {
		t.Errorf("%d entries are left, not 1", n)
	}
}

// TestFull registers events until the map is full, and one more.
func TestFull(t *testing.T) {
	a := create(t)
	live := start(t, cpuClock)
	for i := range maxEntries {
		live.attr.Config = uint64(i) // stands for a leader of another event
		if err := a.Register(live); err != nil {
			t.Fatal(err)
		}
	}
	another := start(t, perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwareDummy, Flags: perfdata.AttrExcludeUser})
	want := "register a leader in the attr map " + a.path +
		": it is full: 16 other events are being shared. Use another path, or end sessions that count other events"
	if err := a.Register(another); err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	if n := entries(t, a); n != maxEntries {
		t.Errorf("%d entries of live leaders are left", n)
	}
	live.Close()
	if err := a.Register(another); err != nil {
		t.Errorf("though all others are gone: %v", err)
	}
	if n := entries(t, a); n != 1 {
		t.Errorf("%d entries are left, not 1", n)
	}
}

// TestShortKey does not register an event if the keys of an older perf cannot distinguish it from another.
func TestShortKey(t *testing.T) {
	a := &AttrMap{path: "/sys/fs/bpf/map", keySize: 136}
	attr := perfdata.Attr{Type: 10, Config4: 1}
	if l, err := a.Leader(&attr); l != nil || err != nil {
		t.Errorf("found %v, %v", l, err)
	}
	want := "register a leader in the attr map /sys/fs/bpf/map: the event needs a field of struct perf_event_attr " +
		"that perf did not have when it made the map (its keys have 136 bytes). Use another path"
	if err := a.Register(&Leader{attr: attr}); err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

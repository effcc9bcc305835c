package bpfprog

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/test/require"
)

// watch watches programs while happens runs, and returns the changes. happens can call until to wait until the load of a program was reported.
func watch(t *testing.T, happens func(until func(id uint32) []Change)) []Change {
	t.Helper()
	require.Root(t)
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	changes, done := make(chan Change, 100_000), make(chan error, 1)
	go func() {
		done <- w.Run(ctx, func(c Change) { changes <- c })
		close(changes)
	}()
	var all []Change
	happens(func(id uint32) []Change {
		for c := range changes {
			all = append(all, c)
			if c.ID == id {
				return all
			}
		}
		t.Fatalf("program %d was not seen", id)
		return nil
	})
	end()
	for c := range changes {
		all = append(all, c)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return all
}

func of(all []Change, id uint32) (mine []Change) {
	for _, c := range all {
		if c.ID == id {
			mine = append(mine, c)
		}
	}
	return mine
}

// TestWatch watches a program with a map and two functions, and a program that was loaded before.
func TestWatch(t *testing.T) {
	old, oldID := load(t, &ebpf.ProgramSpec{Name: "from_before", Type: ebpf.SocketFilter})
	loadedOld := read(t, oldID).Loaded
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "some_map", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	code := twoFunctions()
	code = append(asm.Instructions{btf.WithFuncMetadata(asm.LoadMapPtr(asm.R2, m.FD()).WithSymbol(longName), btf.FuncMetadata(&code[0])),
		asm.Call.Label("inner_work")}, code[1:]...)
	var p *Program
	all := watch(t, func(until func(id uint32) []Change) {
		prog, id := load(t, &ebpf.ProgramSpec{Name: longName, Type: ebpf.RawTracepoint, Instructions: code})
		p = read(t, id)
		until(id)
		prog.Close()
		waitGone(t, id)
		old.Close()
		waitGone(t, oldID)
	})
	mine := of(all, p.ID)
	if len(mine) != 2 || mine[0].Program == nil {
		t.Fatalf("%+v", mine)
	}
	loaded, unloaded := mine[0], mine[1]
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	functions := p.Functions
	p.Functions = nil
	if d := loaded.Program.Loaded.Sub(p.Loaded).Abs(); d > time.Second { // each Reader reads the clocks again
		t.Errorf("loaded at %v, not %v", loaded.Program.Loaded, p.Loaded)
	}
	p.Loaded = loaded.Program.Loaded
	want := Change{Event: Loaded, Time: loaded.Time, ID: p.ID, Name: longName, Tag: p.Tag, Type: "raw_tracepoint", PID: os.Getpid(),
		Comm: strings.TrimSuffix(string(comm), "\n"), User: "root", Functions: functions, Maps: []Map{{p.MapIDs[0], "some_map"}}, Program: p}
	if diff := cmp.Diff(want, loaded, cmp.AllowUnexported(Program{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if loaded.Time.Before(p.Loaded) {
		t.Errorf("its record of %v is older than the program, loaded at %v", loaded.Time, p.Loaded)
	}
	lived := unloaded.Time.Sub(loaded.Time)
	want = Change{Event: Unloaded, Time: unloaded.Time, ID: p.ID, Name: longName, Tag: p.Tag, Type: "raw_tracepoint", Lived: &lived}
	if diff := cmp.Diff(want, unloaded, cmp.AllowUnexported(Program{})); diff != "" || lived <= 0 {
		t.Errorf("lived %v, -want +got:\n%s", lived, diff)
	}
	gone := of(all, oldID)
	if len(gone) != 1 || gone[0].Event != Unloaded || gone[0].Name != "from_before" || gone[0].Lived == nil {
		t.Fatalf("%+v", gone)
	}
	if want := gone[0].Time.Sub(loadedOld); (*gone[0].Lived - want).Abs() > time.Second {
		t.Errorf("lived %v, want %v", *gone[0].Lived, want)
	}
}

// TestWatchLost loads and unloads more programs than a ring buffer of one page has room for, while nobody reads it. They are only a few more,
// because tests of other packages may be watching.
func TestWatchLost(t *testing.T) {
	require.Root(t)
	w, err := newWatcher(1)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	lives := os.Getpagesize() / 80 * 2 // each leaves 80 bytes or more
	var pace require.Pace
	var ids []uint32
	one := func() {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "lost", Type: ebpf.SocketFilter, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
		if err != nil {
			t.Fatal(err)
		}
		info, err := p.Info()
		if err != nil {
			t.Fatal(err)
		}
		id, _ := info.ID()
		ids = append(ids, uint32(id))
		p.Close()
		pace.Closed(t)
	}
	w.rings.mu.Lock()
	perfevent.OnCPU(0, func() error { // one ring
		for range lives {
			one()
		}
		return nil
	})
	w.rings.mu.Unlock()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var seen, lost uint64
	reported := make(map[uint32]bool) // as loaded or as unseen
	done := make(chan error, 1)
	first := make(chan struct{}, 1)
	go func() {
		done <- w.Run(ctx, func(c Change) {
			switch c.Event {
			case LostSome:
				lost += c.Records
			case Unseen:
				for id := c.ID; id <= c.LastID; id++ {
					reported[id] = true
				}
			case Loaded:
				reported[c.ID] = true
				seen++
			case Unloaded:
				seen++
			}
			select {
			case first <- struct{}{}:
			default:
			}
		})
	}()
	<-first // the ring has room again
	perfevent.OnCPU(0, func() error { one(); return nil })
	end()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if lost == 0 || seen == 0 || seen+lost < uint64(2*lives) {
		t.Errorf("%d loads and unloads were seen, %d records lost, of %d programs", seen, lost, lives)
	}
	for _, id := range ids {
		if !reported[id] {
			t.Errorf("nothing was said of program %d", id)
		}
	}
}

// TestWatchCPUs takes a CPU offline and brings it back, and loads programs there.
func TestWatchCPUs(t *testing.T) {
	const cpu = 1
	turn := require.SwitchCPU(t, cpu)
	var there []uint32
	all := watch(t, func(until func(id uint32) []Change) {
		loadOn := func(cpu int) (id uint32) {
			perfevent.OnCPU(cpu, func() error {
				_, id = load(t, &ebpf.ProgramSpec{Type: ebpf.SocketFilter})
				return nil
			})
			return id
		}
		loadThere := func() { there = append(there, loadOn(cpu)) }
		loadThere()
		until(there[0])
		for range 3 {
			turn("0")
			until(loadOn(0))
			turn("1")
			loadThere()      // without waiting: it may be unseen, but must be reported as such
			until(loadOn(0)) // the next load reveals an unseen one
		}
		deadline := time.Now().Add(time.Minute)
		for { // until the watcher has noticed that the CPU is online
			loadThere()
			soFar := of(until(loadOn(0)), there[len(there)-1])
			if len(soFar) == 1 && soFar[0].Missed == "" || time.Now().After(deadline) {
				return
			}
		}
	})
	for _, id := range there {
		mine := of(all, id)
		if len(mine) == 0 || mine[len(mine)-1].Event != Loaded || mine[len(mine)-1].Program == nil {
			t.Errorf("program %d: %+v", id, mine)
		}
	}
	last := of(all, there[len(there)-1])
	if len(last) != 1 || last[0].Missed != "" || last[0].PID != os.Getpid() {
		t.Errorf("the last one: %+v", last)
	}
}

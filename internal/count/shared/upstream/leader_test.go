package upstream

import (
	"errors"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/test/require"
)

// TestReading compares the leader's reading with the event's own.
func TestReading(t *testing.T) {
	require.Root(t)
	cpu := usable(t, 1)[0]
	e := openOn(t, cpuClock, cpu)
	l, err := StartLeader(&cpuClock, map[int]*perfevent.Event{cpu: e})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 3 {
		before := read(t, e)
		if err := l.Run(cpu); err != nil {
			t.Fatal(err)
		}
		got, diff := reading(t, l, "prev", cpu), reading(t, l, "diff", cpu)
		after := read(t, e)
		if got.Value < before.Value || got.Value > after.Value || got.Enabled < before.Enabled || got.Enabled > after.Enabled ||
			got.Running != got.Enabled {
			t.Errorf("read %v, not between %v and %v", got, before, after)
		}
		if diff.Value == 0 || diff.Value > after.Value || diff.Enabled > after.Enabled {
			t.Errorf("a growth of %v, with %v in all", diff, after)
		}
	}
}

func read(t *testing.T, e *perfevent.Event) perfevent.Reading {
	t.Helper()
	r, err := e.Read()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCovers distinguishes a leader that counts on all CPUs from one that was started for one CPU.
func TestCovers(t *testing.T) {
	cpus := usable(t, 2)
	tests := []struct {
		name       string
		counts, on []int
		want       bool
	}{
		{"all", cpus, cpus, true},
		{"its own", cpus[1:2], cpus[1:2], true},
		{"more", cpus[1:2], cpus, false},
		{"another", cpus[1:2], cpus[:1], false},
		{"none", nil, cpus[:1], false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := start(t, cpuClock, tt.counts...)
			if got, err := l.Covers(tt.on); got != tt.want || err != nil {
				t.Errorf("a leader for the CPUs %v covers %v: %v, %v", tt.counts, tt.on, got, err)
			}
		})
	}
}

// TestCoversStopped detects a counter that exists but does not count.
func TestCoversStopped(t *testing.T) {
	require.Root(t)
	cpu := usable(t, 1)[0]
	e := openOn(t, cpuClock, cpu)
	l, err := StartLeader(&cpuClock, map[int]*perfevent.Event{cpu: e})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := e.Disable(); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Covers([]int{cpu}); got || err != nil {
		t.Errorf("Covers = %v, %v", got, err)
	}
}

// TestRunOffline asks for a CPU that cannot be there.
func TestRunOffline(t *testing.T) {
	l := start(t, cpuClock)
	const cpu = math.MaxInt16
	const want = "run the leader of a shared event on CPU 32767, which is offline: no such device or address"
	if err := l.Run(cpu); err == nil || err.Error() != want {
		t.Errorf("Run: %v\nwant %s", err, want)
	}
	if _, err := l.Covers([]int{cpu}); err == nil || err.Error() != want {
		t.Errorf("Covers: %v\nwant %s", err, want)
	}
	if err := l.SetEvent(cpu, openOn(t, cpuClock, usable(t, 1)[0])); err == nil || !strings.Contains(err.Error(), "CPU 32767") {
		t.Errorf("SetEvent: %v", err)
	}
}

// TestNoEvent passes no growth to followers on a CPU that has lost its counter, and begins at 0 with the next one.
func TestNoEvent(t *testing.T) {
	cpu := usable(t, 1)[0]
	l := start(t, cpuClock, cpu)
	if err := l.events.Delete(uint32(cpu)); err != nil {
		t.Fatal(err)
	}
	if err := l.Run(cpu); err != nil {
		t.Fatal(err)
	}
	zero := perfevent.Reading{}
	if prev, diff := reading(t, l, "prev", cpu), reading(t, l, "diff", cpu); prev != zero || diff != zero {
		t.Errorf("without a counter: last reading %v, growth %v", prev, diff)
	}
	e := openOn(t, cpuClock, cpu)
	for range 2 { // the second time in place of itself
		if err := l.SetEvent(cpu, e); err != nil {
			t.Fatal(err)
		}
		if diff, all := reading(t, l, "diff", cpu), read(t, e); diff.Value == 0 || diff.Value > all.Value {
			t.Errorf("with another counter: growth %v, of %v", diff, all)
		}
	}
}

// TestHotplug does not trust a counter whose CPU was offline in between, and replaces it.
func TestHotplug(t *testing.T) {
	require.Guest(t)
	cpu := usable(t, 2)[1]
	l := start(t, cpuClock, cpu)
	t.Run("offline", func(t *testing.T) {
		require.OneCPU(t)
		if err := l.Run(cpu); !errors.Is(err, syscall.ENXIO) {
			t.Errorf("Run: %v", err)
		}
	})
	if got, err := l.Covers([]int{cpu}); got || err != nil {
		t.Errorf("Covers = %v, %v", got, err)
	}
	if err := l.SetEvent(cpu, openOn(t, cpuClock, cpu)); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Covers([]int{cpu}); !got || err != nil {
		t.Errorf("with another counter, Covers = %v, %v", got, err)
	}
}

// TestOutlivesEvents counts after the process that opened the counters has closed them.
func TestOutlivesEvents(t *testing.T) {
	require.Root(t)
	cpu := usable(t, 1)[0]
	e := openOn(t, cpuClock, cpu)
	l, err := StartLeader(&cpuClock, map[int]*perfevent.Event{cpu: e})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := create(t)
	if err := a.Register(l); err != nil {
		t.Fatal(err)
	}
	found := find(t, a)
	l.Close()
	e.Close()
	if got, err := found.Covers([]int{cpu}); !got || err != nil {
		t.Errorf("Covers = %v, %v", got, err)
	}
}

// TestFexit attaches to a leader as followers do, by the name of its program.
func TestFexit(t *testing.T) {
	cpu := usable(t, 1)[0]
	l := start(t, cpuClock, cpu)
	runs, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer runs.Close()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:         ebpf.Tracing,
		AttachType:   ebpf.AttachTraceFExit,
		AttachTarget: l.Program(),
		AttachTo:     "on_switch",
		License:      "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.LoadMapValue(asm.R1, runs.FD(), 0),
			asm.Mov.Imm(asm.R2, 1),
			asm.StoreXAdd(asm.R1, asm.R2, asm.DWord),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		},
	})
	if errors.Is(err, syscall.EPERM) && os.Getenv("BPERF_REQUIRE") == "" {
		t.Skip("needs a kernel that allows fexit programs: go run ./test/guest PACKAGE")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	follower, err := link.AttachTracing(link.TracingOptions{Program: p})
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	if err := l.Run(cpu); err != nil {
		t.Fatal(err)
	}
	var n uint64
	if err := runs.Lookup(uint32(0), &n); err != nil || n == 0 {
		t.Errorf("the follower ran %d times, %v", n, err)
	}
}

package upstream

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
)

const (
	user  = perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV // modifier u
	kern  = perfdata.AttrExcludeUser | perfdata.AttrExcludeHV   // modifier k
	host  = perfdata.AttrExcludeGuest
	guest = perfdata.AttrExcludeHost
)

// TestKey makes the same keys as perf for the same events. The wanted keys are from perf's maps.
func TestKey(t *testing.T) {
	const hw, sw, tp, raw, bp = perfdata.TypeHardware, perfdata.TypeSoftware, perfdata.TypeTracepoint, perfdata.TypeRaw, perfdata.TypeBreakpoint
	tests := []struct {
		name     string
		attr     perfdata.Attr
		old, now perfdata.AttrFlags // with perf before 6.13 and after that
		sample   uint64
		kinds    perfdata.SampleType
	}{
		{name: "cycles", attr: event(hw, 0, 0), old: host},
		{name: "cycles:u", attr: event(hw, 0, user), old: user | host, now: user},
		{name: "cycles:k", attr: event(hw, 0, kern), old: kern, now: kern},
		{name: "cycles:h", attr: event(hw, 0, perfdata.AttrExcludeUser|perfdata.AttrExcludeKernel),
			old: perfdata.AttrExcludeUser | perfdata.AttrExcludeKernel, now: perfdata.AttrExcludeUser | perfdata.AttrExcludeKernel},
		{name: "cycles:uk", attr: event(hw, 0, perfdata.AttrExcludeHV), old: perfdata.AttrExcludeHV | host, now: perfdata.AttrExcludeHV},
		{name: "cycles:H", attr: event(hw, 0, host), old: host, now: host},
		{name: "cycles:G", attr: event(hw, 0, guest), old: guest, now: guest},
		{name: "cycles:D", attr: event(hw, 0, perfdata.AttrPinned), old: perfdata.AttrPinned, now: perfdata.AttrPinned},
		{name: "cycles:I", attr: event(hw, 0, perfdata.AttrExcludeIdle), old: perfdata.AttrExcludeIdle, now: perfdata.AttrExcludeIdle},
		{name: "cycles:uI", attr: event(hw, 0, user|perfdata.AttrExcludeIdle), old: user | perfdata.AttrExcludeIdle | host, now: user | perfdata.AttrExcludeIdle},
		{name: "context-switches", attr: event(sw, 3, 0), old: host},
		{name: "r1a8", attr: event(raw, 0x1a8, 0), old: host},
		{name: "cpu-clock/period=1000/", attr: perfdata.Attr{Type: sw, SamplePeriod: 1000}, old: host},
		{name: "cpu-clock/freq=1000/", attr: perfdata.Attr{Type: sw, SamplePeriod: 1000, Flags: perfdata.AttrFreq}, old: host},
		{name: "mem:0x1000:rw", attr: perfdata.Attr{Type: bp, BPType: 3, Config1: 0x1000, Config2: 4}, old: host, sample: 1},
		{name: "sched:sched_switch", attr: event(tp, 316, 0), old: host, sample: 1, kinds: 0x584},
	}
	for _, tt := range tests {
		for _, size := range keySizes {
			a := &AttrMap{keySize: size}
			attr := a.Attr(&tt.attr)
			want := perfdata.Attr{
				Type: tt.attr.Type, Size: uint32(size), Config: tt.attr.Config, SamplePeriod: tt.sample, SampleType: tt.kinds,
				Flags: tt.now, BPType: tt.attr.BPType, Config1: tt.attr.Config1, Config2: tt.attr.Config2,
			}
			if size < 144 {
				want.Flags = tt.old
			}
			key, ok := a.key(&attr)
			if bytes := encode(t, want)[:size]; !ok || !slices.Equal(key, bytes) {
				t.Errorf("%s in %d bytes, %v:\ngot  %x\nwant %x", tt.name, size, ok, key, bytes)
			}
		}
	}
}

// event returns an event as bperf opens it for a process.
func event(kind uint32, config uint64, flags perfdata.AttrFlags) perfdata.Attr {
	return perfdata.Attr{
		Type: kind, Config: config, ReadFormat: perfevent.ReadFormatTimes | perfdata.ReadGroup,
		Flags: flags | perfdata.AttrDisabled | perfdata.AttrInherit | perfdata.AttrEnableOnExec,
	}
}

func encode(t *testing.T, attr perfdata.Attr) []byte {
	t.Helper()
	b, err := binary.Append(nil, binary.NativeEndian, attr)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestKeyBytes makes the key of cycles:u that perf 6.12 had in its map on a little endian machine.
func TestKeyBytes(t *testing.T) {
	a := &AttrMap{keySize: 136}
	attr := event(perfdata.TypeHardware, 0, user)
	attr = a.Attr(&attr)
	got, ok := a.key(&attr)
	want := make([]byte, 136)
	want[4] = 136              // size
	want[40] = 1<<5 | 1<<6     // exclude_kernel, exclude_hv
	want[42] = 1 << (20 - 2*8) // exclude_guest
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 && (!ok || !slices.Equal(got, want)) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

// TestGuests finds the leaders of perf 6.12 and 6.13, whose keys have one size, and no other.
func TestGuests(t *testing.T) {
	everywhere, hostOnly := cpuClock, cpuClock
	hostOnly.Flags = host
	tests := []struct {
		keySize            uint32
		wanted, registered perfdata.Attr
		found              bool
	}{
		{128, everywhere, everywhere, true},
		{128, everywhere, hostOnly, true},
		{136, everywhere, everywhere, true},
		{136, everywhere, hostOnly, true},
		{136, hostOnly, everywhere, false},
		{136, hostOnly, hostOnly, true},
		{144, everywhere, everywhere, true},
		{144, everywhere, hostOnly, false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d/%#x/%#x", tt.keySize, tt.wanted.Flags, tt.registered.Flags), func(t *testing.T) {
			a := ofPerf(t, tt.keySize)
			if err := a.Register(start(t, tt.registered)); err != nil {
				t.Fatal(err)
			}
			l, err := a.Leader(&tt.wanted)
			if err != nil || (l != nil) != tt.found {
				t.Fatalf("found %v, %v", l, err)
			}
			if l == nil {
				return
			}
			defer l.Close()
			if l.Attr() != tt.registered {
				t.Errorf("it counts %+v, not %+v", l.Attr(), tt.registered)
			}
		})
	}
}

// ofPerf creates an attr map like a perf with this key size, and locks it.
func ofPerf(t *testing.T, keySize uint32) *AttrMap {
	t.Helper()
	path := filepath.Join(bpffs(t), "attr_map")
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: keySize, ValueSize: 8, MaxEntries: maxEntries})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Pin(path); err != nil {
		t.Fatal(err)
	}
	a, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return locked(t, a)
}

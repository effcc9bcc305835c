package timeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

func register(time, address uint64, size uint64, name string) Event {
	return Event{Time: time, What: Register, Address: address, Size: size, Type: typeBPF, Name: name}
}

func unregister(time, address uint64) Event {
	return Event{Time: time, What: Unregister, Address: address}
}

func TestTimeline(t *testing.T) {
	for _, test := range []struct {
		name   string
		events []Event
		want   map[string]string // time and address: name
	}{
		{"nothing", nil, map[string]string{"5 1000": ""}},
		{"from the start, to the end", []Event{register(0, 0x1000, 0x100, "a")},
			map[string]string{"0 1000": "a", "5 10ff": "a", "5 1100": "", "5 fff": "", "ffffffffffffffff 1000": ""}},
		{"address used again", []Event{register(10, 0x1000, 0x100, "a"), unregister(20, 0x1000), register(30, 0x1000, 0x80, "b")},
			map[string]string{"f 1000": "a", "9 1000": "", "14 1000": "", "19 1000": "", "1e 1000": "b", "1e 1080": ""}},
		{"events in disorder", []Event{register(30, 0x1000, 0x80, "b"), unregister(20, 0x1000), register(10, 0x1000, 0x100, "a")},
			map[string]string{"f 1000": "a", "9 1000": "", "14 1000": "", "1e 1000": "b"}},
		{"without an end", []Event{register(10, 0x1000, 0x100, "a"), register(20, 0x1000, 0x80, "b")},
			map[string]string{"13 10ff": "a", "14 1000": "b", "14 10ff": ""}},
		{"an older one within", []Event{register(10, 0x1080, 0x10, "a"), register(20, 0x1000, 0x100, "b"), unregister(30, 0x1000)},
			map[string]string{"13 1080": "a", "14 1080": "b", "14 1090": "b", "1e 1080": ""}},
		{"an older one around", []Event{register(10, 0x1000, 0x100, "a"), register(20, 0x1080, 0x10, "b"), unregister(30, 0x1080)},
			map[string]string{"13 1080": "a", "14 107f": "a", "14 1080": "b", "14 1090": "", "1e 1080": "a"}},
		{"trampoline of a page's size", []Event{register(10, 0x1080, 0x10, "a"), register(20, 0x1000, 0x1000, "bpf_trampoline_5")},
			map[string]string{"14 1000": "bpf_trampoline_5", "14 1080": "a", "14 1090": ""}},
		{"end of what is not there", []Event{unregister(5, 0x1000), register(10, 0x1000, 1, "a"), unregister(5, 0x2000)},
			map[string]string{"a 1000": "a"}},
		{"told twice", []Event{register(0, 0x1000, 0x10, "a"), register(10, 0x1000, 0x10, "a"), unregister(20, 0x1000)},
			map[string]string{"5 1000": "a", "b 1000": "a", "14 1000": ""}},
		{"no size, beyond the end", []Event{register(0, 0x1000, 0, "a"), register(0, math.MaxUint64, 2, "b")},
			map[string]string{"5 1000": "", "5 ffffffffffffffff": ""}},
		{"far below", []Event{register(0, 0x1000, 0x10, "a")}, map[string]string{"5 ffffffff00000000": ""}},
	} {
		half := len(test.events) / 2
		for _, timeline := range []*Timeline{
			new(Timeline).With(test.events), new(Timeline).With(test.events[:half]).With(test.events[half:]),
		} {
			for at, want := range test.want {
				var time, addr uint64
				fmt.Sscanf(at, "%x %x", &time, &addr)
				got := ""
				if r := timeline.Find(time, addr); r != nil {
					got = r.Name
				}
				if got != want {
					t.Errorf("%s: at %s: %q, not %q", test.name, at, got, want)
				}
			}
		}
	}
	if r := new(Timeline).Find(1, 1); r != nil {
		t.Errorf("without events: %v", r)
	}
}

// TestPrograms has programs whose functions are known, and others of which only the tag is.
func TestPrograms(t *testing.T) {
	load := func(time uint64, id uint32, prefix string, functions ...uint64) Event {
		return Event{Time: time, What: Load, ID: id, Prefix: prefix, Functions: functions}
	}
	timeline := new(Timeline).With([]Event{
		register(1, 0x1000, 0x10, "bpf_prog_aa_main"), register(1, 0x1100, 0x10, "bpf_prog_bb_sub"), load(1, 7, "bpf_prog_aa", 0x1000, 0x1100),
		register(2, 0x2000, 0x10, "bpf_prog_aa_main"), register(2, 0x2100, 0x10, "bpf_prog_aa_main"), load(2, 8, "bpf_prog_aa"), load(2, 9, "bpf_prog_aa"),
		unregister(3, 0x1000), register(4, 0x1000, 0x10, "bpf_prog_cc_other"), load(4, 10, "bpf_prog_cc", 0x1000),
		register(5, 0x3000, 0x10, "bpf_trampoline_1"), load(5, 11, "bpf_"),
	})
	var got []string
	for _, r := range timeline.Regions() {
		got = append(got, fmt.Sprintf("%x %d %s %d", r.Start, r.From, r.Name, r.ID))
	}
	want := "1000 1 bpf_prog_aa_main 7, 1000 4 bpf_prog_cc_other 10, 1100 1 bpf_prog_bb_sub 7, " +
		"2000 2 bpf_prog_aa_main 8, 2100 2 bpf_prog_aa_main 9, 3000 5 bpf_trampoline_1 0"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("\n got %s\nwant %s", s, want)
	}
}

// TestManyPrograms has 100,000 short-lived programs, at few addresses and at many.
func TestManyPrograms(t *testing.T) {
	for name, addresses := range map[string]uint64{"few": 7, "many": 1 << 20} {
		var events []Event
		for i := range uint64(100_000) {
			a := 0x10000 + i%addresses*64
			events = append(events, register(10*i, a, 64, fmt.Sprint(i)), unregister(10*i+9, a))
		}
		timeline := new(Timeline).With(events)
		for i := range uint64(100_000) {
			r := timeline.Find(10*i+5, 0x10000+i%addresses*64+63)
			if r == nil || r.Name != fmt.Sprint(i) {
				t.Fatalf("%s: program %d is %+v", name, i, r)
			}
		}
		if n := testing.AllocsPerRun(10, func() { timeline.Find(5, 0x10000) }); n != 0 {
			t.Errorf("%s: Find allocates %v times", name, n)
		}
	}
}

// TestDense has functions of a byte that lie two bytes apart, as no compiler makes them: each takes memory once.
func TestDense(t *testing.T) {
	const functions, most = 20_000, 2000 // bytes for each
	events := make([]Event, functions)
	for i := range events {
		events[i] = Event{What: Register, Address: uint64(2 * i), Size: 1, Name: "a"}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	timeline := new(Timeline).With(events)
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / functions; n > most {
		t.Errorf("each function takes %d bytes, more than %d", n, most)
	}
	if len(timeline.Regions()) != functions {
		t.Errorf("%d regions", len(timeline.Regions()))
	}
}

// TestAddresses compares a set with a map, at random from a fixed seed.
func TestAddresses(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 63, 64, 65, 5000} {
		all := make([]uint64, n)
		for i := range all {
			all[i] = uint64(3 * i)
		}
		set, there := newAddresses(all), make(map[int]bool)
		for range 1000 {
			i := random.IntN(n)
			if there[i] = random.IntN(4) == 0; there[i] {
				set.add(i)
			} else {
				set.remove(i)
			}
			from, want := random.IntN(n+1), n
			for i := n - 1; i >= from; i-- {
				if there[i] {
					want = i
				}
			}
			if got := set.next(from); got != want {
				t.Fatalf("of %d, the next from %d is %d, not %d", n, from, got, want)
			}
		}
	}
}

// FuzzTimeline makes events of bytes, and asks where and when one is.
func FuzzTimeline(f *testing.F) {
	f.Add([]byte("\x00\x01\x10\x20\x01\x02\x10\x00\x00\x03\x08\x20"), byte(2), byte(0x18))
	f.Fuzz(func(t *testing.T, data []byte, time, addr byte) {
		var events []Event
		for ; len(data) >= 4; data = data[4:] {
			events = append(events, Event{What: What(data[0] % 3), Time: uint64(data[1]), Address: uint64(data[2]), Size: uint64(data[3]),
				Type: typeBPF, Name: fmt.Sprint(data[0]), ID: uint32(data[2]), Prefix: "1"})
		}
		r := new(Timeline).With(events).Find(uint64(time), uint64(addr))
		if r != nil && (uint64(addr) < r.Start || uint64(addr) >= r.End || uint64(time) < r.From || uint64(time) >= r.To) {
			t.Errorf("%d at %d is not in %+v", addr, time, r)
		}
	})
}

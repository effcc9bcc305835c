package sample

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseKeys(t *testing.T) {
	for list, want := range map[string]Keys{
		"":                 {},
		"stack":            {Stack: true, PID: true},
		"ip,stack":         {Stack: true, PID: true},
		"function":         {IP: true, PID: true},
		"tid":              {PID: true, TID: true, Comm: true},
		"cpu,priority":     {CPU: true, Priority: true},
		"container,cgroup": {Cgroup: true},
		"addr,phys_addr":   {Addr: true, PhysAddr: true},
		"data_src,weight":  {DataSrc: true, Weight: true},
	} {
		got, err := ParseKeys(slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" }))
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", list, got, err)
		}
	}
	if _, err := ParseKeys([]string{"cpu", "colour"}); err == nil || !strings.Contains(err.Error(), `"colour"; valid keys are stack, ip,`) {
		t.Error(err)
	}
}

func TestParseRange(t *testing.T) {
	kallsyms := filepath.Join(t.TempDir(), "kallsyms")
	text := "ffffffff81000000 T _text\nffffffff81000100 t one\nffffffff81000180 D one_table\nffffffff81000200 T two\nffffffff81000300 T three\n"
	if err := os.WriteFile(kallsyms, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]Range{
		"two": {0xffffffff81000200, 0xffffffff81000300}, "0x10-0x20": {16, 32}, "16-32": {16, 32},
		"0x20-0x10": {}, "one_table": {}, "four": {}, "a-b": {}, "": {},
	} {
		got, found, err := ParseRange(in, kallsyms)
		if got != want || found != (want != Range{}) || (err != nil) != (in == "0x20-0x10") {
			t.Errorf("%q: %x, %v, %v", in, got, found, err)
		}
	}
	if _, found, err := ParseRange("two", kallsyms+".none"); found || err != nil {
		t.Error(found, err)
	}
}

func TestJoin(t *testing.T) {
	got := join([]Range{{30, 40}, {10, 20}, {35, 38}, {20, 25}, {40, 41}})
	if want := []Range{{10, 25}, {30, 41}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestSizeOfSums(t *testing.T) {
	for _, c := range []struct {
		rate  uint64
		every time.Duration
		want  uint32
	}{
		{0, 0, 32 << 10}, {2 * 999, 0, 32 << 10}, {8 * 999, 0, 64 << 10}, {2 * 4999, 0, 128 << 10}, {1 << 60, 0, 128 << 10},
		{0, time.Second, 32 << 10}, {2 * 99, time.Second, 2 << 10}, {2 * 999, time.Second, 16 << 10}, {2 * 99, time.Minute, 32 << 10},
	} {
		o := settings{rate: c.rate, every: c.every}
		if got := o.sums(); got != c.want {
			t.Errorf("%d a second, intervals of %v: %d, want %d", c.rate, c.every, got, c.want)
		}
	}
}

func TestState(t *testing.T) {
	for bits, want := range map[uint32]string{0: "R", 1: "S", 2: "D", 4: "T", 0x20: "Z", 0x402: "D", 0x80: "I", 0x1000: "R"} {
		if got := state(bits); got != want {
			t.Errorf("%#x: %s, want %s", bits, got, want)
		}
	}
}

func TestTotals(t *testing.T) {
	const estimate = "About 4 more samples were due but not taken (estimated from event counts):\n" +
		"timers were late, threads ended before a sample, or another BPF program ran"
	for want, totals := range map[string]Totals{
		"10 samples, 0 lost": {Samples: 10},
		"8 samples, 0 lost, 25.0 % with stacks that are cut; 2 more of idle CPUs are left out": {Samples: 10, Idle: 2, Truncated: 2, Stacks: true},
		"10 samples, 3 lost; 5 others were not asked for\nMaps in the kernel were full: 3 samples are lost, 4 have no stack. " +
			"There would be room with --map-entries 64": {Samples: 15, Filtered: 5, NoRoom: 3, NoStack: 4, Entries: 64},
		"10 samples, 0 lost\n" + estimate: {Samples: 10, Missed: 4},
		"10 samples, 0 lost\n" + estimate + "\nThe hypervisor had the CPUs for 0.250 s (steal)": {Samples: 10, Missed: 4, Steal: time.Second / 4},
		"10 samples, 0 lost\n" + estimate + "\nTimers of idle CPUs can be late on virtual machines; --no-idle skips idle CPUs": {Samples: 10, Missed: 4,
			IdleCPUs: true},
		"10 samples, 3 lost\n3 samples are lost: the kernel takes none while another BPF program runs on the CPU\n" + estimate: {Samples: 10, Missed: 7, NotRun: 3},
		"10 samples, 3 lost\n3 samples are lost: the kernel takes none while another BPF program runs on the CPU":              {Samples: 10, Missed: 3, NotRun: 3},
		"10 samples, 0 lost\nThe kernel stopped sampling 2 times, for 1.500 s in all: there were more samples between two ticks of a CPU than " +
			"kernel.perf_event_max_sample_rate allows. Idle CPUs have no ticks: --no-idle leaves their samples out": {Samples: 10, Throttled: 2,
			Stopped: 3 * time.Second / 2, Steal: 1},
	} {
		if got := totals.String(); got != want {
			t.Errorf("%+v: %q, want %q", totals, got, want)
		}
	}
}

// TestQueue writes more than is read at a time, and never waits.
func TestQueue(t *testing.T) {
	q := newQueue()
	var want []byte
	for i := range 1000 {
		piece := bytes.Repeat([]byte{byte(i)}, i)
		want = append(want, piece...)
		if n, err := q.Write(piece); n != i || err != nil {
			t.Fatal(n, err)
		}
		if i > 0 && i%3 == 0 {
			got := make([]byte, i/2+1)
			n, err := q.Read(got)
			if err != nil || !bytes.Equal(got[:n], want[:n]) {
				t.Fatalf("read %d, %v", n, err)
			}
			want = want[n:]
		}
	}
	failed := errors.New("failed")
	q.end(failed)
	got, err := io.ReadAll(q)
	if err != failed || !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes are left, %v", len(got), len(want), err)
	}
	q = newQueue()
	go q.end(nil)
	if got, err := io.ReadAll(q); len(got) > 0 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

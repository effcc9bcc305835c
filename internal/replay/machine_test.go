package replay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/perfdata"
)

// layout describes mappings in words.
func layout(m *addressSpace) string {
	var words []string
	for _, p := range m.list {
		words = append(words, fmt.Sprintf("%x-%x@%x:%s", p.Start, p.End, p.Offset, p.DSO.Name))
	}
	return strings.Join(words, " ")
}

func TestInsert(t *testing.T) {
	a, b := &DSO{Name: "a"}, &DSO{Name: "b"}
	tests := []struct {
		name       string
		start, end uint64
		behind     bool
		want       string
	}{
		{"in the middle", 0x30, 0x40, false, "10-30@100:a 30-40@500:b 40-50@130:a 60-70@0:a"},
		{"over the start", 0x0, 0x20, false, "0-20@500:b 20-50@110:a 60-70@0:a"},
		{"over both", 0x40, 0x68, false, "10-40@100:a 40-68@500:b 68-70@8:a"},
		{"in place of all", 0x0, 0x80, false, "0-80@500:b"},
		{"in the hole", 0x50, 0x60, false, "10-50@100:a 50-60@500:b 60-70@0:a"},
		{"empty", 0x50, 0x50, false, "10-50@100:a 60-70@0:a"},
		{"behind all", 0x0, 0x80, true, "0-10@500:b 10-50@100:a 50-60@550:b 60-70@0:a 70-80@570:b"},
	}
	for _, tt := range tests {
		before := (&addressSpace{}).insert(&mapping{Start: 0x60, End: 0x70, DSO: a}).insert(&mapping{Start: 0x10, End: 0x50, Offset: 0x100, DSO: a}).share()
		insert := before.insert
		if tt.behind {
			insert = before.insertBehind
		}
		if got := layout(insert(&mapping{Start: tt.start, End: tt.end, Offset: 0x500, DSO: b})); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if got := layout(before); got != "10-50@100:a 60-70@0:a" {
			t.Errorf("%s: what was shared became %s", tt.name, got)
		}
	}
}

// TestMapsModel compares address spaces with a model that has one entry for each address.
func TestMapsModel(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	m, model := &addressSpace{}, [128]*DSO{}
	for i := range 5000 {
		d := &DSO{Name: fmt.Sprint(i)}
		start := random.Uint64N(120)
		end := start + random.Uint64N(min(20, 128-start))
		switch random.IntN(4) {
		case 0:
			m = m.insertBehind(&mapping{Start: start, End: end, DSO: d})
			for at := start; at < end; at++ {
				if model[at] == nil {
					model[at] = d
				}
			}
		case 1:
			m.share()
			fallthrough
		default:
			m = m.insert(&mapping{Start: start, End: end, DSO: d})
			for at := start; at < end; at++ {
				model[at] = d
			}
		}
		for at, want := range model {
			var got *DSO
			if p := m.find(uint64(at)); p != nil {
				got = p.DSO
			}
			if got != want {
				t.Fatalf("step %d: at %d is %v, want %v, in %s", i, at, got, want, layout(m))
			}
		}
	}
}

func TestThreads(t *testing.T) {
	m := newMachine(&symbols{replay: &Replay{}})
	feed := func(v perfdata.Value, mode perfdata.Misc) { m.apply(&perfdata.Record{Misc: mode, Value: v}) }
	feed(&perfdata.Comm{PID: 10, TID: 10, Comm: "sh"}, 0)
	feed(&perfdata.Mmap2{PID: 10, TID: 10, Start: 0x1000, Length: 0x1000, Protection: protExec, Filename: "/bin/sh"}, perfdata.MiscUser)
	feed(&perfdata.Fork{PID: 11, TID: 11, ParentPID: 10, ParentTID: 10}, 0)
	feed(&perfdata.Fork{PID: 11, TID: 12, ParentPID: 11, ParentTID: 11}, 0)
	feed(&perfdata.Mmap2{PID: 11, TID: 12, Start: 0x2000, Length: 0x1000, Protection: protExec, Filename: "/lib/x"}, perfdata.MiscUser)
	feed(&perfdata.Comm{PID: 11, TID: 11, Comm: "ls", Exec: true}, 0)
	feed(&perfdata.Mmap2{PID: 10, TID: 10, Start: 0x5000, Length: 0x1000, Protection: protExec, Filename: "//anon"}, perfdata.MiscUser)
	feed(&perfdata.Fork{PID: 13, TID: 13, ParentPID: 10, ParentTID: 10, Exec: true}, 0)
	var got []string
	for _, id := range [][2]int32{{10, 10}, {11, 11}, {11, 12}, {13, 13}, {0, 0}, {20, 21}, {-1, -1}} {
		thread := m.thread(id[0], id[1])
		got = append(got, fmt.Sprintf("%d/%d %s %s", thread.PID, thread.TID, thread.Comm, layout(thread.process.maps)))
	}
	want := []string{
		"10/10 sh 1000-2000@0:/bin/sh 5000-6000@0:/tmp/perf-10.map",
		"11/11 ls 1000-2000@0:/bin/sh 2000-3000@0:/lib/x",
		"11/12 sh 1000-2000@0:/bin/sh 2000-3000@0:/lib/x",
		"13/13 sh ",
		"0/0 swapper ",
		"20/21 :21 ",
		"-1/-1 :-1 ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKernelCode(t *testing.T) {
	m := newMachine(&symbols{replay: &Replay{}})
	feed := func(v perfdata.Value) { m.apply(&perfdata.Record{Misc: perfdata.MiscKernel, Value: v}) }
	feed(&perfdata.Mmap{PID: -1, Start: 0x1000, Length: 0x1000, Offset: 0x1000, Filename: "[kernel.kallsyms]_text"})
	feed(&perfdata.Mmap{PID: -1, Start: 0x8000, Length: 0x1000, Filename: "/lib/modules/6.1/kernel/net/virtio-net.ko.xz"})
	feed(&perfdata.KSymbol{Addr: 0x9100, Size: 0x40, Type: perfdata.KSymbolBPF, Name: "bpf_prog_0123456789abcdef_first"})
	feed(&perfdata.KSymbol{Addr: 0x9000, Size: 0x200, Type: perfdata.KSymbolBPF, Name: "bpf_trampoline_1"})
	feed(&perfdata.KSymbol{Addr: 0x9300, Size: 0x40, Type: perfdata.KSymbolBPF, Name: "bpf_prog_0123456789abcdef_second"})
	before := m.kernel.share()
	feed(&perfdata.KSymbol{Addr: 0x9100, Size: 0x40, Flags: perfdata.KSymbolUnregister, Name: "bpf_prog_0123456789abcdef_first"})
	feed(&perfdata.KSymbol{Addr: 0x9300, Size: 0x40, Flags: perfdata.KSymbolUnregister, Name: "another"})
	const kernel = "1000-2000@0:[kernel.kallsyms] 8000-9000@0:[virtio_net] 9000-9100@0:bpf_trampoline_1 "
	const rest = "9140-9200@140:bpf_trampoline_1 9300-9340@0:bpf_prog_0123456789abcdef_second"
	if got, want := layout(before), kernel+"9100-9140@0:bpf_prog_0123456789abcdef_first "+rest; got != want {
		t.Errorf("with both: %s\nwant %s", got, want)
	}
	if got := layout(m.kernel); got != kernel+rest {
		t.Errorf("without the first: %s\nwant %s", got, kernel+rest)
	}
	if d := before.find(0x9100).DSO; d.Tag != "0123456789abcdef" {
		t.Errorf("tag %q", d.Tag)
	}
}

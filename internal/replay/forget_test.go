package replay

import (
	"fmt"
	"testing"

	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/perfdata"
)

// TestForget has processes that come and go, each with a file, code without a file, a thread of its own, and an address outside of its
// mappings. The kept state must not grow with the number of processes.
func TestForget(t *testing.T) {
	const processes, each = 2000, 20 // in an interval
	event := &perfdata.Event{Name: "cycles", Attr: perfdata.Attr{Flags: perfdata.AttrSampleIDAll,
		SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime}}
	sums := &Sums{Stacks: true}
	reader := written(t, event, func(w *perfdata.Writer) {
		at := perfdata.SampleID{PID: 1, TID: 1}
		exec := func(start uint64, name string) {
			w.Write(perfdata.MiscUser, &perfdata.Mmap2{PID: at.PID, TID: at.TID, Start: start, Length: 0x1000, Protection: protExec, Filename: name, SampleID: at})
		}
		exec(0x1000, "/init")
		for i := range processes {
			at.Time = uint64(i + 1)
			at.PID, at.TID = int32(10+i), int32(10+i)
			base := uint64(i+2) << 20
			w.Write(0, &perfdata.Fork{PID: at.PID, TID: at.PID, ParentPID: 1, ParentTID: 1, SampleID: at})
			w.Write(0, &perfdata.Comm{PID: at.PID, TID: at.TID, Comm: "short", Exec: true, SampleID: at})
			exec(base, fmt.Sprint("/tmp/built", i))
			exec(base+0x1000, "/libc.so")
			exec(base+0x2000, "//anon")
			w.Write(0, &perfdata.Fork{PID: at.PID, TID: at.PID + processes, ParentPID: at.PID, ParentTID: at.PID, SampleID: at})
			sums.Add(&Sum{Time: at.Time, PID: at.PID, TID: at.TID, IP: base + 1, User: []uint64{base + 0x1001, base + 0x2001, base + 0x9001},
				Count: 1, Interval: uint32(i / each), Comm: "short"})
			for _, tid := range []int32{at.PID, at.PID + processes} { // the first thread before the other one
				w.Write(0, &perfdata.Exit{PID: at.PID, TID: tid, ParentPID: 1, ParentTID: 1, SampleID: at})
			}
		}
	})
	r := New(reader, Options{Sums: sums, SymFS: t.TempDir()})
	profiles, counted, counts := 0, 0, map[string]int{}
	err := r.Intervals(0, func(p *profile.Profile) error {
		profiles++
		for _, s := range p.Samples() {
			counted += int(s.Count)
		}
		for what, n := range map[string]int{"threads": len(r.machine.threads), "files": len(r.machine.byKey), "locations": int(r.locations.count.Load())} {
			counts[what] = max(counts[what], n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if profiles != processes/each || counted != processes {
		t.Errorf("%d profiles with %d samples, want %d with %d", profiles, counted, processes/each, processes)
	}
	// A batch of records has several intervals; each process has 2 threads, 2 DSOs and 4 locations.
	t.Logf("at most %v; %d problems", counts, len(r.problems()))
	for what, n := range counts {
		if n > processes {
			t.Errorf("%d %s are kept of %d processes", n, what, processes)
		}
	}
	if n := len(r.problems()); n > maxProblems+1 {
		t.Errorf("%d problems", n)
	}
}

// TestExecAgain has a process that executes a file again and again, each time at other addresses. Besides the current mappings, only those
// from before the last exec must remain, for samples in execve.
func TestExecAgain(t *testing.T) {
	m := newMachine(&symbols{replay: &Replay{options: Options{Sums: &Sums{}}}})
	for i := range uint64(1000) {
		m.apply(&perfdata.Record{Value: &perfdata.Comm{PID: 1, TID: 1, Comm: "again", Exec: true}})
		for n := range uint64(2) {
			m.apply(&perfdata.Record{Misc: perfdata.MiscUser, Value: &perfdata.Mmap2{PID: 1, TID: 1, Start: i<<20 + n<<12, Length: 1 << 12, Protection: protExec, Filename: "/a"}})
		}
	}
	if n := len(m.thread(1, 1).process.maps.list); n != 4 {
		t.Errorf("%d mappings, want 4", n)
	}
}

// TestForgetPrograms has BPF programs that come and go. Those that are gone are dropped, but not before their code was mapped. The code of the
// last one never is.
func TestForgetPrograms(t *testing.T) {
	m := newMachine(&symbols{replay: &Replay{options: Options{Sums: &Sums{}}}})
	for i := range uint32(1000) {
		addr := uint64(i+1) << 20
		info := linear.Info{ID: i + 1, BTF: i + 1, Addresses: []uint64{addr}}
		m.programs.byID[info.ID], m.programs.types[info.BTF], m.programs.at[addr] = &info, linear.BTF{ID: info.BTF}, info.ID
		for range 10 { // its record waits for its round
			m.forgetDSOs()
		}
		m.apply(&perfdata.Record{Value: &perfdata.KSymbol{Addr: addr, Size: 64, Type: perfdata.KSymbolBPF, Name: "bpf_prog_0123456789abcdef_p"}})
		if d := m.kernel.find(addr); d == nil || d.DSO.Program != info.ID {
			t.Fatalf("the code of program %d is that of %+v", info.ID, d)
		}
		m.forgetDSOs()
		if i%10 != 0 { // a tenth stays loaded
			m.apply(&perfdata.Record{Value: &perfdata.KSymbol{Addr: addr, Size: 64, Type: perfdata.KSymbolBPF, Flags: perfdata.KSymbolUnregister, Name: "bpf_prog_0123456789abcdef_p"}})
		}
	}
	m.programs.byID[2000] = &linear.Info{ID: 2000}
	for range mostUnmapped {
		m.forgetDSOs()
	}
	if p := &m.programs; len(p.byID) != 100 || len(p.types) != 100 || len(p.at) != 100 || len(p.known) != 100 {
		t.Errorf("%d programs, %d types, %d addresses and %d uses are kept; want 100", len(p.byID), len(p.types), len(p.at), len(p.known))
	}
}

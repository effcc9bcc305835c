package record

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/userprog"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/onsample"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
	"github.com/bperf/bperf/test/split"
)

// withProgram is a recording of each page fault of a command for which a program of the user's runs.
func withProgram(t *testing.T, source string, command []string, assignments ...userprog.Assignment) Config {
	t.Helper()
	cfg := config(t, "page-faults")
	cfg.Command = command
	useProgram(t, &cfg, source, assignments...)
	return cfg
}

func useProgram(t *testing.T, cfg *Config, source string, assignments ...userprog.Assignment) {
	t.Helper()
	var err error
	cfg.Programs, err = userprog.Read([]string{source}, assignments, true)
	check(t, err)
	t.Cleanup(cfg.Programs.Close)
	cfg.Events[0].Events[0].Program = source
}

// mapOf returns a map of the programs, which has not to be the only one.
func mapOf(t *testing.T, programs *userprog.Programs, name string) userprog.Map {
	t.Helper()
	all, err := programs.Maps()
	check(t, err)
	i := slices.IndexFunc(all, func(m userprog.Map) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("there is no map %s: %+v", name, all)
	}
	return all[i]
}

// toucher is a command that touches a number of pages.
func toucher(t *testing.T, pages uint64) []string {
	t.Helper()
	return []string{program.Program{Body: program.Touch, Times: pages}.Write(t)}
}

// TestProgram keeps each nth sample, as a program says.
func TestProgram(t *testing.T) {
	const touched = 250
	object := onsample.Write(t)
	for _, tt := range []struct {
		name    string
		modulus string
		filter  string
		keeps   func(all uint64) uint64
	}{
		{"a third", "3", "", func(all uint64) uint64 { return (all + 2) / 3 }},
		{"each", "1", "", func(all uint64) uint64 { return all }},
		{"none", "0", "", func(uint64) uint64 { return 0 }},
		{"none for the filter", "1", "pid == 1", func(uint64) uint64 { return 0 }},
		{"a third of all that the filter keeps", "3", "pid != 1", func(all uint64) uint64 { return (all + 2) / 3 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := withProgram(t, object+":"+onsample.EveryNth, toucher(t, touched), userprog.Assignment{Name: "modulus", Value: tt.modulus})
			cfg.Events[0].Events[0].Filter = tt.filter
			result, got := run(t, cfg)
			all := result.Samples + result.Filtered
			if all+result.Missed < touched {
				t.Errorf("%d samples were taken, and %d missed, of %d pages that were touched", all, result.Missed, touched)
			}
			if want := tt.keeps(all); result.Samples != want {
				t.Errorf("%d of %d samples, want %d", result.Samples, all, want)
			}
			counted := make(map[bool]uint64)
			for _, row := range mapOf(t, cfg.Programs, "decisions").Rows {
				counted[row[0].(bool)] = row[2].(uint64)
				if row[1] != "modulus" || row[3] != -int64(row[2].(uint64)) {
					t.Errorf("decisions has %v", row)
				}
			}
			if dropped := all - result.Samples; counted[true] != result.Samples || counted[false] != dropped && tt.filter != "pid == 1" {
				t.Errorf("decisions has %v: want %d and %d", counted, result.Samples, dropped)
			}
			testHistograms(t, cfg.Programs, counted[true]+counted[false])
			lost := func(l *perfdata.LostSamples) bool { return !l.BPF }
			if n := howMany(got, lost); result.Missed == 0 && n != 0 {
				t.Errorf("the file says %d times that samples are lost", n)
			}
		})
	}
}

// testHistograms looks at the histograms of the numbers from 0 on that a program had.
func testHistograms(t *testing.T, programs *userprog.Programs, numbers uint64) {
	t.Helper()
	want := [3][]uint64{make([]uint64, 32), make([]uint64, 32), make([]uint64, 32)} // of even ones, odd ones and all
	for n := range numbers {
		slot := max(bits.Len64(n), 1) - 1
		want[n%2][slot]++
		want[2][slot]++
	}
	var got [3][]uint64
	for _, row := range mapOf(t, programs, "parities").Rows {
		got[row[0].(uint64)] = row[2].([]uint64)
	}
	for _, row := range mapOf(t, programs, "numbers_log2").Rows {
		got[2] = row[0].([]uint64)
	}
	if numbers > 1 && !reflect.DeepEqual(got, want) {
		t.Errorf("the histograms of %d numbers have %v, want %v", numbers, got, want)
	}
}

// TestProgramWithOthers has a program that asks what another one of its object has seen, at a raw tracepoint: only the second program of a
// process is sampled.
func TestProgramWithOthers(t *testing.T) {
	const touched = 200
	second := program.Program{Body: program.Touch, Times: touched}.WriteAs(t, "partner") // the raw tracepoint sees the whole machine
	name := filepath.Base(second)
	cfg := withProgram(t, onsample.Write(t)+":"+onsample.AfterExec, []string{"sh", "-c", "exec " + second},
		userprog.Assignment{Name: "label", Value: name})
	result, got := run(t, cfg)
	if len(got.comms) != 1 || got.comms[name]+int(result.Missed) < touched {
		t.Errorf("samples by name: %v, want %d of %s alone", got.comms, touched, name)
	}
	if m := mapOf(t, cfg.Programs, "execs"); len(m.Rows) != 1 || m.Rows[0][1] != uint64(1) {
		t.Errorf("execs has %+v, want one process with 1", m)
	}
}

// TestProgramOfSystem runs a program for all CPUs, while others run for the same event.
func TestProgramOfSystem(t *testing.T) {
	const touched = 200
	object := onsample.Write(t)
	cfg := withProgram(t, object+":"+onsample.EveryNth, toucher(t, touched), userprog.Assignment{Name: "modulus", Value: "2"})
	cfg.Target.System = true
	other := withProgram(t, object+":"+onsample.EveryNth, toucher(t, touched), userprog.Assignment{Name: "drop_all", Value: "true"})
	other.Target.System = true
	done := make(chan Result, 1)
	go func() {
		result, err := Run(other)
		if err != nil {
			t.Error(err)
		}
		done <- result
	}()
	result, err := Run(cfg)
	check(t, err)
	if all := result.Samples + result.Filtered; all+result.Missed < touched || result.Samples != (all+1)/2 {
		t.Errorf("%d of %d samples, want half of at least %d", result.Samples, all, touched)
	}
	if result := <-done; result.Samples != 0 || result.Filtered+result.Missed < touched {
		t.Errorf("the other session has %d samples and dropped %d, want none and at least %d", result.Samples, result.Filtered, touched)
	}
}

// TestLoadedProgram runs a program that was loaded before, and refuses one of another type.
func TestLoadedProgram(t *testing.T) {
	require.Root(t)
	spec, err := ebpf.LoadCollectionSpec(onsample.Write(t))
	check(t, err)
	delete(spec.Programs, onsample.Refused)
	check(t, spec.Variables["drop_all"].Set([]byte{1}))
	loaded, err := ebpf.NewCollection(spec)
	check(t, err)
	defer loaded.Close()
	info, err := loaded.Programs[onsample.EveryNth].Info()
	check(t, err)
	id, _ := info.ID()
	source := userprog.Source{ID: uint32(id)}.String()
	result, _ := run(t, withProgram(t, source, toucher(t, 100)))
	if result.Samples != 0 {
		t.Errorf("%d samples, want none", result.Samples)
	}

	cfg := withProgram(t, source, toucher(t, 1))
	cfg.Events[0].Events[0].Filter = "pid != 0"
	if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), "takes one BPF program") {
		t.Errorf("a filter beside it: %v", err)
	}
	if _, err := Run(withProgram(t, "id:4294967295", toucher(t, 1))); err == nil || !strings.Contains(err.Error(), "open the BPF program id:4294967295") {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestProgramRefused shows what the verifier has to say of a program, and how to see all of it.
func TestProgramRefused(t *testing.T) {
	cfg := config(t, "page-faults")
	cfg.Command = toucher(t, 1)
	source := onsample.Write(t) + ":" + onsample.Refused
	for _, verbose := range []bool{false, true} {
		var err error
		cfg.Programs, err = userprog.Read([]string{source}, nil, verbose)
		check(t, err)
		t.Cleanup(cfg.Programs.Close)
		cfg.Events[0].Events[0].Program = source
		_, err = Run(cfg)
		if err == nil || !strings.Contains(err.Error(), "page-faults: the program "+source+": the kernel refuses it: ") || !strings.Contains(err.Error(), "invalid mem access 'map_value_or_null'") {
			t.Fatalf("verbose %v: %v", verbose, err)
		}
		t.Log(err)
		if more := strings.Contains(err.Error(), "more lines with -v"); more == verbose {
			t.Errorf("verbose %v: %v", verbose, err)
		}
	}
}

// TestProgramOutput has a program that writes an event for each sample: all are in the file, with what was written, in the order of their time.
func TestProgramOutput(t *testing.T) {
	const touched = 250
	source := onsample.Write(t) + ":" + onsample.Output
	for name, change := range map[string]func(*Config){
		"command": func(*Config) {},
		"system":  func(cfg *Config) { cfg.Target.System = true },
		"newest":  func(cfg *Config) { cfg.Overwrite = true },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := withProgram(t, source, toucher(t, touched))
			change(&cfg)
			result, err := Run(cfg)
			check(t, err)
			r, err := perfdata.Open(cfg.Output)
			check(t, err)
			defer r.Close()
			type written struct{ time, number uint64 }
			var all []written
			for rec, err := range r.Records() {
				check(t, err)
				s, ok := rec.Value.(*perfdata.Sample)
				if !ok {
					continue
				}
				if rec.Event.Name != "events" || len(s.Raw) < 16 {
					t.Fatalf("a sample of %s with %d bytes", rec.Event.Name, len(s.Raw))
				}
				if !bytes.HasPrefix(s.Raw[8:], []byte("sample\x00\x00")) {
					t.Errorf("written was %q", s.Raw)
				}
				all = append(all, written{s.Time, binary.NativeEndian.Uint64(s.Raw)})
			}
			if uint64(len(all)) != result.Filtered || len(all)+int(result.Missed) < touched || result.Lost != 0 {
				t.Errorf("%d events were written for %d samples, %d were lost", len(all), result.Filtered, result.Lost)
			}
			if name != "command" { // the program may run on two CPUs at once
				return
			}
			slices.SortFunc(all, func(a, b written) int { return cmp.Compare(a.time, b.time) })
			for i, w := range all {
				if w.number != uint64(i) {
					t.Fatalf("event %d has the number %d", i, w.number)
				}
			}
		})
	}
}

// TestSyscallEvents has the example that writes an event for each system call: of 100,000, all are in the file in order, or counted as lost.
func TestSyscallEvents(t *testing.T) {
	const calls, name = 100_000, "syscall-events"
	cfg := config(t, "page-faults")
	cfg.Command = []string{program.Program{Body: program.GetPPID, Times: calls}.WriteAs(t, name)}
	var err error
	cfg.Programs, err = userprog.Read([]string{onsample.WriteExample(t, "syscall_events")}, []userprog.Assignment{{Name: "number", Value: fmt.Sprint(syscall.SYS_GETPPID)}}, true)
	check(t, err)
	t.Cleanup(cfg.Programs.Close)
	cfg.Events, cfg.Target.System = nil, true
	result, err := Run(cfg)
	check(t, err)
	var numbers []uint64
	for _, s := range samplesOf(t, cfg.Output, "calls") {
		if comm, _, _ := strings.Cut(string(s.Raw[16:32]), "\x00"); comm != name {
			continue // someone else's call
		}
		numbers = append(numbers, binary.NativeEndian.Uint64(s.Raw))
	}
	if !slices.IsSorted(numbers) || uint64(len(numbers))+result.Lost < calls || len(numbers) > calls {
		t.Errorf("%d events, %d lost, in order: %v; want %d", len(numbers), result.Lost, slices.IsSorted(numbers), calls)
	}
	t.Logf("%d events, %d lost", len(numbers), result.Lost)
}

// TestProgramRing has a program that writes to a ring buffer for each sample: all is in the file, by the clock of the recording.
func TestProgramRing(t *testing.T) {
	const touched = 250
	cfg := withProgram(t, onsample.Write(t)+":"+onsample.Submit, toucher(t, touched))
	before, _, err := kernel.ClockAndWall(1)
	check(t, err)
	result, err := Run(cfg)
	check(t, err)
	after, _, err := kernel.ClockAndWall(1)
	check(t, err)
	all := samplesOf(t, cfg.Output, "submitted")
	if uint64(len(all)) != result.Filtered || len(all)+int(result.Missed) < touched || result.Samples != uint64(len(all)) {
		t.Errorf("%d events for %d samples that were dropped, %d were counted", len(all), result.Filtered, result.Samples)
	}
	for i, s := range all {
		if n := binary.NativeEndian.Uint64(s.Raw); n != uint64(i) || s.Time < before || s.Time > after || !bytes.Equal(s.Raw[8:], []byte("sample\x00\x00\x00\x00\x00\x00")) {
			t.Fatalf("event %d has the number %d and the time %d, which is not between %d and %d: %q", i, n, s.Time, before, after, s.Raw)
		}
	}
}

// samplesOf returns the samples of an event of a file, in the order of their time.
func samplesOf(t *testing.T, file, event string) (all []*perfdata.Sample) {
	t.Helper()
	r, err := perfdata.Open(file)
	check(t, err)
	defer r.Close()
	for rec, err := range r.Records() {
		check(t, err)
		if s, ok := rec.Value.(*perfdata.Sample); ok && rec.Event.Name == event {
			all = append(all, s.Clone())
		}
	}
	slices.SortStableFunc(all, func(a, b *perfdata.Sample) int { return cmp.Compare(a.Time, b.Time) })
	return all
}

// TestIPRanges has the example that counts samples by the range of their instruction pointer, and keeps all: the counts are those of the file.
func TestIPRanges(t *testing.T) {
	dir := t.TempDir()
	loads, err := split.Loads(dir, 500*time.Millisecond)
	check(t, err)
	l := loads[0]
	file, err := elf.Open(l.Command()[0])
	check(t, err)
	defer file.Close()
	symbols, err := file.Symbols()
	check(t, err)
	hot := symbols[slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == l.Three })]
	start, end := hot.Value, hot.Value+hot.Size
	cfg := config(t, "cpu-clock")
	cfg.Command, cfg.Period, cfg.Frequency = l.Command(), 0, 999
	useProgram(t, &cfg, onsample.WriteExample(t, "ip_ranges"), userprog.Assignment{Name: "hot_start", Value: fmt.Sprint(start)},
		userprog.Assignment{Name: "hot_end", Value: fmt.Sprint(end)})
	result, err := Run(cfg)
	check(t, err)
	want := make(map[any]uint64)
	for _, s := range samplesOf(t, cfg.Output, "cpu-clock") {
		switch {
		case start <= s.IP && s.IP < end:
			want["HOT"]++
		case int64(s.IP) < 0:
			want["KERNEL"]++
		default:
			want["OTHER_USER"]++
		}
	}
	got := make(map[any]uint64)
	for _, row := range mapOf(t, cfg.Programs, "samples").Rows {
		got[row[0]] = row[1].(uint64)
	}
	if !maps.Equal(got, want) || want["HOT"] == 0 || result.Lost > 0 {
		t.Errorf("the map has %v, and the file %v; %d lost", got, want, result.Lost)
	}
	t.Log(got)
}

package record

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/perfdata"
	"github.com/bperf/bperf/internal/userprog"
	"github.com/bperf/bperf/test/onsample"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
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
			lost := func(l *perfdata.LostSamples) bool { return !l.BPF }
			if n := howMany(got, lost); result.Missed == 0 && n != 0 {
				t.Errorf("the file says %d times that samples are lost", n)
			}
		})
	}
}

// TestProgramWithOthers has a program that asks what another one of its object has seen, at a raw tracepoint: only the second program of a
// process is sampled.
func TestProgramWithOthers(t *testing.T) {
	const touched = 200
	second := toucher(t, touched)[0]
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
	source := onsample.Write(t) + ":" + onsample.Tell
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
				if rec.Event.Name != "told" || len(s.Raw) < 16 {
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

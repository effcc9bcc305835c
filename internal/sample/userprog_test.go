package sample

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/userprog"
	"github.com/bperf/bperf/test/onsample"
	"github.com/bperf/bperf/test/program"
)

// useProgram lets a program of the user's run for the first event.
func useProgram(t *testing.T, cfg *Config, source string, assignments ...userprog.Assignment) {
	t.Helper()
	var err error
	cfg.Record.Programs, err = userprog.Read([]string{source}, assignments, true)
	check(t, err)
	t.Cleanup(cfg.Record.Programs.Close)
	cfg.Record.Events.Events()[0].Program = source
}

// TestProgram counts each third sample, as a program of the user's says, with and without a filter and stacks.
func TestProgram(t *testing.T) {
	const pages = 250
	object := onsample.Write(t)
	command := program.Program{Body: program.Touch, Times: pages}.Write(t)
	for _, tt := range []struct {
		name   string
		by     Keys
		filter string
	}{
		{"by stack", Keys{Comm: true, Stack: true}, ""},
		{"by address", Keys{IP: true}, ""},
		{"with a filter", Keys{IP: true}, "pid != 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config(t, "page-faults", command)
			cfg.Record.Period, cfg.By = 1, tt.by
			cfg.Record.Events.Events()[0].Filter = tt.filter
			useProgram(t, &cfg, object+":"+onsample.EveryNth)
			got := take(t, cfg)
			all, kept := got.Totals.Samples, total(got.Profile)
			if all+got.Totals.NotRun < pages {
				t.Errorf("%d samples of %d page faults: %+v", all, pages, got.Totals)
			}
			if want := (all + 2) / 3; kept != want || got.Totals.Filtered != all-want {
				t.Errorf("%d of %d samples, and %d dropped: want %d", kept, all, got.Totals.Filtered, want)
			}
		})
	}
}

// TestProgramRefused refuses programs that cannot be a part of the one that counts.
func TestProgramRefused(t *testing.T) {
	spec, err := ebpf.LoadCollectionSpec(onsample.Write(t))
	check(t, err)
	delete(spec.Programs, onsample.Refused)
	loaded, err := ebpf.NewCollection(spec)
	check(t, err)
	defer loaded.Close()
	info, err := loaded.Programs[onsample.EveryNth].Info()
	check(t, err)
	id, _ := info.ID()
	cfg := config(t, "page-faults", "true")
	useProgram(t, &cfg, userprog.Source{ID: uint32(id)}.String())
	if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), "is loaded already") {
		t.Error(err)
	}
	cfg = config(t, "page-faults", "true")
	useProgram(t, &cfg, onsample.Write(t)+":"+onsample.Tell)
	if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), "the map told: record it with bperf record") {
		t.Error(err)
	}
	cfg = config(t, "page-faults", "true")
	useProgram(t, &cfg, onsample.Write(t)+":"+onsample.Refused)
	if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), "invalid mem access 'map_value_or_null'") {
		t.Error(err)
	}
}

// TestDuringSyscall has the example that samples only in a system call: of the page faults of a thread, those of the kernel that writes what read(2) returns.
func TestDuringSyscall(t *testing.T) {
	const pages = 200
	zero, err := os.Open("/dev/zero")
	check(t, err)
	defer zero.Close()
	cfg := config(t, "page-faults")
	cfg.Record.Period, cfg.By = 1, Keys{TID: true}
	useProgram(t, &cfg, onsample.WriteDuringSyscall(t), userprog.Assignment{Name: "number", Value: fmt.Sprint(syscall.SYS_READ)})
	size := pages * os.Getpagesize()
	memory, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	check(t, err)
	defer syscall.Munmap(memory)
	check(t, syscall.Madvise(memory, syscall.MADV_NOHUGEPAGE))
	got := onThread(t, cfg, func() {
		touch(t, pages)
		for read := 0; read < size; {
			n, err := zero.Read(memory[read:])
			check(t, err)
			read += n
		}
	})
	kept, missed := total(got.Profile), got.Totals.NotRun
	if kept > pages || kept+missed < pages {
		t.Errorf("%d samples, and %d for which the program did not run, of %d faults in read(2)", kept, missed, pages)
	}
	if got.Totals.Filtered+missed < pages {
		t.Errorf("%d other samples were dropped, want at least %d", got.Totals.Filtered, pages)
	}
}

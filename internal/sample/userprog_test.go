package sample

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/internal/userprog"
	"github.com/bperf/bperf/test/onsample"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
	"github.com/bperf/bperf/test/split"
)

// useProgram makes a user's program run for the first event.
func useProgram(t *testing.T, cfg *Config, source string, assignments ...userprog.Assignment) {
	t.Helper()
	var err error
	cfg.Record.Programs, err = userprog.Read([]string{source}, assignments, true)
	check(t, err)
	t.Cleanup(cfg.Record.Programs.Close)
	cfg.Record.Events.Events()[0].Program = source
}

// TestProgram counts each third sample, which a user's program selects, with and without a filter and stacks.
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

// TestProgramRefused checks the errors for programs that cannot be a part of the one that counts.
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
	useProgram(t, &cfg, onsample.Write(t)+":"+onsample.Output)
	if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), "the map events: record it with bperf record") {
		t.Error(err)
	}
	cfg = config(t, "page-faults", "true")
	useProgram(t, &cfg, onsample.Write(t)+":"+onsample.Refused)
	if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), "invalid mem access 'map_value_or_null'") {
		t.Error(err)
	}
}

// TestDuringSyscall runs the example that samples only in a system call. Of a thread's page faults it keeps those of the kernel while it copies the data of
// read(2).
func TestDuringSyscall(t *testing.T) {
	const pages = 200
	zero, err := os.Open("/dev/zero")
	check(t, err)
	defer zero.Close()
	cfg := config(t, "page-faults")
	cfg.Record.Period, cfg.By = 1, Keys{TID: true}
	useProgram(t, &cfg, onsample.WriteExample(t, "during_syscall"), userprog.Assignment{Name: "number", Value: fmt.Sprint(syscall.SYS_READ)})
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

// TestSlowCalls runs the example that keeps samples of threads that have been in a system call for some time. Of the page faults in read(2), it keeps those
// of reads that waited for a pipe for twice that time, and none of reads that were faster according to the test.
func TestSlowCalls(t *testing.T) {
	require.AnyArch(t)
	const threshold, pages, calls = 300 * time.Millisecond, 16, 2
	var pipe [2]int
	check(t, syscall.Pipe2(pipe[:], syscall.O_CLOEXEC))
	defer syscall.Close(pipe[0])
	defer syscall.Close(pipe[1])
	zero, err := syscall.Open("/dev/zero", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	check(t, err)
	defer syscall.Close(zero)
	size := pages * os.Getpagesize()
	memory, err := syscall.Mmap(-1, 0, 2*calls*size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	check(t, err)
	defer syscall.Munmap(memory)
	check(t, syscall.Madvise(memory, syscall.MADV_NOHUGEPAGE))

	cfg := config(t, "page-faults")
	cfg.Record.Period = 1
	useProgram(t, &cfg, onsample.WriteExample(t, "slow_calls"), userprog.Assignment{Name: "threshold_ns", Value: fmt.Sprint(threshold.Nanoseconds())})
	doubtful := uint64(0) // faults in reads that may have been slow, too
	got := onThread(t, cfg, func() {
		reader := syscall.Gettid()
		for i := range calls {
			wrote := make(chan error, 1)
			go func() {
				until(t, func() bool {
					call, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", reader))
					return strings.HasPrefix(string(call), fmt.Sprintf("%d %#x ", syscall.SYS_READ, pipe[0]))
				})
				time.Sleep(2 * threshold)
				_, err := syscall.Write(pipe[1], make([]byte, size))
				wrote <- err
			}()
			readAll(t, pipe[0], memory[2*i*size:][:size])
			check(t, <-wrote)
			began := time.Now()
			readAll(t, zero, memory[(2*i+1)*size:][:size])
			if time.Since(began) >= threshold {
				doubtful += pages
			}
		}
	})
	kept, missed := total(got.Profile), got.Totals.NotRun
	if kept+missed < calls*pages || kept > calls*pages+doubtful {
		t.Errorf("%d samples, and %d for which the program did not run, of %d faults in slow calls and %d that may be", kept, missed, calls*pages, doubtful)
	}
	for _, s := range got.Profile.Samples() {
		slow := false
		for id := range got.Profile.Stacks.Frames(s.Stack) {
			name := got.Profile.Strings.At(got.Profile.Functions.At(got.Profile.Frames()[id].Function).Name)
			slow = slow || strings.HasSuffix(name, "pipe_read")
		}
		if !slow && doubtful == 0 {
			t.Errorf("%d samples of another call: %v", s.Count, namesOf(got.Profile, &s))
		}
	}
}

// readAll fills memory from a file.
func readAll(t *testing.T, fd int, memory []byte) {
	t.Helper()
	for len(memory) > 0 {
		n, err := syscall.Read(fd, memory)
		check(t, err)
		memory = memory[n:]
	}
}

// TestByRequest runs the example that keeps samples while a function runs. The program has two functions; the events are time and a count of the PMU.
func TestByRequest(t *testing.T) {
	require.Root(t)
	t.Run("time", func(t *testing.T) { byRequest(t, "cpu-clock:u,task-clock:u") })
	t.Run("cycles", func(t *testing.T) {
		require.ExactPMU(t)
		byRequest(t, "cycles:u,cycles:u")
	})
}

// byRequest samples two similar events, the first one with the program.
func byRequest(t *testing.T, events string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	loads, err := split.Loads(dir, truth())
	check(t, err)
	l := loads[0]
	cfg := config(t, events, l.Command()...)
	cfg.Record.Period, cfg.Record.Frequency = 0, rate()
	cfg.Keep |= profile.Comm
	useProgram(t, &cfg, onsample.WriteExample(t, "by_request"))
	r := take(t, cfg)
	const inKernel = "the kernel"
	byEvent := make([]map[string]uint64, len(r.Profile.Events))
	for _, s := range r.Profile.Samples() {
		frame := r.Profile.Frames()[s.Leaf]
		name := r.Profile.Strings.At(r.Profile.Functions.At(frame.Function).Name)
		switch module := r.Profile.Strings.At(r.Profile.Modules.At(frame.Module).Name); {
		case strings.HasPrefix(module, "[uprobes]"): // the first instruction, which the kernel executes there
			name = l.One
		case frame.Kind == profile.Kernel || int64(frame.IP) < 0:
			name = inKernel
		}
		if byEvent[s.Event] == nil {
			byEvent[s.Event] = make(map[string]uint64)
		}
		byEvent[s.Event][name] += s.Count
	}
	t.Logf("with the program %v, without %v", byEvent[0], byEvent[1])
	kept, all := byEvent[0], byEvent[1]
	for name := range kept {
		if name != l.One && name != inKernel {
			t.Errorf("samples in %v, want them in %s alone", kept, l.One)
		}
	}
	if all[l.Three] < all[l.One] {
		t.Errorf("samples without the program are in %v, want most in %s", all, l.Three)
	}
	// QEMU notices some overflows of counters in user mode where a probe traps: these samples are in the kernel, in front of the function or behind it.
	got, least := float64(kept[l.One]), float64(all[l.One])
	tolerance := 5*math.Sqrt(least) + 0.05*least
	if most := least + float64(all[inKernel]); got < least-tolerance || got > most+tolerance {
		t.Errorf("%.0f samples in %s, and from %.0f to %.0f of the other event", got, l.One, least, most)
	}
}

// TestByAddress samples page faults at addresses that are one page apart.
func TestByAddress(t *testing.T) {
	const pages = 200
	cfg := config(t, "page-faults", program.Program{Body: program.Touch, Times: pages}.Write(t))
	var err error
	cfg.By, err = ParseKeys([]string{"addr"})
	check(t, err)
	cfg.Keep = profile.Other
	p := take(t, cfg).Profile
	found := make(map[uint64]uint64)
	for _, s := range p.Samples() {
		tag := p.Tags.At(p.Labels()[s.Labels].Tags)
		addr, err := strconv.ParseUint(p.Strings.At(tag.Value), 0, 64)
		if p.Strings.At(tag.Key) != "addr" || err != nil {
			t.Errorf("%d samples with %s %q: %v", s.Count, p.Strings.At(tag.Key), p.Strings.At(tag.Value), err)
		}
		found[addr] += s.Count
	}
	longest, page := 0, uint64(os.Getpagesize())
	for addr := range found {
		n := 1
		for found[addr+uint64(n)*page] == 1 {
			n++
		}
		longest = max(longest, n)
	}
	if longest < pages {
		t.Errorf("%d of %d pages in a row have a fault each: %v", longest, pages, found)
	}
}

// TestBesideEachOther runs sessions with different programs and rates on one event and CPU. Each has the same samples as alone.
func TestBesideEachOther(t *testing.T) {
	require.AnyArch(t)
	const pages = 240
	object := onsample.Write(t) + ":" + onsample.EveryNth
	type counts struct{ kept, dropped uint64 }
	type session struct {
		name    string
		period  uint64
		modulus uint64 // 0 for no program
		profile bool
	}
	sessions := []session{{"a third", 1, 3, false}, {"half of each fifth", 5, 2, false}, {"a quarter in a profile", 1, 4, true}, {"profile", 1, 0, true}, {"recording", 1, 0, false}}
	// start starts a session, and returns when it samples the process.
	start := func(s session, pid int) (end func() counts) {
		cfg := config(t, "page-faults")
		cfg.Record.Period, cfg.Record.Target = s.period, target.Spec{PIDs: []int{pid}}
		if s.modulus > 0 {
			useProgram(t, &cfg, object, userprog.Assignment{Name: "modulus", Value: fmt.Sprint(s.modulus)})
		}
		enabled, ended := make(chan struct{}), make(chan error, 1)
		cfg.Record.Verbose = func(s string) {
			if s == "events are enabled" {
				close(enabled)
			}
		}
		var of counts
		go func() {
			if s.profile {
				r, err := Run(cfg)
				if err == nil {
					of = counts{total(r.Profile), r.Totals.Filtered}
				}
				ended <- err
				return
			}
			cfg.Record.Output = filepath.Join(t.TempDir(), "perf.data")
			r, err := record.Run(cfg.Record)
			of = counts{r.Samples, r.Filtered}
			ended <- err
		}()
		select {
		case <-enabled:
		case err := <-ended:
			t.Fatal(s.name, err)
		}
		return func() counts {
			check(t, <-ended)
			return of
		}
	}
	// run runs a process for some sessions.
	run := func(of []session) (all []counts) {
		cmd := exec.Command(program.Program{Body: program.Touch, Times: pages, Wait: true}.Write(t))
		in, err := cmd.StdinPipe()
		check(t, err)
		check(t, perfevent.OnCPU(0, cmd.Start)) // where it stays: the period is that of a CPU
		defer cmd.Process.Kill()
		var ends []func() counts
		for _, s := range of {
			ends = append(ends, start(s, cmd.Process.Pid))
		}
		check(t, in.Close())
		check(t, cmd.Wait())
		for _, end := range ends {
			all = append(all, end())
		}
		return all
	}
	// expect returns the numbers of kept and dropped samples of a session for a number of faults.
	expect := func(s session, faults uint64) counts {
		taken := faults / s.period
		if s.modulus == 0 {
			return counts{taken, 0}
		}
		kept := (taken + s.modulus - 1) / s.modulus
		return counts{kept, taken - kept}
	}
	together := run(sessions)
	faults := together[len(sessions)-1].kept
	if faults < pages {
		t.Errorf("%d faults of %d pages", faults, pages)
	}
	for i, s := range sessions {
		if alone := run([]session{s})[0]; together[i] != expect(s, faults) || alone != expect(s, (alone.kept+alone.dropped)*s.period) || (alone.kept+alone.dropped)*s.period+s.period < pages {
			t.Errorf("%s: %+v alone, %+v with others, want %+v", s.name, alone, together[i], expect(s, faults))
		}
	}
}

package userstack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// deep starts the program of testdata/deep.c, which has no frame pointers.
func deep(t *testing.T) (path string, pid int) {
	t.Helper()
	path = "testdata/deep-" + runtime.GOARCH
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	cmd := exec.CommandContext(ctx, path)
	cmd.WaitDelay = time.Minute
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	return path, cmd.Process.Pid
}

// mapsOf returns the records of the mappings of a process.
func mapsOf(t *testing.T, pid int) (records []*perfdata.Mmap2) {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[1][2] != 'x' {
			continue
		}
		r := &perfdata.Mmap2{PID: int32(pid), TID: int32(pid), Filename: fields[5]}
		var end uint64
		if _, err := fmt.Sscanf(fields[0]+" "+fields[2]+" "+fields[3], "%x-%x %x %x:%x", &r.Start, &end, &r.Offset, &r.Major, &r.Minor); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		r.Length = end - r.Start
		if r.Inode, err = strconv.ParseUint(fields[4], 10, 64); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// load loads the program of the tests for a process.
func load(t *testing.T, pid int, limits Limits) *ebpf.Collection {
	t.Helper()
	spec, err := loadUserstack()
	if err != nil {
		t.Fatal(err)
	}
	limits.Resize(spec)
	if err := errors.Join(spec.Variables[userstackVarPid].Set(uint32(pid)), spec.Variables[userstackVarIsArm64].Set(runtime.GOARCH == "arm64")); err != nil {
		t.Fatal(err)
	}
	if err := kernel.PrepareReads(spec.Programs); err != nil {
		t.Fatal(err)
	}
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(c.Close)
	if _, err := c.Programs[userstackProgSetup].Run(&ebpf.RunOptions{Context: [8]byte{}}); err != nil {
		t.Fatal(err)
	}
	return c
}

// sample returns the given number of samples of a process. It takes none in the kernel: while the kernel calls a signal handler, some
// registers of the process are already those of the handler.
func sample(t *testing.T, c *ebpf.Collection, pid int, want uint32) []userstackSample {
	t.Helper()
	const cpuClock = 0 // PERF_COUNT_SW_CPU_CLOCK
	if err := c.Variables[userstackVarTaken].Set(uint32(0)); err != nil {
		t.Fatal(err)
	}
	e, err := perfevent.Open(&perfdata.Attr{Type: perfdata.TypeSoftware, Config: cpuClock, SamplePeriod: 1_000_000, Flags: perfdata.AttrDisabled | perfdata.AttrExcludeKernel},
		perfevent.Where{Thread: pid, CPU: perfevent.AnyCPU})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := errors.Join(e.SetBPF(c.Programs[userstackProgOnSample].FD()), e.Enable()); err != nil {
		t.Fatal(err)
	}
	taken := uint32(0)
	for deadline := time.Now().Add(time.Minute); taken < want; time.Sleep(time.Millisecond) {
		if err := c.Variables[userstackVarTaken].Get(&taken); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d samples in a minute", taken)
		}
	}
	if err := e.Disable(); err != nil {
		t.Fatal(err)
	}
	samples := make([]userstackSample, want)
	for i := range samples {
		if err := c.Maps[userstackMapSamples].Lookup(uint32(i), &samples[i]); err != nil {
			t.Fatal(err)
		}
	}
	return samples
}

// names returns the functions of a stack. Repeated functions have a count.
func names(f *object.File, s *userstackSample) string {
	var text []string
	last, times := "", 0
	end := func() {
		if times > 1 {
			last += "*" + strconv.Itoa(times)
		}
		if times > 0 {
			text = append(text, last)
		}
	}
	for i, a := range s.Addresses[:min(s.Frames, 127)] {
		if i > 0 {
			a-- // a return address
		}
		name := fmt.Sprintf("%#x", a)
		if symbol, ok := f.Symbol(a); ok {
			name = symbol.Name
		} else if a > 1<<32 {
			name = "[vdso]"
		}
		if name == last {
			times++
			continue
		}
		end()
		last, times = name, 1
	}
	end()
	return strings.Join(text, " ")
}

// TestSampledTwice builds tables only for a process whose stack is walked between two updates, too.
func TestSampledTwice(t *testing.T) {
	require.Root(t)
	_, pid := deep(t)
	limits := Limits{Processes: 4, Mappings: 16, Tables: 8, Rules: 256, Rows: 1 << 16, Files: 1 << 20}
	c := load(t, pid, limits)
	tables, err := New(c.Maps, c.Variables[Wants], limits, SampledTwice, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	for _, r := range mapsOf(t, pid) {
		tables.Record(r)
	}
	for _, want := range []int{0, 1} {
		sample(t, c, pid, 5)
		for range 2 { // the second one finds nothing new
			if err := tables.Update(0); err != nil {
				t.Fatal(err)
			}
		}
		if s := tables.Stats(); s.Processes != want || (s.Tables > 0) != (want > 0) {
			t.Errorf("want %d processes: %+v", want, s)
		}
	}
}

// TestDeep finds all frames of a program without frame pointers, through recursion, alloca, system calls and signal handlers.
func TestDeep(t *testing.T) {
	require.Root(t)
	path, pid := deep(t)
	f, err := object.Search{}.Open(path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	limits := Limits{Processes: 4, Mappings: 16, Tables: 8, Rules: 256, Rows: 1 << 16, Files: 1 << 20}
	c := load(t, pid, limits)
	const samples = 200
	tables, err := New(c.Maps, c.Variables[Wants], limits, Sampled, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	for _, r := range mapsOf(t, pid) {
		tables.Record(r)
	}
	if err := tables.Update(0); err != nil {
		t.Fatal(err)
	}
	if s := tables.Stats(); s.Processes != 0 || s.Tables != 0 {
		t.Errorf("nothing was sampled yet: %+v", s)
	}
	// Frame pointers alone do not lead to the outermost frame.
	for _, s := range sample(t, c, pid, 20) {
		if got := names(f, &s); End(s.End) == Outermost || strings.HasSuffix(got, "_start") {
			t.Errorf("without tables: %s: %s", got, End(s.End))
		}
	}
	if err := tables.Update(0); err != nil {
		t.Fatal(err)
	}
	if s := tables.Stats(); s.Processes != 1 || s.Tables == 0 || s.String() != "" {
		t.Fatalf("%+v", s)
	}
	seen := map[string]int{}
	for _, s := range sample(t, c, pid, samples) {
		got := names(f, &s)
		inner, rest, _ := strings.Cut(got, "descend")
		if End(s.End) != Outermost || !strings.HasSuffix(" "+got, " work _start") { // where the timer's signal can come, too
			t.Errorf("%s: %s", got, End(s.End))
			continue
		}
		if strings.Contains(inner, "leaf") && !strings.HasPrefix(rest, "*40 ") {
			t.Errorf("%s: it is 40 calls deep", got)
		}
		for _, name := range strings.Fields(inner) {
			seen[name]++
		}
	}
	t.Logf("%v in %d samples", seen, samples)
	for _, name := range []string{"spin", "leaf", "handler"} {
		if seen[name] == 0 {
			t.Errorf("no stack has %s: %v", name, seen)
		}
	}
	// When the process has ended, it is no longer in the map.
	tables.Record(&perfdata.Exit{PID: int32(pid), TID: int32(pid)})
	if err := tables.Update(0); err != nil {
		t.Fatal(err)
	}
	if s := tables.Stats(); s.Processes != 0 || s.Mappings != 0 {
		t.Errorf("at the end: %+v", s)
	}
	for _, s := range sample(t, c, pid, 5) {
		if End(s.End) != NoTable {
			t.Errorf("without its tables again: %s: %s", names(f, &s), End(s.End))
		}
	}
}

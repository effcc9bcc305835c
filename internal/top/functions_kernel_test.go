package top

import (
	"context"
	"debug/elf"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/internal/session"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
	"github.com/bperf/bperf/test/split"
)

func TestMain(m *testing.M) {
	split.Main()
	os.Exit(m.Run())
}

func openFunctions(t *testing.T, who target.Spec, withCallers bool) *Functions {
	t.Helper()
	f, err := OpenFunctions(FunctionsConfig{Every: 200 * time.Millisecond, Callers: withCallers, Record: record.Config{
		Spec: session.Spec{Target: who}, Events: list(t, "cpu-clock"), Frequency: 999, Overrides: true, Inherit: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// TestFunctions samples three programs that do three quarters of their work in one of two functions: of C, of Go and of BPF. What they measure
// of their time themselves includes what the host of an emulator takes. The programs run until there are enough samples: the timers of virtual CPUs can be late.
func TestFunctions(t *testing.T) {
	require.Root(t)
	loads, err := split.Loads(t.TempDir(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	f := openFunctions(t, target.Spec{System: true}, true)
	nextOf(t, f) // it samples
	const enough = 200
	for range 20 {
		runLoads(t, f, loads)
		if !slices.ContainsFunc(loads, func(l split.Load) bool {
			return functionOf(t, f, l.Name, l.One).samples+functionOf(t, f, l.Name, l.Three).samples < enough
		}) {
			break
		}
	}
	for _, l := range loads {
		one, three := functionOf(t, f, l.Name, l.One), functionOf(t, f, l.Name, l.Three)
		const want = 0.75
		got, samples := part(three.value, one.value+three.value), one.samples+three.samples
		// five standard deviations of the number of samples, and the time between the functions
		tolerance := 5*math.Sqrt(want*(1-want)/float64(samples)) + 0.03
		if samples < enough || !(math.Abs(got-want) <= tolerance) || three.value <= one.value {
			t.Errorf("%s: %.2f %% of %d samples are in %s, and %.2f ± %.2f %% of the work", l.Name, 100*got, samples, l.Three, 100*want, 100*tolerance)
		}
	}
	checkCallers(t, f)
}

// runLoads runs the loads, and waits until f has what was sampled of them.
func runLoads(t *testing.T, f *Functions, loads []split.Load) {
	t.Helper()
	var running sync.WaitGroup
	for _, l := range loads {
		running.Go(func() {
			cmd := exec.CommandContext(t.Context(), l.Command()[0], l.Command()[1:]...)
			cmd.WaitDelay = time.Minute
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", l.Name, err, out)
			}
		})
	}
	running.Wait()
	ended := time.Now()
	for r := nextOf(t, f); !r.Time.Add(-r.Window).After(ended); {
		r = nextOf(t, f)
	}
}

// ownName returns the name of the file of this program, which is the Go load.
func ownName(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(path)
}

// functionOf returns the samples since the start of a load's function. Name is what the name of the function ends with.
func functionOf(t *testing.T, f *Functions, load, name string) (sum sampleSum) {
	t.Helper()
	object := map[string]string{"C": "split", "Go": ownName(t), "BPF": "bpf_prog "}[load]
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, known := range f.sums.functions {
		if strings.HasPrefix(known.object, object) && known.name == strings.TrimPrefix(name, "_") {
			sum.add(known.events[0].total)
		}
	}
	return sum
}

// TestInstructions chooses a function of each of the three programs, and sums up the shares of its instructions.
func TestInstructions(t *testing.T) {
	require.Root(t)
	loads, err := split.Loads(t.TempDir(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range loads {
		cmd := exec.Command(l.Command()[0], l.Command()[1:]...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		f := openFunctions(t, target.Spec{System: true}, false)
		id := uint64(0)
		for id == 0 {
			for _, row := range nextOf(t, f).Rows {
				object := map[string]string{"C": "split ", "Go": ownName(t) + " ", "BPF": "bpf_prog "}[l.Name]
				if strings.HasPrefix(row.Name, object) && strings.HasSuffix(row.Name, " "+strings.TrimPrefix(l.Three, "_")) {
					id = row.ID
				}
			}
		}
		text, err := f.Instructions(id)
		if err != nil || !strings.Contains(text, "There is none yet") {
			t.Errorf("%s: when it is chosen: %v, %s", l.Name, err, text)
		}
		var last, all float64
		for last == 0 && err == nil { // the last interval can be without samples
			nextOf(t, f)
			text, err = f.Instructions(id)
			last, all = sharesOf(instructionLine, text)
		}
		if err != nil || math.Abs(last-100) > 2 || math.Abs(all-100) > 2 || !strings.Contains(text, ">:\n") {
			t.Errorf("%s: %v, %.2f and %.2f %% of the samples are in\n%s", l.Name, err, last, all, text)
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
}

// TestKernelInstructions chooses a function of the kernel. Where its code cannot be read, the text has the reason, and addresses with
// shares.
func TestKernelInstructions(t *testing.T) {
	require.Root(t)
	cmd := exec.Command(program.Program{Body: program.GetPPID, Times: 1 << 40}.Write(t))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	f := openFunctions(t, target.Spec{PIDs: []int{cmd.Process.Pid}}, false)
	id, name, most := uint64(0), "", 0.0
	for id == 0 {
		for _, row := range nextOf(t, f).Rows {
			if in, found := strings.CutPrefix(row.Name, "[kernel] "); found && in != nameless && row.Cells[0].Value > most {
				id, name, most = row.ID, in, row.Cells[0].Value
			}
		}
	}
	text, err := f.Instructions(id)
	if err != nil || !strings.Contains(text, "There is none yet") {
		t.Errorf("when %s is chosen: %v, %s", name, err, text)
	}
	line, wants := instructionLine, []string{"<" + name + ">:\n"}
	if core, err := elf.Open("/proc/kcore"); err == nil {
		core.Close()
	} else {
		line = addressLine
		wants = append(wants, "its code cannot be read from the kernel that runs: ", "/proc/kcore")
	}
	var last, all float64
	for last == 0 && err == nil {
		nextOf(t, f)
		text, err = f.Instructions(id)
		last, all = sharesOf(line, text)
	}
	if err != nil || math.Abs(last-100) > 2 || math.Abs(all-100) > 2 {
		t.Errorf("%v, %.2f and %.2f %% of the samples are in\n%s", err, last, all, text)
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// addressLine matches the address of an instruction that could not be read, with its shares.
var addressLine = regexp.MustCompile(`(?m)^ +(\d+\.\d\d) +(\d+\.\d\d) :   [0-9a-f]+:$`)

// instructionLine matches an instruction with its shares.
var instructionLine = regexp.MustCompile(`(?m)^ +(\d+\.\d\d) +(\d+\.\d\d) :   [0-9a-f]+:\t\w`)

// sharesOf sums up the shares in lines that match.
func sharesOf(line *regexp.Regexp, text string) (last, all float64) {
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		l, _ := strconv.ParseFloat(m[1], 64)
		a, _ := strconv.ParseFloat(m[2], 64)
		last, all = last+l, all+a
	}
	return last, all
}

// checkCallers looks for a function of the Go load, and for its callers down to TestMain. The function may have no row: with the race detector,
// most samples are in the functions that it calls.
func checkCallers(t *testing.T, f *Functions) {
	t.Helper()
	id := uint64(0)
	f.mu.Lock()
	for _, known := range f.sums.functions {
		if strings.HasPrefix(known.object, ownName(t)) && strings.HasSuffix(known.name, "split.threeParts") {
			id = known.id
		}
	}
	f.mu.Unlock()
	text, err := f.Examine(id)
	in := "  " + ownName(t) + "\n"
	if err != nil || !strings.Contains(text, "internal/top.TestMain"+in) || !strings.Contains(text, "runtime.main"+in) {
		t.Errorf("callers of split.threeParts, function %d: %v: %s", id, err, text)
	}
}

// TestFunctionsEnd samples a process that ends, and one that does not before the context is done.
func TestFunctionsEnd(t *testing.T) {
	require.Root(t)
	cmd := exec.CommandContext(t.Context(), program.Program{Body: program.GetPPID, Times: 1000, Wait: true}.Write(t))
	cmd.WaitDelay = time.Minute
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f := openFunctions(t, target.Spec{PIDs: []int{cmd.Process.Pid}}, false)
	if r, err := f.Next(t.Context()); err != nil || r.Window <= 0 || !strings.Contains(r.Total, " samples of cpu-clock, 0 lost") {
		t.Errorf("while it waits: %+v, %v", r, err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for err == nil {
		_, err = f.Next(done)
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the context is done: %v", err)
	}
	if _, err := io.WriteString(in, "x"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		_, err = f.Next(t.Context())
	}
	if err != io.EOF {
		t.Errorf("the process has ended: %v", err)
	}
}

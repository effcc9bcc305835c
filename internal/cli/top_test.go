package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/top"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/require"
)

// topReadingOf returns a reading of programs that ran and some that did not, in an interval of 2 s.
func topReadingOf() *top.Reading {
	amount := func(text string) top.Cell {
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			value = math.NaN()
		}
		return top.Cell{Text: text, Value: value}
	}
	program := func(id uint64, texts ...string) top.Row {
		name := texts[4]
		if name == "-" {
			name = ""
		}
		return top.Row{ID: id, Name: name, Cells: []top.Cell{amount(texts[0]), amount(texts[1]), amount(texts[2]), amount(fmt.Sprint(id)),
			{Text: texts[3]}, {Text: "▁▂█"}, {Text: texts[4]}}}
	}
	return &top.Reading{
		Time: time.Date(2026, 3, 14, 8, 0, 0, 123456789, time.UTC), Window: 2 * time.Second,
		Total: "4 of 5 BPF programs ran, 1503500.5 runs/s, 150.405 % of a CPU",
		Cost:  "bperf takes 1.230 % of a CPU; counting adds 45 ns a run: 9.000 % of a CPU",
		Rows: []top.Row{
			program(7, "0.030", "3000.0", "100.0", "raw_tracepoint", "on_switch"),
			program(8, "150.000", "1500000.0", "1000.0", "xdp",
				"cil_from_netdev_with_a_name_that_BTF_has_whole_and_the_kernel_cut_at_15_bytes"),
			program(9, "0.000", "0.0", "-", "cgroup_device", "sd_devices"),
			program(100000, "0.350", "0.5", "7000000.0", "tracing", "-"),
			program(100001, "0.025", "500.0", "500.0", "type 99", "escape\x1b[m"),
		},
	}
}

// topColumnsOf returns the columns of programs without events.
func topColumnsOf() []top.Column { return new(top.Programs).Columns() }

// topSource returns its readings, and then an error.
type topSource struct {
	top.Source
	readings int
	err      error
}

func (s *topSource) Subject() string       { return "programs" }
func (s *topSource) Columns() []top.Column { return topColumnsOf() }
func (s *topSource) Next(context.Context) (*top.Reading, error) {
	if s.readings--; s.readings < 0 {
		return nil, s.err
	}
	return topReadingOf(), nil
}

func topText(r *top.Reading, order top.Order) string {
	var b bytes.Buffer
	writeTop(&b, topColumnsOf(), r, order)
	return b.String()
}

func TestWriteTop(t *testing.T) {
	golden.Compare(t, filepath.Join("testdata", "top-table.golden"), topText(topReadingOf(), top.Order{}))
	empty := topReadingOf()
	empty.Rows, empty.Total, empty.Cost = nil, "no such BPF program is loaded", "bperf takes 1.230 % of a CPU; counting adds 45 ns a run: 0.000 % of a CPU"
	golden.Compare(t, filepath.Join("testdata", "top-table-none.golden"), topText(empty, top.Order{}))
}

func TestPrintTop(t *testing.T) {
	failed := errors.New("failed")
	table := topText(topReadingOf(), top.Order{})
	for name, tt := range map[string]struct {
		count int
		w     io.Writer
		want  string
		err   string
	}{
		"two":         {2, new(strings.Builder), table + "\n" + table, ""},
		"error":       {0, new(strings.Builder), table + "\n" + table, "failed"},
		"broken pipe": {0, brokenPipe{}, "", "print the table: broken pipe"},
	} {
		err := (&topPrinter{source: &topSource{readings: 2, err: failed}}).run(context.Background(), tt.w, time.Millisecond, tt.count)
		if fmt.Sprint(err) != tt.err && (err != nil || tt.err != "") {
			t.Errorf("%s: %v, want %q", name, err, tt.err)
		}
		if got, ok := tt.w.(*strings.Builder); ok && got.String() != tt.want {
			t.Errorf("%s: -want +got:\n%s", name, cmp.Diff(tt.want, got.String()))
		}
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if err := (&topPrinter{source: new(topSource)}).run(done, io.Discard, time.Hour, 0); err != nil {
		t.Errorf("told to end: %v", err)
	}
}

func TestTopJSON(t *testing.T) {
	var b bytes.Buffer
	p := topPrinter{&topSource{readings: 2, err: io.EOF}, top.Order{Column: 1}, true}
	if err := p.run(context.Background(), &b, time.Millisecond, 0); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, filepath.Join("testdata", "top-json.golden"), b.String())
	line, _, _ := strings.Cut(b.String(), "\n")
	var r topJSON
	unwrap(t, line, topSchema, &r)
	columns, rows, err := r.table()
	if err != nil {
		t.Fatal(err)
	}
	var want, got bytes.Buffer
	writeTopRows(&want, topColumnsOf(), topReadingOf().Rows, p.order)
	if writeTopRows(&got, columns, rows, p.order); got.String() != want.String() {
		t.Errorf("the table of what was read again: -want +got:\n%s", cmp.Diff(want.String(), got.String()))
	}
}

func TestTopRefuses(t *testing.T) {
	for args, want := range map[string]result{
		"top -d 0":            {"", "Error: --delay 0: the interval must be from 0.1 to 1000000 seconds\n", 22},
		"top -d NaN":          {"", "Error: --delay NaN: the interval must be from 0.1 to 1000000 seconds\n", 22},
		"top -d 1e7":          {"", "Error: --delay 1e+07: the interval must be from 0.1 to 1000000 seconds\n", 22},
		"top -n 0":            {"", "Error: --iterations 0: the number of tables must be at least 1\n", 22},
		"top --once -n 2":     {"", "Error: --once means --iterations 1: give only one\n", 22},
		"top --by proc":       {"", "Error: --by proc: the values are program, process, thread, cgroup, function\n", 22},
		"top --by function 7": {"", "Error: 7 selects BPF programs, which --by function does not show\n", 22},
		"top -p 1 7":          {"", "Error: --pid is for samples of functions: give it with --by function\n", 22},
		"top --by cgroup -g":  {"", "Error: --g is for samples of functions: give it with --by function\n", 22},
		"top -F 99 -c 7":      {"", "Error: -F sets a frequency and -c a period: give only one\n", 22},
		"top -F no":           {"", "Error: -F no: give a number of samples per second, or max\n", 129},
		"top -p 1 -t 1":       {"", "Error: -p and -t cannot be combined\n", 22},
		"top --by function -e cpu-clock/call-graph=no/": {"", "Error: cpu-clock/call-graph=no/: top counts samples in the kernel; only bperf record takes terms that " +
			"select what a sample contains\n", 129},

		"top --by cgroup 7":           {"", "Error: 7 selects BPF programs, which --by cgroup does not show\n", 22},
		"top --by process -e nothing": {"", "Error: event syntax error: there is no event nothing\n  nothing\n  ^\n", 129},
		"top -s naem":                 {"", "Error: --sort naem: programs are sorted by cpu, runs, ns, id, type, name; did you mean name?\n", 22},
		"top -n x":                    {"", "Error: -n x: give a whole number\nSee bperf top --help\n", 129},
		"top -n 9e9":                  {"", "Error: -n 9e9: give a whole number\nSee bperf top --help\n", 129},
		"top -n 99999999999999999999": {"", "Error: -n 99999999999999999999: the number is out of range\nSee bperf top --help\n", 129},
		"top ,": {"", "Error: BPF programs: the list is empty; give IDs, all, or " +
			"name:GLOB, tag:HEX, pinned:PATH, type:NAME, map:ID|NAME, link:ID, cgroup:PATH or pid:PID\n", 129},
	} {
		if got := runHere(t, strings.Fields(args)...); got != want {
			t.Errorf("%s: %+v, want %+v", args, got, want)
		}
	}
}

// loadEmpty loads a program that does nothing.
func loadEmpty(t *testing.T, name string) (*ebpf.Program, ebpf.ProgramID) {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.RawTracepoint, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	return prog, id
}

// TestTop shows a program that runs all the time.
func TestTop(t *testing.T) {
	require.Root(t)
	prog, id := loadEmpty(t, "bperf_test_top")
	cmd := bperf("top", "-d", "0.1", "-n", "2", fmt.Sprint(id))
	done := make(chan result)
	go func() { done <- run(t, cmd) }()
	var got result
	for running := true; running; {
		if _, err := prog.Run(&ebpf.RunOptions{Context: [8]byte{}}); err != nil {
			t.Fatal(err)
		}
		select {
		case got = <-done:
			running = false
		case <-time.After(time.Millisecond):
		}
	}
	table := fmt.Sprintf(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d, \d+\.\d{3} s: 1 of 1 BPF programs ran, [1-9][0-9.]* runs/s, \d+\.\d{3} %% of a CPU\n`+
		`bperf takes \d+\.\d{3} %% of a CPU; counting adds .*\n`+
		` *cpu %% +runs/s +ns/run +id +type +name\n`+
		` *\d+\.\d{3} +[1-9][0-9.]* +[1-9][0-9.]* +%d +raw_tracepoint +bperf_test_top\n`, id)
	if !regexp.MustCompile(`^`+table+`\n`+table+`$`).MatchString(got.stdout) || got.stderr != "" || got.status != 0 {
		t.Errorf("%+v does not match two of\n%s", got, table)
	}
}

// TestTopBy shows this process, and its cgroup.
func TestTopBy(t *testing.T) {
	require.Root(t)
	busy, name := busyThread(t)
	comm, err := os.ReadFile("/proc/self/comm") // that thread's name if it is the first one
	if err != nil {
		t.Fatal(err)
	}
	const number = `(\d+\.\d\d?|\d+)[kMG]?`
	for what, row := range map[string]string{
		"process": fmt.Sprintf(` *\d+\.\d{3} +%s +%s +%s +%d  %s\n`, number, number, number, os.Getpid(), regexp.QuoteMeta(strings.TrimSpace(string(comm)))),
		"thread":  fmt.Sprintf(` *\d+\.\d{3} +%s +%s +%s +%d  %s\n`, number, number, number, busy, regexp.QuoteMeta(name)),
		"cgroup":  fmt.Sprintf(` *\d+\.\d{3} +%s +%s +%s +\d+  /\S*\n`, number, number, number),
	} {
		t.Run(what, func(t *testing.T) {
			cmd := bperf("top", "--by", what, "-d", "0.2", "--once", "-s", "page-faults", "-e", "page-faults,context-switches")
			done := make(chan result)
			go func() { done <- run(t, cmd) }()
			var got result
			for running := true; running; {
				select {
				case got = <-done:
					running = false
				case <-time.After(time.Millisecond): // for which it is switched to
				}
			}
			table := `^\S+ \S+, \d+\.\d{3} s: \d+ of \d+ ` + regexp.QuoteMeta(map[string]string{"process": "processes", "thread": "threads", "cgroup": "cgroups"}[what]) +
				` ran, \S+ switches/s, \S+ % of a CPU\nbperf takes \S+ % of a CPU; its program at each switch \S+ %\n` +
				` *cpu % +switches/s +page-faults/s +context-switches/s +[pt]?id  name\n`
			if !regexp.MustCompile(table).MatchString(got.stdout) || got.stderr != "" || got.status != 0 {
				t.Errorf("%+v does not match\n%s", got, table)
			}
			if !regexp.MustCompile(`(?m)^`+row).MatchString(got.stdout) && !strings.Contains(got.stdout, "(processes of other PID namespaces)") {
				t.Errorf("%s has no line\n%s", got.stdout, row)
			}
		})
	}
	want := result{status: 22, stderr: "Error: --sort runs: processes are sorted by cpu, switches, pid, name\n"}
	if got := run(t, bperf("top", "--by", "process", "--once", "-s", "runs")); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// busyThread starts a thread that is switched to often, and returns its ID and name.
func busyThread(t *testing.T) (tid int, name string) {
	t.Helper()
	ended, started := make(chan struct{}), make(chan int)
	go func() {
		runtime.LockOSThread() // it ends with the goroutine, as its name is its own
		own := append([]byte("bperf_thread"), 0)
		_, _, failed := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_NAME, uintptr(unsafe.Pointer(&own[0])), 0)
		if failed != 0 {
			t.Error(failed)
		}
		started <- syscall.Gettid()
		for pause := (syscall.Timespec{Nsec: int64(time.Millisecond)}); ; {
			select {
			case <-ended:
				return
			default:
				_ = syscall.Nanosleep(&pause, nil)
			}
		}
	}()
	tid = <-started
	t.Cleanup(func() { close(ended) })
	return tid, "bperf_thread"
}

// TestTopFunctions shows functions of the machine in two intervals, and those of this process.
func TestTopFunctions(t *testing.T) {
	require.NoKernel(t)
	require.Root(t)
	const total = `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d, \d+\.\d{3} s: \d+ samples of cpu-clock, \d+ lost[^:]*: \d+\.\d{3} % of a CPU`
	const cost = `\nbperf takes \d+\.\d{3} % of a CPU\n`
	const row = ` *\d+\.\d\d +\d+\.\d\d +\d+ +\S.*  \S.*\n`
	machine := `^` + total + cost + `now % +all % +samples +object +name\n(` + row + `)+` + `\n` + total + cost + ` *now % +all % +samples +object +name\n(` + row + `)+$`
	got := run(t, bperf("top", "--by", "function", "-e", "cpu-clock", "-d", "0.3", "-n", "2"))
	if !regexp.MustCompile(machine).MatchString(got.stdout) || got.stderr != "" || got.status != 0 {
		t.Errorf("%+v does not match\n%s", got, machine)
	}
	done := make(chan result)
	cmd := bperf("top", "-p", fmt.Sprint(os.Getpid()), "-e", "cpu-clock:u,page-faults", "-d", "0.1", "-g", "-n", "10", "-s", "samples")
	go func() { done <- run(t, cmd) }()
	for x, running := uint64(0), true; running; {
		select {
		case got = <-done:
			running = false
		default:
			for range 1000 {
				x = x*6364136223846793005 + 1442695040888963407
			}
		}
	}
	const own = `samples +page-faults % +object +name\n(.*\n)*.*internal/cli\.TestTopFunctions`
	if !regexp.MustCompile(own).MatchString(got.stdout) || got.stderr != "" || got.status != 0 {
		t.Errorf("%+v does not match\n%s", got, own)
	}
}

// TestTopMissing selects a program that does not exist, and expects an error before any output.
func TestTopMissing(t *testing.T) {
	require.Root(t)
	_, id := loadEmpty(t, "bperf_test_top")
	want := result{status: 1, stderr: "Error: no BPF program is selected by \"name:bperf_none\": none of those that are loaded matches\n"}
	if got := run(t, bperf("top", "--once", fmt.Sprint(id, ",name:bperf_none"))); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestTopUnprivileged runs as nobody.
func TestTopUnprivileged(t *testing.T) {
	p := newPlace(t)
	cmd := p.bperf("top", "--once")
	cmd.Env = append(cmd.Env, userEnv+"=65534")
	got := run(t, cmd)
	const want = "operation not permitted. Run as root: BPF programs are shown to root, or to a user with CAP_SYS_ADMIN (to find them by ID) and CAP_BPF\n"
	if !strings.HasSuffix(got.stderr, want) || got.stdout != "" || got.status != 1 {
		t.Errorf("%+v, want %q", got, want)
	}
}

// TestTopEnds checks that top ends when its output has no reader, and at a signal.
func TestTopEnds(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	ends := map[string]func(*testing.T, *exec.Cmd, io.Closer){
		"nobody reads": func(t *testing.T, _ *exec.Cmd, stdout io.Closer) { stdout.Close() },
		"SIGINT":       func(t *testing.T, cmd *exec.Cmd, _ io.Closer) { cmd.Process.Signal(os.Interrupt) },
	}
	for _, by := range topSubjects {
		for name, end := range ends {
			t.Run(by+" "+name, func(t *testing.T) {
				cmd := bperf("top", "--by", by, "-d", "0.1", "-e", "cpu-clock")
				var stderr strings.Builder
				cmd.Stderr = &stderr
				stdout, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if _, err := stdout.Read(make([]byte, 10)); err != nil {
					t.Error(err)
				}
				end(t, cmd, stdout)
				if err := cmd.Wait(); err != nil || stderr.String() != "" {
					t.Errorf("%v, %s", err, &stderr)
				}
			})
		}
	}
}

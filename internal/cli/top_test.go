package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/test/require"
)

// topReadingOf has programs that ran and some that did not, in an interval of 2 s.
func topReadingOf() *topReading {
	const window = 2 * time.Second
	program := func(id uint32, kind bpfprog.Type, name string, runs uint64, time time.Duration) bpfprog.Observed {
		return bpfprog.Observed{Program: &bpfprog.Program{ID: id, Type: kind, Name: name},
			Use: bpfprog.Use{Stats: bpfprog.Stats{Runs: runs, RunTime: time}, CPUs: float64(time) / float64(window)}}
	}
	return &topReading{
		&bpfprog.Observation{
			Time: time.Date(2026, 3, 14, 8, 0, 0, 123456789, time.UTC), Window: window, Runs: 4_000_000,
			Programs: []bpfprog.Observed{
				program(7, 17, "on_switch", 6000, 600*time.Microsecond),
				program(8, 6, "cil_from_netdev_with_a_name_that_BTF_has_whole_and_the_kernel_cut_at_15_bytes", 3_000_000, 3*time.Second),
				program(9, 15, "sd_devices", 0, 0),
				program(100000, 26, "", 1, 7*time.Millisecond),
				program(100001, 99, "escape\x1b[m", 1000, 500*time.Microsecond),
			},
		},
		topCost{own: 0.0123, perRun: 45},
	}
}

func topText(r *topReading, order topOrder) string {
	var b bytes.Buffer
	writeTop(&b, r, order)
	return b.String()
}

func TestWriteTop(t *testing.T) {
	compareGolden(t, "top-table.golden", topText(topReadingOf(), topOrder{}))
	empty := topReadingOf()
	empty.Programs, empty.Runs = nil, 0
	compareGolden(t, "top-table-none.golden", topText(empty, topOrder{}))
}

func TestTopCosts(t *testing.T) {
	for _, tt := range []struct {
		cost topCost
		want string
	}{
		{topCost{own: 0.0123, perRun: 45}, "bperf takes 1.230 % of a CPU; counting adds 45 ns a run: 9.000 % of a CPU"},
		{topCost{own: 1.5}, "bperf takes 150.000 % of a CPU; counting adds nothing that can be measured"},
		{topCost{unknown: true}, "bperf takes 0.000 % of a CPU; what counting adds to runs cannot be measured"},
	} {
		r := topReadingOf()
		r.cost = tt.cost
		if got := r.costs(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.cost, got, tt.want)
		}
	}
}

func TestTopOrder(t *testing.T) {
	for _, tt := range []struct {
		column string
		turned bool
		want   []uint32
	}{
		{"cpu", false, []uint32{8, 100000, 7, 100001, 9}},
		{"runs", false, []uint32{8, 7, 100001, 100000, 9}},
		{"ns", false, []uint32{100000, 8, 100001, 7, 9}},
		{"id", false, []uint32{7, 8, 9, 100000, 100001}},
		{"type", false, []uint32{9, 7, 100000, 100001, 8}},
		{"name", false, []uint32{100000, 8, 100001, 7, 9}},
		{"cpu", true, []uint32{9, 100001, 7, 100000, 8}},
		{"id", true, []uint32{100001, 100000, 9, 8, 7}},
	} {
		programs := topReadingOf().Programs
		topOrder{topIndex(tt.column), tt.turned}.sort(programs)
		var got []uint32
		for _, p := range programs {
			got = append(got, p.ID)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s, turned %v: -want +got:\n%s", tt.column, tt.turned, diff)
		}
	}
	equal := []bpfprog.Observed{{Program: &bpfprog.Program{ID: 3}}, {Program: &bpfprog.Program{ID: 2}}}
	topOrder{turned: true}.sort(equal)
	if equal[0].ID != 2 {
		t.Error("programs that are equal are not in the order of their IDs")
	}
}

func TestPrintTop(t *testing.T) {
	failed := errors.New("failed")
	for name, tt := range map[string]struct {
		count int
		w     io.Writer
		next  error // of the third reading
		want  string
		err   string
	}{
		"two":         {2, new(strings.Builder), nil, topText(topReadingOf(), topOrder{}) + "\n" + topText(topReadingOf(), topOrder{}), ""},
		"error":       {0, new(strings.Builder), failed, topText(topReadingOf(), topOrder{}) + "\n" + topText(topReadingOf(), topOrder{}), "failed"},
		"broken pipe": {0, brokenPipe{}, nil, "", "print the table: broken pipe"},
	} {
		readings := 0
		next := func() (*topReading, error) {
			if readings++; readings > 2 {
				return nil, tt.next
			}
			return topReadingOf(), nil
		}
		err := printTop(context.Background(), tt.w, next, topOrder{}, time.Millisecond, tt.count)
		if fmt.Sprint(err) != tt.err && (err != nil || tt.err != "") {
			t.Errorf("%s: %v, want %q", name, err, tt.err)
		}
		if got, ok := tt.w.(*strings.Builder); ok && got.String() != tt.want {
			t.Errorf("%s: -want +got:\n%s", name, cmp.Diff(tt.want, got.String()))
		}
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if err := printTop(done, io.Discard, nil, topOrder{}, time.Hour, 0); err != nil {
		t.Errorf("told to end: %v", err)
	}
}

func TestTopRefuses(t *testing.T) {
	for args, want := range map[string]result{
		"top -d 0":        {"", "Error: --delay 0: an interval is at least 0.1 seconds, and at most 1000000\n", 22},
		"top -d NaN":      {"", "Error: --delay NaN: an interval is at least 0.1 seconds, and at most 1000000\n", 22},
		"top -d 1e7":      {"", "Error: --delay 1e+07: an interval is at least 0.1 seconds, and at most 1000000\n", 22},
		"top -n 0":        {"", "Error: --iterations 0: a number of tables is 1 or more\n", 22},
		"top --once -n 2": {"", "Error: --once is --iterations 1: give one of the two\n", 22},
		"top -s naem":     {"", "Error: --sort naem: programs are sorted by cpu, runs, ns, id, type, name; did you mean name?\n", 22},
		"top -n x": {"", "Error: invalid argument \"x\" for \"-n, --iterations\" flag: strconv.ParseInt: parsing \"x\": invalid syntax\n" +
			"See bperf top --help\n", 129},
		"top ,": {"", "Error: BPF programs: the list is empty; give IDs, all, or " +
			"name:GLOB, tag:HEX, pinned:PATH, type:NAME, map:ID|NAME, link:ID, cgroup:PATH or pid:PID\n", 129},
	} {
		if got := run(t, bperf(strings.Fields(args)...)); got != want {
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
		default:
		}
	}
	table := fmt.Sprintf(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d, 0\.\d{3} s: 1 of 1 BPF programs ran, [1-9][0-9.]* runs/s, \d+\.\d{3} %% of a CPU\n`+
		`bperf takes \d+\.\d{3} %% of a CPU; counting adds .*\n`+
		` *cpu %% +runs/s +ns/run +id +type +name\n`+
		` *\d+\.\d{3} +[1-9][0-9.]* +[1-9][0-9.]* +%d +raw_tracepoint +bperf_test_top\n`, id)
	if !regexp.MustCompile(`^`+table+`\n`+table+`$`).MatchString(got.stdout) || got.stderr != "" || got.status != 0 {
		t.Errorf("%+v does not match two of\n%s", got, table)
	}
}

// TestTopMissing asks for what is not there, which is an error before anything is shown.
func TestTopMissing(t *testing.T) {
	require.Root(t)
	_, id := loadEmpty(t, "bperf_test_top")
	want := result{status: 1, stderr: "Error: no BPF program is selected by \"name:bperf_none\": none of those that are loaded matches\n"}
	if got := run(t, bperf("top", "--once", fmt.Sprint(id, ",name:bperf_none"))); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestTopUnprivileged is nobody.
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

// TestTopEnds ends as nobody reads what it prints, or a signal comes.
func TestTopEnds(t *testing.T) {
	require.Root(t)
	for name, end := range map[string]func(*testing.T, *exec.Cmd, io.Closer){
		"nobody reads": func(t *testing.T, _ *exec.Cmd, stdout io.Closer) { stdout.Close() },
		"SIGINT":       func(t *testing.T, cmd *exec.Cmd, _ io.Closer) { cmd.Process.Signal(os.Interrupt) },
	} {
		t.Run(name, func(t *testing.T) {
			cmd := bperf("top", "-d", "0.1")
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

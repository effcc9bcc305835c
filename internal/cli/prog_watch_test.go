package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/require"
)

// changesOfAll returns changes of each kind.
func changesOfAll() []bpfprog.Change {
	at := time.Date(2026, 3, 14, 9, 0, 0, 123456789, time.UTC)
	program := *progListing(0).Entries[0].Program
	functions := append(program.Functions, bpfprog.Function{Name: "inner", Source: &bpfprog.Line{File: "a.bpf.c", Number: 7, Text: "static int inner() {"}})
	program.Functions = nil
	short, long := 812*time.Microsecond, 26*time.Hour+1234567*time.Nanosecond
	return []bpfprog.Change{
		{Event: bpfprog.Loaded, Time: at, ID: 7, Name: "on_switch", Tag: "0123456789abcdef", Type: "raw_tracepoint", PID: 1234, Comm: "agent\x1b[m", User: "root",
			Functions: functions, Maps: []bpfprog.Map{{ID: 3, Name: "counts"}, {ID: 4}}, Program: &program},
		{Event: bpfprog.Loaded, Time: at, ID: 8, Name: "short", Tag: "00000000000000ff", PID: 99, Functions: []bpfprog.Function{{Name: "short"}}, Missed: bpfprog.Gone},
		{Event: bpfprog.Unloaded, Time: at.Add(short), ID: 8, Name: "short", Tag: "00000000000000ff", Lived: &short},
		{Event: bpfprog.Loaded, Time: at.Add(time.Second), ID: 100000, Tag: "00000000000000fe", Missed: bpfprog.Gone, Functions: []bpfprog.Function{{}}},
		{Event: bpfprog.Unloaded, Time: at.Add(long), ID: 7, Name: "on_switch", Tag: "0123456789abcdef", Type: "raw_tracepoint", Lived: &long},
		{Event: bpfprog.Unloaded, Time: at.Add(long), ID: 9, Tag: "00000000000000fd"},
		{Event: bpfprog.LostSome, Time: at.Add(long), Records: 12},
		{Event: bpfprog.Unseen, Time: at.Add(long), ID: 17, LastID: 17},
		{Event: bpfprog.Unseen, Time: at.Add(long), ID: 18, LastID: 40},
		{Event: bpfprog.Loaded, Time: at.Add(short), ID: 39, Name: "unrecorded", Tag: "00000000000000fc", Type: "xdp", User: "root",
			Program: &bpfprog.Program{ID: 39, Name: "unrecorded"}, Missed: bpfprog.Unrecorded},
	}
}

// telling returns a function that reports these changes and then returns an error.
func telling(all []bpfprog.Change, err error) func(context.Context, func(bpfprog.Change)) error {
	return func(_ context.Context, tell func(bpfprog.Change)) error {
		for _, c := range all {
			tell(c)
		}
		return err
	}
}

func TestPrintChanges(t *testing.T) {
	require.NoKernel(t)
	for file, asJSON := range map[string]bool{"prog-watch.golden": false, "prog-watch.json": true} {
		var b strings.Builder
		if err := printChanges(t.Context(), &b, telling(changesOfAll(), nil), asJSON); err != nil {
			t.Error(err)
		}
		golden.Compare(t, filepath.Join("testdata", file), b.String())
	}
	var missed missedChanges
	if err := missed.of(telling(changesOfAll(), nil))(t.Context(), func(bpfprog.Change) {}); err != nil {
		t.Error(err)
	}
	if missed != (missedChanges{records: 12, programs: 24}) {
		t.Errorf("missed: %s", missed)
	}
	var b strings.Builder
	if err := printChanges(t.Context(), &b, telling(changesOfAll()[:1], errors.New("no")), false); err == nil || err.Error() != "no" || b.String() == "" {
		t.Errorf("got %v after %q", err, &b)
	}
	// A write error ends run, even if it has more changes.
	err := printChanges(t.Context(), brokenPipe{}, func(ctx context.Context, tell func(bpfprog.Change)) error {
		for ctx.Err() == nil {
			tell(changesOfAll()[0])
		}
		return nil
	}, true)
	if err == nil || err.Error() != "print the changes: broken pipe" {
		t.Errorf("got %v", err)
	}
}

// startWatching starts a command and waits until it is watching.
func startWatching(t *testing.T, cmd *exec.Cmd) (io.ReadCloser, *bufio.Reader) {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	stderr := bufio.NewReader(pipe)
	if line, err := stderr.ReadString('\n'); line != "Watching BPF programs.\n" {
		t.Fatalf("printed %q, %v", line, err)
	}
	return stdout, stderr
}

// idOf returns a program's ID with a single system call, so that a program that the test loads only for a moment is really short-lived.
func idOf(t *testing.T, p *ebpf.Program) uint32 {
	t.Helper()
	var info [2]uint32 // type and ID, of struct bpf_prog_info
	attr := struct {
		fd, size uint32
		info     unsafe.Pointer
	}{uint32(p.FD()), uint32(unsafe.Sizeof(info)), unsafe.Pointer(&info)}
	if _, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_OBJ_GET_INFO_BY_FD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr)); errno != 0 {
		t.Fatal(errno)
	}
	return info[1]
}

// TestProgWatch loads and unloads programs one after another, and expects all of them.
func TestProgWatch(t *testing.T) {
	require.Root(t)
	cmd := bperf("prog", "watch", "--json")
	stdout, stderr := startWatching(t, cmd)
	names := make(map[uint32]string)
	printed := make(chan []byte)
	go func() {
		all, err := io.ReadAll(stdout)
		if err != nil {
			t.Error(err)
		}
		printed <- all
	}()
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	context := []btf.FuncParam{{Name: "context", Type: &btf.Pointer{Target: &btf.Void{}}}}
	n := require.ManyPrograms()
	const withBTF = 10 // one program in ten
	var pace require.Pace
	for i := range n {
		name := fmt.Sprint("bperf_test_", i)
		code := asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
		if i%withBTF == 0 {
			name = fmt.Sprint("bperf_test_of_what_lives_for_a_moment_", i)
			code[0] = btf.WithFuncMetadata(code[0].WithSymbol(name),
				&btf.Func{Name: name, Type: &btf.FuncProto{Return: number, Params: context}, Linkage: btf.GlobalFunc})
		}
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SocketFilter, License: "GPL", Instructions: code})
		if err != nil {
			t.Fatal(err)
		}
		names[idOf(t, prog)] = name
		prog.Close()
		pace.Closed(t)
	}
	cmd.Process.Signal(syscall.SIGINT)
	all := <-printed
	if rest, err := io.ReadAll(stderr); err != nil || len(rest) > 0 {
		t.Errorf("%v: %s", err, rest)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}

	type change struct {
		Event   string
		ID      uint32
		Name    string
		PID     int
		Program *struct{ UID *uint32 }
		Missed  string
		Lived   time.Duration `json:"lived_ns"`
	}
	loads, unloads := make(map[uint32]change), make(map[uint32]change)
	whole := 0
	for line := range strings.Lines(string(all)) {
		var c change
		unwrap(t, line, progWatchSchema, &c)
		if c.Event == "lost" {
			t.Errorf("lost: %s", line)
		}
		if names[c.ID] == "" {
			continue
		}
		switch c.Event {
		case "load":
			loads[c.ID] = c
		case "unload":
			unloads[c.ID] = c
			if loads[c.ID].ID == 0 {
				t.Errorf("program %d was unloaded before it was loaded", c.ID)
			}
		}
	}
	for id, name := range names {
		l, u := loads[id], unloads[id]
		if l.Name != name || u.Name != name || l.PID != os.Getpid() || u.Lived <= 0 {
			t.Errorf("program %d, %s: load %+v, unload %+v", id, name, l, u)
		}
		if read := l.Program != nil && l.Program.UID != nil && *l.Program.UID == 0; read != (l.Missed == "") {
			t.Errorf("program %d, %s: %+v", id, name, l)
		} else if read {
			whole++
		}
	}
	if len(names) != n {
		t.Errorf("%d IDs of %d programs", len(names), n)
	}
	t.Logf("%d of %d programs were read whole, the others were gone before", whole, n)
}

// TestProgWatchText watches a bperf session, whose programs have source lines, and checks that it ends when its output has no reader.
func TestProgWatchText(t *testing.T) {
	require.AnyArch(t)
	p := newPlace(t)
	cmd := bperf("prog", "watch")
	stdout, stderr := startWatching(t, cmd)
	end, pid := p.session(t, "-e", "cpu-clock", "-t", fmt.Sprint(os.Getpid()))
	lines := bufio.NewReader(stdout)
	var text string
	await := func(pattern string, isLast func(line string) bool) (id string) {
		for expression := regexp.MustCompile(pattern); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("%v after\n%s", err, text)
			}
			if strings.Contains(line, "  lost  ") {
				t.Fatalf("records of loads were lost: %s", line)
			}
			text += line
			if !isLast(line) { // matching all text for each line takes too long
				continue
			}
			if found := expression.FindStringSubmatch(text); found != nil {
				return found[1]
			}
		}
	}
	id := await(fmt.Sprintf(`(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}  load +(\d+)  raw_tracepoint  on_free +[0-9a-f]{16}\n`+
		` +loaded by    \w+ \(%d\), user root\n +functions    on_free \(.*counters\.bpf\.c:\d+\)\n +maps +.*tasks \(\d+\).*\n`+
		` +bytes +\d+ translated, \d+ JITed, \d+ locked\n`, pid), func(line string) bool { return strings.HasPrefix(line, "       bytes ") })
	end(syscall.SIGINT)
	await(`  unload +(`+id+`)  raw_tracepoint  on_free +[0-9a-f]{16}  lived \d`, func(line string) bool { return strings.Contains(line, "  unload ") })
	stdout.Close()
	if rest, err := io.ReadAll(stderr); err != nil || len(rest) > 0 {
		t.Errorf("%v: %s", err, rest)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestProgWatchUnprivileged runs as nobody.
func TestProgWatchUnprivileged(t *testing.T) {
	cmd := newPlace(t).bperf("prog", "watch")
	cmd.Env = append(cmd.Env, userEnv+"=65534")
	want := result{status: 1, stderr: "Error: look for BPF programs: operation not permitted. Run as root: BPF programs are shown to root, " +
		"or to a user with CAP_SYS_ADMIN (to find them by ID) and CAP_BPF\n"}
	if got := run(t, cmd); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

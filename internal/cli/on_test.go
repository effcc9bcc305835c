package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/serve/remote"
	"github.com/bperf/bperf/test/require"
)

// TestOnFlags checks that each flag that nodes allow is one of the command, and that both agree on whether it needs a value.
func TestOnFlags(t *testing.T) {
	require.NoKernel(t)
	root := newRootCommand("bperf", nil)
	for _, name := range remote.Commands() {
		cmd, rest, err := root.Find(strings.Fields(name))
		if err != nil || len(rest) > 0 {
			t.Fatalf("%s: %v, %v", name, rest, err)
		}
		if cmd.Flags().Lookup("on") == nil {
			t.Errorf("%s has no --on", name)
		}
		for flag, bare := range remote.Flags(name) {
			f := cmd.Flags().Lookup(flag)
			if f == nil {
				t.Errorf("%s has no --%s", name, flag)
			} else if bare != (f.NoOptDefVal != "") {
				t.Errorf("%s: --%s may be without a value: %v in the list, value %q", name, flag, bare, f.NoOptDefVal)
			}
		}
	}
}

func TestOnErrors(t *testing.T) {
	require.NoKernel(t)
	empty := filepath.Join(t.TempDir(), "nodes")
	if err := os.WriteFile(empty, []byte("# none\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args   string
		status int
		want   string
	}{
		{"stat --on http://node", statusBadOption, "http:// is for loopback addresses only"},
		{"stat --on node,https://node:9465", statusBadOption, "two nodes node"},
		{"stat --on-file " + empty, statusBadOption, "there are 0 nodes"},
		{"stat --on-file /nosuch", statusBadOption, "/nosuch"},
		{"stat --on node --on-cert x", statusBadOption, "needs its key"},
		{"stat --on node --on-tls-ca /dev/null", statusBadOption, "no certificate"},
		{"stat --on-key x", statusBadCombination, "--on-key needs --on"},
		{"stat --on node true", statusBadCombination, "true: a session on another node starts no command"},
		{"record --on node -- true", statusBadCombination, "starts no command"},
		{"profile --on node --format nosuch", statusBadOption, "--format nosuch"},
		{"stat --on unix:/nosuch", 1, "/nosuch"},
		{"record --on unix:/nosuch", statusFailed, "/nosuch"},
	} {
		got := runHere(t, strings.Fields(test.args)...)
		if got.status != test.status || !strings.Contains(got.stderr, test.want) {
			t.Errorf("%s: status %d\n%s", test.args, got.status, got.stderr)
		}
	}
}

func TestLineWriter(t *testing.T) {
	require.NoKernel(t)
	var got bytes.Buffer
	w := &lineWriter{to: &got, lines: new(sync.Mutex), prefix: "a: "}
	for _, part := range []string{"one\ntw", "o\n", "\n\x1b[2J", strings.Repeat("x", maxLine), "y\nlast"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	w.end()
	want := "a: one\na: two\na:\na: " + printable.Lines("\x1b[2J") + strings.Repeat("x", maxLine) + "\na: y\na: last\n"
	if got.String() != want || strings.Contains(want, "\x1b") {
		t.Errorf("%.200q", got.String())
	}
}

// startNode starts bperf serve and returns the address of another of its sockets, too.
func startNode(t *testing.T, config string) (*daemon, string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "bperf.yml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	address := "unix:" + filepath.Join(dir, "s")
	return startServe(t, "--config", path, "--listen", address, "--listen", address+"2"), address
}

func TestOn(t *testing.T) {
	require.NoKernel(t)
	require.Root(t)
	d, node := startNode(t, "sessions: {longest: 1m}\n")
	dir := t.TempDir()
	recording, counts, graph := filepath.Join(dir, "perf.data"), filepath.Join(dir, "counts"), filepath.Join(dir, "x.svg")
	for _, test := range []struct {
		args           string
		status         int
		stdout, stderr string // parts of it
	}{
		{"stat -a -e page-faults --timeout 100 -x,", 0, "", ",page-faults,"},
		{"stat -a -e page-faults -I 50 --interval-count 3 -j -o " + counts, 0, "", ""},
		{"record -e cpu-clock -a -F 99 --timeout 500 -o " + recording, 0, "", ""},
		{"profile -e cpu-clock -a --timeout 300 --format json", 0, `"cpu-clock"`, ""},
		{"profile -e cpu-clock -a --timeout 300 -o " + graph, 0, "", ""},
		{"prog list --json type:raw_tracepoint", 0, `"programs"`, ""},
		{"top --once", 0, "BPF programs", ""},
		{"top --once --by function -g -e cpu-clock -F 999 -C 0", 0, "samples", ""},
		{"stat --pre true", 1, "", "--pre is not possible in a session from afar"},
		{"stat --timeout 60001", 1, "", "the longest session of this node is 1m0s"},
		{"stat -e nosuch --timeout 100", 129, "", "nosuch"},
		{"record --prog x.o -o " + recording, statusFailed, "", "--prog is not possible"},
	} {
		args := strings.Fields(test.args)
		got := run(t, bperf(append(args, "--on", node)...))
		if got.status != test.status || !strings.Contains(got.stdout, test.stdout) || !strings.Contains(got.stderr, test.stderr) {
			t.Errorf("%s: status %d\n%.2000s\n%s", test.args, got.status, got.stdout, got.stderr)
		}
	}
	if got := run(t, bperf("script", "-i", recording)); got.status != 0 || !strings.Contains(got.stdout, "cpu-clock") {
		t.Errorf("script of the recording: status %d\n%.1000s\n%s", got.status, got.stdout, got.stderr)
	}
	for file, want := range map[string]string{counts: `"page-faults"`, graph: "<svg"} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v\n%.300s", file, err, text)
		}
	}
	if _, err := os.Stat(recording + ".old"); err == nil {
		t.Error("a refused session replaced the recording")
	}
	nodes := filepath.Join(dir, "nodes")
	if err := os.WriteFile(nodes, []byte(node+"2 # the same\nunix:/nosuch\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run(t, bperf("stat", "-a", "-e", "page-faults", "--timeout", "100", "-x,", "--on", node, "--on-file", nodes))
	name := strings.TrimPrefix(node, "unix:")
	if got.status != 1 || !strings.Contains(got.stderr, "\n/nosuch: Error: ") && !strings.HasPrefix(got.stderr, "/nosuch: Error: ") {
		t.Errorf("a node that is not there: status %d\n%s", got.status, got.stderr)
	}
	for _, n := range []string{name, name + "2"} {
		if !strings.Contains(got.stderr, n+": ") || !strings.Contains(got.stderr, ",page-faults,") {
			t.Errorf("no line of %s in\n%s", n, got.stderr)
		}
	}
	got = run(t, bperf("stat", "-a", "-e", "page-faults,cpu-clock", "--timeout", "100", "--on", node+","+node+"2"))
	lines := strings.Split(got.stderr, "\n")
	if got.status != 0 || len(lines) < 5 || !strings.HasPrefix(lines[1], "node ") || !strings.HasPrefix(lines[2], name+" ") ||
		!strings.HasPrefix(lines[3], name+"2 ") || !strings.HasPrefix(lines[4], "total ") {
		t.Errorf("a table of two nodes: status %d\n%s", got.status, got.stderr)
	}
	got = run(t, bperf("top", "--by", "process", "-n", "2", "-d", "0.1", "--on", node+","+node+"2,unix:/nosuch"))
	tables := strings.Split(got.stdout, "\n\n")
	if got.status != 1 || len(tables) != 2 || !strings.Contains(got.stderr, "/nosuch: Error: ") {
		t.Errorf("tables of two nodes, and one that is not there: status %d\n%s\n%s", got.status, got.stdout, got.stderr)
	}
	for _, table := range tables {
		for _, want := range []string{"\n" + name + "2: ", "\nnode ", "\n" + name + " ", "\n" + name + "2 ", "\n/nosuch: "} {
			if !strings.Contains("\n"+table, want) {
				t.Errorf("%q is missing in\n%s", want, table)
			}
		}
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if log := d.log.String(); !strings.Contains(log, `msg="session ended" client=unix command=record`) {
		t.Errorf("the log has no audit of a recording:\n%s", log)
	}
}

// follow starts bperf stat -I on the node and waits for its first row. It tries again while an earlier session ends.
func follow(t *testing.T, node string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	for {
		cmd := bperf("stat", "-a", "-e", "page-faults", "-I", "50", "--summary", "-x,", "--on", node)
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() }) // fails after its end
		rows := bufio.NewScanner(stderr)
		for rows.Scan() {
			if strings.Contains(rows.Text(), ",page-faults,") {
				return cmd, rows
			}
			if !strings.Contains(rows.Text(), "no room for another session") {
				t.Fatal(rows.Text())
			}
		}
		cmd.Wait() // with an error: the session was refused
	}
}

// childrenOf returns the processes that a process started.
func childrenOf(t *testing.T, parent int) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var children []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		var pid, of int
		var state string
		fmt.Sscan(string(text), &pid)
		fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &state, &of)
		if of == parent {
			children = append(children, pid)
		}
	}
	return children
}

// waitGone waits until a process is gone.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	for { // the test's time-out ends the loop
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(text), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestOnEnds checks how sessions end with their client, with their node, and at a limit of their number.
func TestOnEnds(t *testing.T) {
	require.NoKernel(t)
	require.Root(t)
	d, node := startNode(t, "sessions: {at_once: 1}\n")
	session := func() (*exec.Cmd, *bufio.Scanner, int) {
		t.Helper()
		cmd, rows := follow(t, node)
		children := childrenOf(t, d.cmd.Process.Pid)
		if len(children) != 1 {
			t.Fatalf("the daemon has the children %v", children)
		}
		return cmd, rows, children[0]
	}
	rest := func(rows *bufio.Scanner) (text string) {
		for rows.Scan() {
			text += rows.Text() + "\n"
		}
		return text
	}
	cmd, rows, child := session()
	if got := run(t, bperf("stat", "--timeout", "100", "--on", node)); got.status != 1 || !strings.Contains(got.stderr, "no room for another session") {
		t.Errorf("a session above the limit: status %d\n%s", got.status, got.stderr)
	}
	cmd.Process.Signal(syscall.SIGINT)
	if text := rest(rows); !strings.Contains(text, "summary,") {
		t.Errorf("after SIGINT:\n%s", text)
	}
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 128+int(syscall.SIGINT) {
		t.Errorf("after SIGINT: status %d", got)
	}
	waitGone(t, child)

	cmd, _, child = session()
	cmd.Process.Kill()
	cmd.Wait()
	waitGone(t, child)

	_, rows, child = session()
	stopped := make(chan error, 1)
	go func() { stopped <- d.stop(syscall.SIGTERM) }()
	if text := rest(rows); !strings.Contains(text, "summary,") || !strings.Contains(text, "The session ended: bperf serve ends on that node") {
		t.Errorf("after the end of the daemon:\n%s", text)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	waitGone(t, child)
	if log := d.log.String(); !strings.Contains(log, `reason="the client went away"`) {
		t.Errorf("the log does not say that a client went away:\n%s", log)
	}

	d, node = startNode(t, "sessions: {at_once: 1}\n")
	_, rows, child = session()
	d.stop(syscall.SIGKILL)
	rest(rows)
	waitGone(t, child)
}

func TestOnRole(t *testing.T) {
	require.NoKernel(t)
	require.Root(t)
	_, node := startNode(t, "roles: {unix: [metrics, read]}\n")
	if got := run(t, bperf("stat", "--timeout", "100", "--on", node)); got.status != 1 || !strings.Contains(got.stderr, "need the role record") {
		t.Errorf("status %d\n%s", got.status, got.stderr)
	}
}

// TestServeCapabilities checks that no thread of the daemon or of a session has capabilities that they do not need.
func TestServeCapabilities(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	// The numbers are those of linux/capability.h.
	const needed = 1<<2 | 1<<14 | 1<<19 | 1<<21 | 1<<23 | 1<<24 | 1<<34 | 1<<38 | 1<<39 | 1<<40
	d, node := startNode(t, "")
	follow(t, node)
	want := capabilities(t, os.Getpid()) & needed
	had := make(map[string]uint64)
	had["daemon"] = capabilities(t, d.cmd.Process.Pid)
	for _, child := range childrenOf(t, d.cmd.Process.Pid) {
		had["session"] = capabilities(t, child)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(d.log.String(), "built with cgo") {
		t.Skip("needs bperf built without cgo, which the race detector takes")
	}
	for _, process := range []string{"daemon", "session"} {
		if had[process] != want {
			t.Errorf("the %s has the capabilities %x, want %x", process, had[process], want)
		}
	}
}

// capabilities returns the capabilities that some thread of a process has in one of its sets.
func capabilities(t *testing.T, pid int) (all uint64) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("process %d has no threads: %v", pid, err)
	}
	for _, file := range threads {
		status, err := os.ReadFile(file)
		if err != nil {
			continue // the thread ended
		}
		for _, set := range []string{"CapEff", "CapPrm", "CapInh"} {
			var value uint64
			_, after, _ := strings.Cut(string(status), "\n"+set+":")
			if _, err := fmt.Sscanf(after, "%x", &value); err != nil {
				t.Fatalf("%s in %s: %v", set, file, err)
			}
			all |= value
		}
	}
	return all
}

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/perffile"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// hostile moves the cursor, beeps, starts a line that looks like bperf's, and contains DEL and a control character of ISO 6429 beyond
// ASCII.
const hostile = "x\x1b[2J\a\r\nrow\u009b31m\x7f"

// writeHostile writes a recording in which every name is hostile.
func writeHostile(t *testing.T) string {
	return perffile.Write(t, []*perfdata.Event{{Name: "cycles" + hostile, IDs: []uint64{7}, Attr: perfdata.Attr{
		SamplePeriod: 1000, Flags: perfdata.AttrSampleIDAll, SampleType: perfdata.SampleIdentifier | perfdata.SampleIP | perfdata.SampleTID |
			perfdata.SampleTime | perfdata.SampleCallchain | perfdata.SamplePeriod | perfdata.SampleCgroup}}}, nil, func(w *perfdata.Writer) {
		const user, kernel, program = 0x7f0000000000, 0xffffffff81000000, 0xffffffffc0001000
		id := perfdata.SampleID{PID: 100, TID: 100, Time: 1e9, ID: 7}
		w.Write(perfdata.MiscUser, &perfdata.Comm{SampleID: id, PID: 100, TID: 100, Comm: hostile})
		w.Write(perfdata.MiscUser, &perfdata.Cgroup{SampleID: id, ID: 5, Path: "/" + hostile})
		w.Write(perfdata.MiscUser, &perfdata.Mmap2{SampleID: id, PID: 100, TID: 100, Start: user, Length: 1 << 20, Protection: 5, Flags: 2,
			Filename: "/nowhere/" + hostile})
		w.Write(perfdata.MiscKernel, &perfdata.KSymbol{SampleID: id, Addr: program, Size: 4096, Type: 1, Name: "bpf_prog_0123456789abcdef_" + hostile})
		w.Write(perfdata.MiscKernel, &perfdata.BPFEvent{SampleID: id, Type: 1, ID: 1})
		for range 4 {
			id.Time += 1000
			w.Write(perfdata.MiscUser, &perfdata.Sample{SampleID: id, IP: user + 16, Period: 1000, Cgroup: 5, Callchain: []uint64{perfdata.ContextUser, user + 16}})
			w.Write(perfdata.MiscKernel, &perfdata.Sample{SampleID: id, IP: program + 8, Period: 1000, Cgroup: 5,
				Callchain: []uint64{perfdata.ContextKernel, program + 8, kernel, perfdata.ContextUser, user + 16}})
		}
	})
}

// wantClean fails if text contains a control character, or without breaks a line that starts in a name.
func wantClean(t *testing.T, name, text string, breaks bool) {
	t.Helper()
	i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) })
	if i >= 0 {
		t.Errorf("%s has a control character: %q", name, text[max(i-40, 0):min(i+10, len(text))])
	}
	if !breaks && strings.Contains(text, "\nrow") {
		t.Errorf("in %s a name begins a line:\n%s", name, text)
	}
}

// TestHostileNames prints a recording with hostile names in every text format of every command that reads recordings.
func TestHostileNames(t *testing.T) {
	require.NoKernel(t)
	recording := writeHostile(t)
	commands := [][]string{
		{"script"}, {"script", "-G", "-F", "+cgroup,+srcline"}, {"script", "--json"}, {"script", "--header"},
		{"script", "--show-mmap-events", "--show-task-events", "--show-bpf-events", "--show-cgroup-events"},
		{"script", "-D"}, {"script", "--dump-unsorted-raw-trace", "-F", "comm"}, {"script", "-F", "ip,disasm,srcline", "--full-source-path"},
		{"report", "-D"}, {"report", "--header-only", "-I"}, {"report", "-s", "srcfile", "--full-source-path"},
		{"annotate", "--format", "text"}, {"annotate", "--format", "json"}, {"annotate", "--format", "html"},
		{"report", "--header-only"}, {"report", "--stats"}, {"report", "--mmaps"}, {"report", "-H"}, {"report", "--sort", "comm,dso,sym,cgroup"}, {"report", "--children", "-g", "graph"},
		{"evlist"}, {"evlist", "-v"}, {"evlist", "-g"}, {"buildid-list"},
	}
	for _, f := range reportFormats {
		if !f.binary {
			commands = append(commands, []string{"report", "--format", f.name})
		}
	}
	for _, args := range commands {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			var out, stderr bytes.Buffer
			args := append(slices.Clone(args), "-i", recording)
			root := newRootCommand("bperf", args)
			root.SetArgs(args)
			root.SetOut(&out)
			root.SetErr(&stderr)
			if err := root.Execute(); err != nil && args[0] != "annotate" { // annotate fails: the program's code is not in the recording
				t.Fatal(err)
			}
			wantClean(t, "output", out.String(), slices.Contains(args, "html")) // a line break means nothing in HTML
			wantClean(t, "standard error", stderr.String(), false)
			if slices.Contains(args, "--json") {
				var sample struct{ Comm string }
				if err := json.NewDecoder(&out).Decode(&sample); err != nil || sample.Comm != hostile {
					t.Errorf("the comm is %q, want %q (%v)", sample.Comm, hostile, err)
				}
			}
		})
	}
}

// TestHostileNamesLive gives hostile names to a process, its file, its cgroup and the holder of a BPF program, and runs every command that
// measures or lists.
func TestHostileNamesLive(t *testing.T) {
	require.NoKernel(t) // names are printed in the same way on all kernels
	require.HostileNames(t)
	place := newPlace(t)
	setComm(t, hostile) // of the holder
	_, id := loadEmpty(t, "bperf_hostile")
	dir := cgroups(t, 1)[0]
	group := filepath.Join(dir, strings.ReplaceAll(hostile, "\n", "")) // the kernel refuses line breaks
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eventually(t, "its process has ended", func() bool { return os.Remove(group) == nil }) })
	file := filepath.Join(t.TempDir(), hostile)
	if err := os.Rename(program.Program{Body: program.Touch, Times: 10}.Write(t), file); err != nil {
		t.Fatal(err)
	}
	pid := startHostile(t, group)
	place.session(t, "-e", "cpu-clock", "-t", pid)

	recording, pprof := writeHostile(t), filepath.Join(t.TempDir(), "pprof")
	if got := run(t, bperf("report", "-i", recording, "--format", "pprof", "-o", pprof)); got.status != 0 {
		t.Fatal(got.stderr)
	}
	switches := func(args ...string) []string {
		return append(args, "-e", "context-switches", "-c", "1", "--timeout", "100")
	}
	matching := "(?s)" + filepath.Base(dir) + "/.*"
	commands := [][]string{
		{"counters"}, {"counters", "--json"},
		{"top", "--by", "process", "--once", "-d", "0.1"}, {"top", "--by", "cgroup", "--once", "-d", "0.1"},
		{"top", "--by", "thread", "--once", "-d", "0.1"},
		{"prog", "list"}, {"prog", "list", "--json"}, {"prog", "show", fmt.Sprint(id)}, {"prog", "show", "--json", fmt.Sprint(id)}, {"prog", "list", "cgroup:" + group},
		{"diff", recording, recording}, {"diff", pprof, recording}, {"report", "-i", recording, "--diff", pprof}, {"list", hostile}, {"config", hostile},
		switches("profile", "-a", "--by", "comm,cgroup,container", "--format", "csv"), switches("profile", "-a", "--by", "comm,cgroup", "-I", "0.1", "--format", "json"),
		{"profile", "-p", pid, "--off-cpu", "--by", "comm,waker", "--timeout", "100"}, {"profile", "-e", "page-faults", "-c", "1", file},
	}
	for _, output := range [][]string{nil, {"-x", ","}, {"-j"}} {
		for _, args := range [][]string{{"-p", pid, "--per-thread", "--timeout", "10"}, {"-p", pid, "--per-thread", "-I", "10", "--interval-count", "2"},
			{"-a", "--for-each-cgroup", matching, "--timeout", "10"}} {
			commands = append(commands, slices.Concat([]string{"stat", "-e", "task-clock"}, output, args))
		}
	}
	commands = append(commands, []string{"stat", "-e", "task-clock", file}, []string{"stat", "-e", "task-clock", "-r", "2", file})
	for _, f := range reportFormats {
		if !f.binary {
			commands = append(commands, switches("profile", "-p", pid, "--format", f.name))
		}
	}
	for _, args := range commands {
		line := strings.Join(args, " ")
		eventually(t, fmt.Sprintf("%q shows a hostile name", line), func() bool { // a busy machine may not run the process while it is measured
			got := run(t, place.bperf(args...))
			wantClean(t, line+": output", got.stdout, strings.Contains(line, "html"))
			wantClean(t, line+": standard error", got.stderr, false)
			return strings.Contains(got.stdout+got.stderr, "[2J")
		})
	}
}

// setComm sets the name of this process for the rest of the test.
func setComm(t *testing.T, name string) {
	file := fmt.Sprintf("/proc/self/task/%d/comm", os.Getpid())
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set := func(name []byte) {
		if err := os.WriteFile(file, name, 0); err != nil {
			t.Error(err)
		}
	}
	set([]byte(name))
	t.Cleanup(func() { set(bytes.TrimSuffix(before, []byte("\n"))) })
}

// startHostile starts a process with a hostile file name and comm, which sleeps and wakes up in a cgroup, and returns its PID.
func startHostile(t *testing.T, group string) string {
	file := filepath.Join(t.TempDir(), hostile)
	if err := os.Rename(program.Program{Body: program.Sleep, Times: 1 << 40, Wait: true}.Write(t), file); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(file)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	pid := fmt.Sprint(cmd.Process.Pid)
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(pid), 0); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	return pid
}

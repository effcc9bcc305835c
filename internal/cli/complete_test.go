package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/test/bpfprogram"
	"github.com/bperf/bperf/test/require"
)

// completions returns the words that bperf offers to a shell, without their descriptions, and the directive behind them.
func completions(t *testing.T, args ...string) []string {
	t.Helper()
	got := runHere(t, append([]string{"__complete"}, args...)...)
	if got.status != 0 || !strings.HasPrefix(got.stderr, "Completion ended with directive: ") {
		t.Fatalf("%q: %+v", args, got)
	}
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	for i, line := range lines {
		lines[i], _, _ = strings.Cut(line, "\t")
	}
	return lines
}

// Directives of cobra, as it prints them.
const (
	oneWord = ":4" // no files
	ofList  = ":6" // no files, and no space
)

// TestCompleteValues completes values as a shell asks for it.
func TestCompleteValues(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, content := range map[string]string{
		"one.data": "PERFILE2", "other.txt": "text", ".hidden.data": "PERFILE2", "un$(safe).data": "PERFILE2", "sub/two.data": "PERFILE2",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo("pipe.data", 0o666); err != nil { // nobody writes to it
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string // all words, with blanks between them
	}{
		{[]string{"stat", "-e", "page-fa"}, "page-faults " + ofList},
		{[]string{"stat", "-e", "cs,{page-faults,minor"}, "cs,{page-faults,minor-faults " + ofList},
		{[]string{"stat", "--event=duration"}, "duration_time " + ofList},
		{[]string{"stat", "-e", "cs", "-e", "page-faults:"}, ofList},
		{[]string{"stat", "-e", "cpu/event=1,um"}, ofList},
		{[]string{"stat", "-M", "CPUs_u"}, "CPUs_utilized " + ofList},
		{[]string{"report", "-s", "comm,pare"}, "comm,parent " + ofList},
		{[]string{"report", "--sort", "+tgi"}, "+tgid " + ofList},
		{[]string{"report", "-F", "overhead_c"}, "overhead_children " + ofList},
		{[]string{"report", "-g", "fract"}, "fractal " + oneWord},
		{[]string{"report", "--format", "f"}, "folded flamegraph firefox " + oneWord},
		{[]string{"report", "--no-children", "-i", ""}, "one.data sub/ " + oneWord},
		{[]string{"report", "-i", "su"}, "sub/ " + ofList},
		{[]string{"report", "sub/"}, "sub/two.data " + oneWord},
		{[]string{"report", "-i", "other"}, ":0"},
		{[]string{"diff", "one.data", "sub/"}, "sub/two.data " + oneWord},
		{[]string{"script", "-F", "comm,+srcl"}, "comm,+srcline " + ofList},
		{[]string{"profile", "--format", "speed"}, "speedscope " + oneWord},
		{[]string{"profile", "--by", "stack,cont"}, "stack,container " + ofList},
		{[]string{"prog", "list", "ta"}, "tag: " + ofList},
		{[]string{"prog", "list", "--sort", "ru"}, "runs " + oneWord},
		{[]string{"stat", "-b", "all,pi"}, "all,pinned: all,pid: " + ofList},
		{[]string{"top", "--sort", "sw"}, "switches " + oneWord},
		{[]string{"record", "-j", "any_c"}, "any_call " + ofList},
		{[]string{"record", "-o", "x"}, ":0"},
		{[]string{"record", "-F", ""}, oneWord},
		{[]string{"report", "--symfs", ""}, ":16"},
		{[]string{"annotate", "-M", "in"}, "intel " + oneWord},
		{[]string{"list", "--unit", "soft"}, "software " + oneWord},
		{[]string{"list", "metricg"}, "metricgroup " + oneWord},
		{[]string{"help", "sel"}, "selectors " + oneWord},
		{[]string{"help", "prog", "st"}, "stats " + oneWord},
		{[]string{"doctor", ""}, oneWord},
		{[]string{"stat", "--", "x"}, ":0"},
	} {
		if got := strings.Join(completions(t, tt.args...), " "); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.args, got, tt.want)
		}
	}
}

// TestCompleteEveryValue wants an answer for the value of each flag, also without the rights of root, and no file where there are none.
func TestCompleteEveryValue(t *testing.T) {
	require.NoKernel(t)
	for _, cmd := range newRootCommand("bperf", nil).Commands() {
		if cmd.Hidden || isTopic(cmd) {
			continue
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || isSwitch(f) {
				return
			}
			got := completions(t, cmd.Name(), "--"+f.Name+"=")
			value, _ := pflag.UnquoteUsage(f)
			files := slices.Contains([]string{"FILE", "DIR", "PATH", "FILE.o", "COMMAND"}, value)
			if directive := got[len(got)-1]; !files && directive != oneWord && directive != ofList {
				t.Errorf("%s --%s %s: %q", cmd.Name(), f.Name, value, got)
			}
		})
	}
}

// TestCompleteUnprivileged completes what needs root to see without it.
func TestCompleteUnprivileged(t *testing.T) {
	require.AnyArch(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"top", "name:"}, ofList + "\n"},
		{[]string{"stat", "-e", "page-fa"}, "page-faults\t"},
		{[]string{"stat", "-e", "sched:sched_swi"}, ofList + "\n"},
		{[]string{"stat", "-G", ""}, ofList + "\n"},
	} {
		got := run(t, nobody(t, bperf(append([]string{"__complete"}, tt.args...)...)))
		if got.status != 0 || !strings.Contains(got.stdout, tt.want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%q: %+v", tt.args, got)
		}
	}
}

// TestCompleteMachine completes names of what there is on this machine.
func TestCompleteMachine(t *testing.T) {
	require.Tracefs(t)
	for _, tt := range []struct{ event, want string }{{"sched:sched_switc", "sched:sched_switch"}, {"sche", "sched:"}} {
		if got := completions(t, "stat", "-e", tt.event); !slices.Contains(got, tt.want) {
			t.Errorf("%s: %q", tt.event, got)
		}
	}
	p, err := bpfprogram.Load()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	for word, want := range map[string]string{"name:" + info.Name[:2]: "name:" + info.Name, "type:s": "type:socket_filter", "tag:": "tag:" + info.Tag, fmt.Sprint(id): fmt.Sprint(id)} {
		if got := completions(t, "prog", "show", word); !slices.Contains(got, want) {
			t.Errorf("%s: %q, want %s", word, got, want)
		}
	}
}

// TestCompleteCgroups completes the name of a cgroup, level by level.
func TestCompleteCgroups(t *testing.T) {
	group := filepath.Base(cgroups(t, 1)[0])
	for _, tt := range []struct{ word, want string }{{group[:len(group)-1], group}, {"cs," + group[:len(group)-1], "cs," + group}} {
		if got := completions(t, "stat", "-G", tt.word); !slices.Contains(got, tt.want) {
			t.Errorf("%s: %q", tt.word, got)
		}
	}
}

// TestCompleteInShells completes words in shells on a terminal, and runs the completed lines with a program that prints its arguments.
func TestCompleteInShells(t *testing.T) {
	require.Root(t)
	const scripts = "/usr/share/bash-completion/bash_completion"
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := filepath.Abs(recordings)
	if err != nil {
		t.Fatal(err)
	}
	p, err := bpfprogram.Load()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, shell := range []struct {
		name  string
		args  []string
		setup string
	}{
		{"bash", []string{"--norc", "--noprofile", "-i"}, "source " + scripts + "; source completion; PS1='rea''dy> '\r"},
		{"zsh", []string{"-f", "-i"}, "fpath=($PWD/functions $fpath); autoload -U compinit; compinit -u -D; PS1='rea''dy> '\r"},
		{"fish", []string{"--no-config", "-i"}, "source completion; function fish_prompt; echo rea'dy> '; end\r"},
	} {
		t.Run(shell.name, func(t *testing.T) {
			require.Tools(t, shell.name, "bash", scripts)
			dir := t.TempDir()
			program := fmt.Sprintf("#!/bin/bash\ncase $1 in __complete*) BPERF_TEST_MAIN=1 exec -a bperf %s \"$@\";; esac\necho \"args<$*>\"\n", self)
			completion := run(t, bperf("completion", shell.name)).stdout
			for name, content := range map[string]string{"bin/bperf": program, "completion": completion, "functions/_bperf": completion} {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o777); err != nil {
					t.Fatal(err)
				}
			}
			term := newTerminal(t, 200, 50)
			cmd := exec.Command(shell.name, shell.args...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "HOME="+dir, "LC_ALL=C.UTF-8")
			term.start(t, cmd)
			term.press(t, shell.setup)
			term.await(t, `ready> `)
			for _, tt := range []struct{ typed, want string }{
				{"stat -e page-fa", "stat -e page-faults"},
				{"stat -e cs,page-fa", "stat -e cs,page-faults"},
				{"stat -M CPUs_u", "stat -M CPUs_utilized"},
				{"report --sort comm,pare", "report --sort comm,parent"},
				{"report --format=flameg", "report --format=flamegraph"},
				{"report -i " + data + "/callch", "report -i " + data + "/callchain.data"},
				{"prog show name:" + bpfprogram.Spin[:3], "prog show name:" + bpfprogram.Spin},
				{"top --by proce", "top --by process"},
			} {
				term.press(t, "bperf "+tt.typed+"\t\r")
				term.await(t, `(?s)args<`+tt.want+` ?>.*ready> `)
			}
			term.press(t, "exit\r")
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

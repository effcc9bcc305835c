package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/require"
)

// commandFlags returns the flags of a command and of its subcommands.
func commandFlags(t *testing.T, name string) []*pflag.FlagSet {
	t.Helper()
	cmd, rest, err := newRootCommand("bperf", nil).Find([]string{name})
	if err != nil || len(rest) > 0 {
		t.Fatalf("bperf has no command %s", name)
	}
	all := []*pflag.FlagSet{cmd.Flags()}
	for _, sub := range cmd.Commands() {
		all = append(all, sub.Flags())
	}
	return all
}

// findOption returns the flag for a name as perf writes it: --NAME or -L. A command without --no-NAME has the switch NAME.
func findOption(sets []*pflag.FlagSet, name string) *pflag.Flag {
	for _, flags := range sets {
		if long, ok := strings.CutPrefix(name, "--"); ok {
			if f, _, err := findFlag(flags, long); err == nil && f != nil && strings.HasSuffix(long, f.Name) {
				return f
			}
		} else if f := flags.ShorthandLookup(name[1:]); f != nil {
			return f
		}
	}
	return nil
}

// TestPerfOptions makes docs/options.md: what bperf does with each option in perf's manual pages.
func TestPerfOptions(t *testing.T) {
	require.NoKernel(t)
	list, err := os.ReadFile("testdata/perf-options.txt")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../docs/options.md")
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(doc), "\n## ")
	of := ""
	for line := range strings.Lines(string(list)) {
		command, option, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if command != of {
			of = command
			text += fmt.Sprintf("\n## %s\n\n| option | bperf |\n|---|---|\n", command)
		}
		text += fmt.Sprintf("| `%s` | %s |\n", option, optionEffect(t, command, option))
	}
	golden.Compare(t, "../../docs/options.md", text)
}

// optionEffect says what a command of bperf does with an option that perf writes as -L, --NAME.
func optionEffect(t *testing.T, command, option string) string {
	sets := commandFlags(t, command)
	names := strings.Split(option, ", ")
	for _, name := range names {
		if findOption(sets, name) == nil {
			t.Errorf("bperf %s does not know %s of %s", command, name, option)
			return ""
		}
	}
	if o, ok := findOption(sets, names[len(names)-1]).Value.(*perfOption); ok {
		return fmt.Sprintf("%s: %s", o.does, o.why)
	}
	return "works"
}

// TestPerfBeginnings checks that each beginning of a name that means one option of perf means the same to bperf, which has more options.
func TestPerfBeginnings(t *testing.T) {
	require.NoKernel(t)
	list, err := os.ReadFile("testdata/perf-options.txt")
	if err != nil {
		t.Fatal(err)
	}
	// Options that perf 7.2 has and its manual pages do not.
	all := map[string][]string{"record": {"timestamp-filename"}, "report": {"addr2line-style"}, "annotate": {"insn-stat"}}
	for line := range strings.Lines(string(list)) {
		command, option, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for name := range strings.SplitSeq(option, ", ") {
			if long, ok := strings.CutPrefix(name, "--"); ok {
				all[command] = append(all[command], long, strings.TrimPrefix(long, "no-")) // of --no-NAME, there is --NAME
			}
		}
	}
	checked := 0
	for command, names := range all {
		sets := commandFlags(t, command)
		for _, name := range names {
			for n := 2; n < len(name); n++ {
				beginning := name[:n]
				if strings.HasPrefix("no-", beginning) || strings.HasPrefix(name, "no-") ||
					slices.ContainsFunc(names, func(other string) bool { return other != name && strings.HasPrefix(other, beginning) }) {
					continue
				}
				checked++
				if !slices.ContainsFunc(sets, func(flags *pflag.FlagSet) bool {
					f, off, err := findFlag(flags, beginning)
					full, fullOff, _ := findFlag(flags, name)
					whole := flags.Lookup(beginning) != nil // such as --sum of stat
					return whole || err == nil && f != nil && f == full && off == fullOff
				}) {
					_, _, err := findFlag(sets[0], beginning)
					t.Errorf("%s --%s is not --%s: %v", command, beginning, name, err)
				}
			}
		}
	}
	if checked < 1000 {
		t.Errorf("only %d beginnings", checked)
	}
}

// helpLine is an option in perf's help: a letter, a name, and what stands for its value.
var helpLine = regexp.MustCompile(`(?m)^    (-\S)?[, ]+(?:--([A-Za-z][-\w]*))?(\[=| <)?`)

// TestPerfHelp compares names, letters and whether there is a value with the help of the newest perf.
func TestPerfHelp(t *testing.T) {
	perf := require.NewestPerf(t)
	for _, command := range []string{"stat", "record", "report", "script", "annotate", "diff", "list", "evlist", "buildid-list"} {
		sets := commandFlags(t, command)
		help, _ := exec.Command(perf, command, "-h").CombinedOutput()
		found := 0
		for _, m := range helpLine.FindAllStringSubmatch(string(help), -1) {
			letter, name, value := m[1], m[2], m[3]
			if name == "" {
				continue
			}
			found++
			f := findOption(sets, "--"+name)
			switch {
			case f == nil:
				t.Errorf("bperf %s does not know --%s", command, name)
			case letter != "" && findOption(sets, letter) != f:
				t.Errorf("%s of bperf %s is not --%s", letter, command, name)
			case (value == "") != isSwitch(f) && f.NoOptDefVal == "":
				t.Errorf("bperf %s --%s: the value differs from that of perf", command, name)
			}
		}
		if found < 5 {
			t.Errorf("perf %s -h has %d options:\n%s", command, found, help)
		}
	}
}

func TestPerfOnly(t *testing.T) {
	require.NoKernel(t)
	for _, tt := range []struct {
		args   string
		status int
		stderr string
	}{
		{"report --gtk", statusBadOption, "Error: only perf has --gtk: bperf opens no windows\n"},
		{"report --itra=b", statusBadOption, "Error: only perf has --itrace: "},
		{"script -l", statusBadOption, "Error: only perf has --list: "},
		{"script flamegraph", statusBadOption, "Error: only perf has script flamegraph: "},
		{"script --show-mmap-events --no-itrace -f", 0, ""}, // as perf2bolt calls it
		{"report --no-gtk --tui -f --objdump x", 0, ""},
		{"annotate -mf --no-source -b none", statusFailed, "is in the selected functions"},
	} {
		args := append(strings.Fields(tt.args), "-i", filepath.Join(recordings, "callchain.data"))
		if got := runHere(t, args...); got.status != tt.status || !strings.Contains(got.stderr, tt.stderr) || tt.status == 0 && got.stdout == "" {
			t.Errorf("%s: %+v, want status %d and %q", tt.args, got, tt.status, tt.stderr)
		}
	}
}

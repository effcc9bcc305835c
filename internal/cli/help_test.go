package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/test/require"
)

// everyCommand calls do for each command with a help text.
func everyCommand(t *testing.T, do func(t *testing.T, cmd *cobra.Command)) {
	t.Helper()
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		t.Run(strings.ReplaceAll(cmd.CommandPath(), " ", "_"), func(t *testing.T) { do(t, cmd) })
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRootCommand("bperf", nil))
}

// TestPlaceholders wants the values of options named by what they mean, in capitals, and not by types of Go.
func TestPlaceholders(t *testing.T) {
	require.NoKernel(t)
	capital := regexp.MustCompile(`[A-Z]`)
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		cmd.InitDefaultHelpFlag()
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if strings.Contains(cmd.UsageString(), "--"+f.Name+" count") {
				t.Errorf("the help has a value of --%s", f.Name)
			}
			if f.Value.Type() == "count" {
				return
			}
			if name, usage := pflag.UnquoteUsage(f); !f.Hidden && name != "" && !capital.MatchString(name) {
				t.Errorf("the value of --%s is called %s: %s", f.Name, name, usage)
			}
			if len(f.Name) == 1 && strings.Contains(cmd.UsageString(), "--"+f.Name+" ") {
				t.Errorf("the help has --%s", f.Name)
			}
		})
	})
	if !slices.Contains(strings.Fields(runHere(t, "record", "--help").stdout), "-g") {
		t.Error("the help of record has no -g")
	}
}

// TestHelpWidth wants help that fits a terminal. The name of an option with its value may be wider than its column.
func TestHelpWidth(t *testing.T) {
	require.NoKernel(t)
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		var out strings.Builder
		cmd.SetOut(&out)
		if cmd.Parent() == nil || cmd.Parent().Name() != "completion" { // cobra's
			cmd.InitDefaultHelpFlag()
			if err := cmd.Help(); err != nil {
				t.Fatal(err)
			}
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	})
	const text = "one\ntwo\n\n  three\n" + "word "
	if got, want := wrapParagraphs(text), "one two\n\n  three\nword\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	long := strings.Repeat("word ", 14) + "end"
	want := "List:\n  name    " + strings.Repeat("word ", 13) + "word\n          end\n"
	if got := wrapLists("List:\n  name    " + long + "\n"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if example := "Examples:\n  bperf  " + long + "\n"; wrapLists(example) != example {
		t.Error("an example is wrapped")
	}
}

// TestExamples wants examples in the help of each command that does something, with options that it takes.
func TestExamples(t *testing.T) {
	require.NoKernel(t)
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		if cmd.Name() == "help" || cmd.Parent() != nil && cmd.Parent().Name() == "completion" || isTopic(cmd) {
			return // cobra's
		}
		if cmd.Example == "" && cmd.HasParent() && len(cmd.Commands()) == 0 {
			t.Error("its help has no example")
		}
		for line := range strings.Lines(cmd.Example) {
			args := firstCommand(t, line)
			if len(args) == 0 || args[0] != "bperf" {
				t.Fatalf("%q does not begin with bperf", line)
			}
			root := newRootCommand("bperf", nil)
			args, err := canonical(root, args[1:])
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			found, rest, err := root.Find(args)
			if err != nil || found.CommandPath() != cmd.CommandPath() {
				t.Fatalf("%s is an example of %s, %v", line, found.CommandPath(), err)
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	})
}

// TestTopics wants texts that fit a terminal, in the list of bperf help, with examples that bperf takes.
func TestTopics(t *testing.T) {
	require.NoKernel(t)
	overview := runHere(t, "help").stdout
	for name, want := range map[string]string{"events": "sched:sched_switch", "selectors": "pinned:PATH", "formats": "speedscope"} {
		got := runHere(t, "help", name)
		lines := strings.Split(got.stdout, "\n")
		if got.status != 0 || got.stderr != "" || !strings.Contains(got.stdout, want) || len(lines) > 60 {
			t.Errorf("%s: %d lines, %+v", name, len(lines), got)
		}
		for _, line := range lines {
			if len(line) > 80 {
				t.Errorf("%s: %d columns: %s", name, len(line), line)
			}
			if !strings.HasPrefix(line, "    bperf ") {
				continue
			}
			root := newRootCommand("bperf", nil)
			args, err := canonical(root, firstCommand(t, line)[1:])
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if cmd, rest, err := root.Find(args); err != nil || cmd.ParseFlags(rest) != nil {
				t.Errorf("%s: bperf does not take it: %v", line, err)
			}
		}
		if !regexp.MustCompile(`(?m)^  bperf ` + name + ` +\S`).MatchString(overview) {
			t.Errorf("bperf help does not list %s: %s", name, overview)
		}
	}
	for _, format := range formatNames(reportFormats) {
		if !strings.Contains(formatsTopic, format) {
			t.Errorf("formats: %s is missing", format)
		}
	}
	for _, kind := range bpfprog.SelectorKinds() {
		if !strings.Contains(selectorsTopic, "\n    "+kind+":") {
			t.Errorf("selectors: %s is missing", kind)
		}
	}
}

// firstCommand splits a line of a shell into the words of its first command: up to a pipe or a redirection.
func firstCommand(t *testing.T, line string) (words []string) {
	t.Helper()
	word, quoted, within := "", false, false
	for _, r := range strings.TrimSpace(line) + " " {
		switch {
		case r == '\'':
			quoted, within = !quoted, true
		case quoted:
			word += string(r)
		case r == ' ' && within:
			if word == "|" || word == ">" {
				return words
			}
			words, word, within = append(words, word), "", false
		case r != ' ':
			word, within = word+string(r), true
		}
	}
	if quoted {
		t.Fatalf("a quote is open in %q", line)
	}
	return words
}

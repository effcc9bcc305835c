package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// TestExamples wants examples in the help of each command that does something, with options that it takes.
func TestExamples(t *testing.T) {
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		if cmd.Name() == "help" || cmd.Parent() != nil && cmd.Parent().Name() == "completion" {
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

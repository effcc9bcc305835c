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

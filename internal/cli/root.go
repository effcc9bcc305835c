// Package cli is bperf's command line. Each subcommand has a file, which turns flags into options and calls the package that does the work.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/printable"
)

// Main runs bperf with its command line and returns the exit status.
func Main(args []string) int {
	out := &standardOutput{file: os.Stdout}
	err := execute(filepath.Base(args[0]), args[1:], out)
	if out.pager != nil {
		out.pager.end()
		err = ended(err)
	}
	if err == nil {
		err = ended(out.err)
	}
	if err == nil {
		return 0
	}
	exit := &exitError{Status: 1, Err: err}
	errors.As(err, &exit)
	if exit.Err != nil {
		fmt.Fprintf(os.Stderr, "Error: %s\n", printable.Lines(exit.Err.Error()))
	}
	return exit.Status
}

// execute runs the subcommand. Its output goes to out.
func execute(name string, args []string, out io.Writer) error {
	args, paginates, err := mainFlags(args)
	if err != nil {
		return err
	}
	root := newRootCommand(name, args)
	root.SetOut(out)
	if o, ok := out.(*standardOutput); ok && paginates {
		o.isPaged = func() bool { return isPaged(root, args) }
	}
	topic := args
	if len(args) > 1 && args[0] == "help" {
		topic = args[1:]
	}
	if len(topic) > 0 && !isFlag(topic[0]) && !isCommand(root, topic[0]) {
		return unknownCommand(root, topic)
	}
	if args, err = canonical(root, args); err != nil {
		return err
	}
	completeOpposites(root, args)
	completeValues(root, args)
	completeListsInBash(root, args)
	onNodes(root, args)
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	return failure(cmd, err)
}

// standardOutput keeps the first write error, because cobra and other callers drop it. It starts the user's pager when the first text for it
// goes to a terminal.
type standardOutput struct {
	file    *os.File
	err     error
	isPaged func() bool // nil after the first text, and without a pager
	pager   *pager      // nil for none
}

func (o *standardOutput) Write(p []byte) (int, error) {
	if o.isPaged != nil && len(p) > 0 {
		if onTerminal(o.file) && o.isPaged() {
			o.pager = startPager(o.file)
		}
		o.isPaged = nil
	}
	to := io.Writer(o.file)
	if o.pager != nil {
		to = o.pager.input
	}
	n, err := to.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// Fd returns the file descriptor, so that callers can check whether it is a terminal.
func (o *standardOutput) Fd() uintptr { return o.file.Fd() }

// newRootCommand returns the command tree, as far as args need it. Its root uses the name that bperf was called by.
func newRootCommand(name string, args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   name,
		Short: "Performance counting and profiling through BPF",
		Long:  "bperf counts and profiles through perf events and BPF, with the command line of perf.",

		SilenceErrors:              true,
		SilenceUsage:               true,
		DisableAutoGenTag:          true,
		SuggestionsMinimumDistance: 2,

		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetUsageFunc(printUsage)
	root.SetHelpFunc(printHelp)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return badOptionf("%w\nSee %s --help", flagError(err), cmd.CommandPath())
	})
	addCommands(root, args)
	return root
}

// flagError returns the error of a flag that cannot be parsed, in words for users where the library has those of Go.
func flagError(err error) error {
	if refused := (refusedOption{}); errors.As(err, &refused) {
		return refused
	}
	invalid, number := (*pflag.InvalidValueError)(nil), (*strconv.NumError)(nil)
	if !errors.As(err, &invalid) || !errors.As(err, &number) {
		return err
	}
	flag := invalid.GetFlag()
	name := "--" + flag.Name
	if flag.Shorthand != "" {
		name = "-" + flag.Shorthand
	}
	reason := "give a whole number"
	switch kind := flag.Value.Type(); {
	case errors.Is(number, strconv.ErrRange):
		reason = "the number is out of range"
	case strings.HasSuffix(kind, "Slice"):
		reason = "give whole numbers with commas between them"
	case strings.HasPrefix(kind, "uint"):
		reason = "give a whole number that is not negative"
	case kind == "bool":
		reason = "give true or false"
	}
	return fmt.Errorf("%s %s: %s", name, printable.Text(invalid.GetValue()), reason)
}

// addCommands adds the subcommand that args begin with. Making all of them takes a tenth of the CPU time of a short command. It adds all if args
// do not begin with one: for help, completion, manual pages and messages.
func addCommands(root *cobra.Command, args []string) {
	commands := []struct {
		name string
		make func() *cobra.Command
	}{
		{"stat", newStatCommand}, {"counters", newCountersCommand}, {"record", newRecordCommand}, {"profile", newProfileCommand}, {"report", newReportCommand},
		{"diff", newDiffCommand}, {"script", newScriptCommand}, {"annotate", newAnnotateCommand}, {"prog", newProgCommand}, {"top", newTopCommand}, {"serve", newServeCommand},
		{"evlist", newEvlistCommand}, {"buildid-list", newBuildIDListCommand},
		{"list", newListCommand}, {"doctor", newDoctorCommand}, {"config", newConfigCommand}, {"version", newVersionCommand},
	}
	for _, c := range commands {
		if len(args) > 0 && args[0] == c.name {
			root.AddCommand(c.make())
			root.CompletionOptions.DisableDefaultCmd = true
			return
		}
	}
	for _, c := range commands {
		root.AddCommand(c.make())
	}
	root.AddCommand(newManCommand())
	addTopics(root)
}

// isCommand reports whether a command of cobra's or of bperf's has this name.
func isCommand(root *cobra.Command, name string) bool {
	cobras := []string{"help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}
	return slices.Contains(cobras, name) || slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
}

// unknownCommand returns an error for an argument that is not a subcommand.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if slices.Contains(perfsCommands, args[0]) {
		return fmt.Errorf("bperf has no command %s: only perf has it", args[0])
	}
	msg := fmt.Sprintf("there is no command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		msg += fmt.Sprintf("; did you mean %q?", near[0])
	}
	return fmt.Errorf("%s\nSee %s --help", msg, cmd.CommandPath())
}

// completeFlag makes shells complete a flag of the command with these values.
func completeFlag(cmd *cobra.Command, name string, values []string) {
	if err := cmd.RegisterFlagCompletionFunc(name, oneOf(values...).function()); err != nil {
		panic(err) // cannot happen: the flag exists
	}
}

// Package cli is bperf's command line. Each subcommand has a file, which turns flags into options and calls the package that does the work.
package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/printable"
)

// Main runs bperf with its command line and returns the exit status.
func Main(args []string) int {
	root := newRootCommand(filepath.Base(args[0]), args[1:])
	out := &standardOutput{file: os.Stdout}
	root.SetOut(out)
	err := root.Execute()
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

// standardOutput keeps the first write error, because cobra and other callers drop it.
type standardOutput struct {
	file *os.File
	err  error
}

func (o *standardOutput) Write(p []byte) (int, error) {
	n, err := o.file.Write(p)
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
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return badOptionf("%w\nSee %s --help", err, cmd.CommandPath())
	})
	root.SetArgs(args)
	addCommands(root, args)
	return root
}

// addCommands adds the subcommand that args begin with. Making all of them takes a tenth of the CPU time of a short command. It adds all if args
// do not begin with one: for help, completion, manual pages and messages.
func addCommands(root *cobra.Command, args []string) {
	commands := []struct {
		name string
		make func() *cobra.Command
	}{
		{"stat", newStatCommand}, {"counters", newCountersCommand}, {"record", newRecordCommand}, {"profile", newProfileCommand}, {"report", newReportCommand},
		{"diff", newDiffCommand}, {"script", newScriptCommand}, {"annotate", newAnnotateCommand}, {"prog", newProgCommand}, {"top", newTopCommand},
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
}

// unknownCommand returns an error for an argument that is not a subcommand.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	msg := fmt.Sprintf("there is no command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		msg += fmt.Sprintf("; did you mean %q?", near[0])
	}
	return badOptionf("%s\nSee %s --help", msg, cmd.CommandPath())
}

// completeFlag makes shells complete a flag of the command with these values.
func completeFlag(cmd *cobra.Command, name string, values []string) {
	if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // cannot happen: the flag exists
	}
}

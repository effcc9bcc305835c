package cli

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/bpfprog"
)

func newProgCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prog",
		Short: "Show the BPF programs of this machine",
		Long:  "prog shows the BPF programs that are loaded.",

		SuggestionsMinimumDistance: 2,

		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newProgListCommand(), newProgShowCommand(), newProgStatsCommand(), newProgWatchCommand())
	return cmd
}

// selectorHelp describes how programs are selected.
const selectorHelp = `SELECTOR is a list with commas: IDs, all, name:GLOB, tag:HEX, pinned:PATH, type:NAME, map:ID|NAME (programs that
use it), link:ID, cgroup:PATH (attached there), pid:PID (held by that process).`

// parseSelector parses the selector of a command, which selects all programs if it is not given.
func parseSelector(args []string) (bpfprog.Selector, error) {
	s, err := bpfprog.Parse(slices.Concat(args, []string{"all"})[0])
	if err != nil {
		return s, badOption(err)
	}
	return s, nil
}

// missingItems returns an error that lists each item that selected nothing.
func missingItems(missing []*bpfprog.NoMatchError) error {
	var all []error
	for _, m := range missing {
		all = append(all, m)
	}
	return errors.Join(all...)
}

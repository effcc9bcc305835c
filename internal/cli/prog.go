package cli

import "github.com/spf13/cobra"

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

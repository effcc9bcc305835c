package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completeOpposites adds a flag --no-NAME for each switch, if a shell completes a word that can be one: cobra completes only the names of flags.
func completeOpposites(root *cobra.Command, args []string) {
	last := len(args) - 1
	if !completes(args) || !strings.HasPrefix(args[last], "--no") {
		return
	}
	cmd, _, err := root.Find(args[1:last])
	if err != nil {
		return
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if isSwitch(f) && !f.Hidden && f.Name != "help" && !strings.HasPrefix(f.Name, "no-") {
			names = append(names, f.Name)
		}
	})
	for _, name := range names {
		if opposite := "no-" + name; cmd.Flags().Lookup(opposite) == nil {
			cmd.Flags().Bool(opposite, false, "turn off --"+name)
		}
	}
}

package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/config"
	"github.com/bperf/bperf/internal/printable"
)

// These are the keys of perf's configuration that bperf uses.
const (
	configSharedEvents = "stat.bpf-counter-events" // events that are shared without --bpf-counters
	configAttrMap      = "stat.bpf-attr-map"       // default of --bpf-attr-map
	configBuildIDs     = "record.build-id"         // "skip" works as -B
	configChildren     = "report.children"
	configPercentLimit = "report.percent-limit"
	configSort         = "report.sort_order"
)

var configKeys = []string{configSharedEvents, configAttrMap, configBuildIDs, configChildren, configPercentLimit, configSort}

func newConfigCommand() *cobra.Command {
	var list bool
	cmd := &cobra.Command{
		Use:   "config -l",
		Short: "List the values of perf's configuration that are in force, and where they come from",
		Long: `config lists the keys of perf's configuration with their values, files and lines. It reads $PERF_CONFIG if that is set, otherwise
/etc/perfconfig and ~/.perfconfig; the latter takes precedence. bperf uses the keys
` + strings.Join(configKeys, ", ") + `, and ignores the others.`,
		Example: "  bperf config -l",
		Args:    takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !list {
				return badOptionf("config can only list, with -l: to change a value, edit its file")
			}
			c, err := readConfig(func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), s) }, false)
			if err != nil {
				return err
			}
			for _, v := range c.All() {
				ignored := ""
				if !slices.Contains(configKeys, v.Key) {
					ignored = ", ignored"
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s=%s  # %s:%d%s\n", printable.Text(v.Key), printable.Text(v.Value), printable.Text(v.File), v.Line, ignored)
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&list, "list", "l", false, "list the keys that are in force")
	return cmd
}

// readConfig reads perf's configuration. It notes a file that it ignores, and with verbose also the keys that bperf does not use.
func readConfig(note func(string), verbose bool) (*config.Config, error) {
	c, err := config.Read(os.Getenv)
	if err != nil {
		return nil, badOption(errors.New(printable.Text(err.Error())))
	}
	if c.Ignored != "" {
		note(printable.Text(c.Ignored))
	}
	for _, v := range c.All() {
		if verbose && !slices.Contains(configKeys, v.Key) {
			note(printable.Text(fmt.Sprintf("%s:%d: bperf ignores %s", v.File, v.Line, v.Key)))
		}
	}
	return c, nil
}

// configured sets flags that the user did not give to their values in the configuration.
func (f *reportFlags) configured(cmd *cobra.Command, c *config.Config) error {
	given := cmd.Flags().Changed
	bad := func(v config.Value, what string) error {
		return badOption(errors.New(printable.Text(fmt.Sprintf("%s:%d: %s = %s: expected %s", v.File, v.Line, v.Key, v.Value, what))))
	}
	if v, ok := c.Get(configChildren); ok && !given("children") {
		on, err := strconv.ParseBool(v.Value)
		if err != nil {
			return bad(v, "true or false")
		}
		f.children = on
	}
	if v, ok := c.Get(configPercentLimit); ok && !given("percent-limit") {
		if (*percentFlag)(&f.Limit).Set(v.Value) != nil {
			return bad(v, "a percentage")
		}
	}
	if keys := c.List(configSort); len(keys) > 0 && !given("sort") && !given("fields") {
		f.sort = keys
	}
	return nil
}

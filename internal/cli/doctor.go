package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/kernel"
)

func newDoctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show what works on this machine, what does not, and how to fix it",
		Long: `doctor tries each feature that bperf uses, on this kernel and with the rights of this process,
and prints a line for each, with a remedy below those that do not work.

The exit status is 1 when nothing can be counted at all.`,
		Example: `  bperf doctor
  bperf doctor --json | jq -r '.data[] | select(.state != "works") | .feature'`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := kernel.Examine()
			if err != nil {
				return err
			}
			if asJSON {
				err = writeDocument(cmd.OutOrStdout(), doctorSchema, report.Findings)
			} else {
				err = printFindings(cmd.OutOrStdout(), report.Findings)
			}
			if err != nil {
				return err
			}
			if !report.CanCount {
				return &exitError{Status: 1}
			}
			return nil
		},
	}
	addJSON(cmd.Flags(), &asJSON, doctorSchema)
	return cmd
}

func printFindings(w io.Writer, findings []kernel.Finding) error {
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Feature))
	}
	for _, f := range findings {
		if _, err := fmt.Fprintf(w, "%-7s  %-*s  %s\n", f.State, width, f.Feature, f.Detail); err != nil {
			return err
		}
		if f.Remedy == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%-7s  %-*s  → %s\n", "", width, "", f.Remedy); err != nil {
			return err
		}
	}
	return nil
}

package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newManCommand writes the man pages of all commands from the same definitions as their help. The command is hidden, because only `make
// man` uses it. (cobra's own generator converts through Markdown, and would link a library for each step into bperf.)
func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the man pages into a directory",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			return writeManPages(cmd.Root(), args[0])
		},
	}
}

func writeManPages(cmd *cobra.Command, dir string) error {
	if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
		return nil
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	var page bytes.Buffer
	writeManPage(&page, cmd, name)
	if err := os.WriteFile(filepath.Join(dir, name+".1"), page.Bytes(), 0o666); err != nil {
		return err
	}
	for _, sub := range cmd.Commands() {
		if err := writeManPages(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

// writeManPage writes a page with the macros of man(7).
func writeManPage(w io.Writer, cmd *cobra.Command, name string) {
	fmt.Fprintf(w, ".TH %s 1 \"\" \"bperf %s\" \"bperf\"\n", roff(strings.ToUpper(name)), currentVersion())
	fmt.Fprintf(w, ".SH NAME\n%s \\- %s\n", roff(name), roff(cmd.Short))
	fmt.Fprintf(w, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	description := cmd.Long
	if description == "" {
		description = cmd.Short + "."
	}
	fmt.Fprintf(w, ".SH DESCRIPTION\n%s\n", strings.ReplaceAll(roff(description), "\n\n", "\n.PP\n"))
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(w, ".SH COMMANDS")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(w, ".TP\n.B %s\n%s\n", roff(sub.Name()), roff(sub.Short))
			}
		}
	}
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintln(w, ".SH OPTIONS")
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { writeManFlag(w, f) })
	}
	if cmd.Example != "" {
		fmt.Fprintf(w, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(cmd.Example))
	}
}

func writeManFlag(w io.Writer, f *pflag.Flag) {
	if f.Hidden {
		return
	}
	names := "--" + f.Name
	switch f.Shorthand {
	case "":
	case f.Name: // it has only a letter
		names = "-" + f.Name
	default:
		names = "-" + f.Shorthand + ", " + names
	}
	value, usage := pflag.UnquoteUsage(f)
	switch {
	case isSwitch(f):
	case f.NoOptDefVal != "":
		names += "[=" + value + "]"
	default:
		names += " " + value
	}
	fmt.Fprintf(w, ".TP\n.B %s\n", roff(names))
	fmt.Fprintln(w, roff(usage))
}

// roff escapes text for roff: backslashes, hyphens, and lines that start like a request.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

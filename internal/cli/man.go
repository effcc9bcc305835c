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
		Short:  "Write the man pages into the directories of their sections, man1 and so on, in a directory",
		Hidden: true,
		Args:   takes(1, 1),
		RunE:   func(cmd *cobra.Command, args []string) error { return writeManPages(cmd.Root(), args[0]) },
	}
}

// hasPage reports whether a command has a man page.
func hasPage(cmd *cobra.Command) bool {
	return !cmd.Hidden && cmd.Name() != "help" && cmd.Name() != "completion"
}

// pageName returns the name of a command's man page, such as bperf-stat(1).
func pageName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-") + "(" + manSection(cmd) + ")"
}

// manSection returns the section that a page is in.
func manSection(cmd *cobra.Command) string {
	if isTopic(cmd) {
		return "7"
	}
	return "1"
}

func writeManPages(cmd *cobra.Command, dir string) error {
	if !hasPage(cmd) {
		return nil
	}
	name, _, _ := strings.Cut(pageName(cmd), "(")
	section := filepath.Join(dir, "man"+manSection(cmd))
	if err := os.MkdirAll(section, 0o777); err != nil {
		return err
	}
	var page bytes.Buffer
	writeManPage(&page, cmd, name)
	if err := os.WriteFile(filepath.Join(section, name+"."+manSection(cmd)), page.Bytes(), 0o666); err != nil {
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
	fmt.Fprintf(w, ".TH %s %s \"\" \"bperf %s\" \"bperf\"\n", roff(strings.ToUpper(name)), manSection(cmd), currentVersion())
	fmt.Fprintf(w, ".SH NAME\n%s \\- %s\n", roff(name), roff(cmd.Short))
	if isTopic(cmd) {
		writeManText(w, cmd.Long)
		writeManReferences(w, seeAlso(cmd))
		return
	}
	fmt.Fprintf(w, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	description := cmd.Long
	if description == "" {
		description = cmd.Short + "."
	}
	writeManText(w, description)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(w, ".SH COMMANDS")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				writeManItem(w, sub.Name(), sub.Short)
			}
		}
	}
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintln(w, ".SH OPTIONS")
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { writeManFlag(w, f) })
	}
	about := allFacts().of(cmd)
	writeManFacts(w, "EXIT STATUS", about.statuses)
	writeManFacts(w, "ENVIRONMENT", about.variables)
	writeManFacts(w, "FILES", about.files)
	if cmd.Example != "" {
		fmt.Fprintf(w, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(cmd.Example))
	}
	writeManReferences(w, seeAlso(cmd))
}

// writeManText writes the section DESCRIPTION. Indented paragraphs keep their lines.
func writeManText(w io.Writer, text string) {
	fmt.Fprintln(w, ".SH DESCRIPTION")
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			fmt.Fprintln(w, ".PP")
		}
		if strings.HasPrefix(paragraph, " ") {
			fmt.Fprintf(w, ".nf\n%s\n.fi\n", roff(paragraph))
		} else {
			fmt.Fprintln(w, roff(paragraph))
		}
	}
}

// writeManItem writes a term and what it means.
func writeManItem(w io.Writer, term, meaning string) {
	fmt.Fprintf(w, ".TP\n.B %s\n%s\n", roff(term), roff(meaning))
}

// writeManFacts writes a section, unless it is empty. Facts of the same name in turn share an item.
func writeManFacts(w io.Writer, title string, of []fact) {
	if len(of) > 0 {
		fmt.Fprintln(w, ".SH", title)
	}
	for i, f := range of {
		if i > 0 && of[i-1].name == f.name {
			fmt.Fprintln(w, roff(f.meaning))
		} else {
			writeManItem(w, f.name, f.meaning)
		}
	}
}

// writeManReferences writes the section SEE ALSO with pages such as bperf(1).
func writeManReferences(w io.Writer, pages []string) {
	if len(pages) == 0 {
		return
	}
	fmt.Fprintln(w, ".SH SEE ALSO")
	for i, page := range pages {
		name, section, _ := strings.Cut(page, "(")
		comma := ","
		if i == len(pages)-1 {
			comma = ""
		}
		fmt.Fprintf(w, ".BR %s (%s%s\n", roff(name), section, comma)
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
	if preset := shownDefault(f); preset != "" {
		usage += " (default " + preset + ")"
	}
	writeManItem(w, names, usage)
}

// shownDefault returns the default of a flag as its help shows it; empty if the help shows none: for what is off, empty or 0.
func shownDefault(f *pflag.Flag) string {
	plain := pflag.Flag{Name: f.Name, Value: f.Value, DefValue: f.DefValue}
	var one pflag.FlagSet
	one.AddFlag(&plain)
	_, preset, _ := strings.Cut(strings.TrimRight(one.FlagUsages(), "\n"), "(default ")
	return strings.TrimSuffix(preset, ")")
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

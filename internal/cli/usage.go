package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the width of help texts, in characters. Examples may be wider, so that they can be copied.
const helpWidth = 80

// printHelp prints what a command does, and its usage.
func printHelp(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	if !isTopic(cmd) { // topics fit already
		text = wrapParagraphs(text)
	}
	fmt.Fprintln(out, strings.TrimSpace(text)) // Main reports errors of out
	if cmd.Runnable() || cmd.HasSubCommands() {
		fmt.Fprintln(out)
		printUsage(cmd)
	}
}

// printUsage prints a command's usage as cobra does, but for lines that are too wide and for what pflag prints of two kinds of options: those
// that have only a letter, whose name is that letter, and those that are counted, as in -dd, which take no value.
func printUsage(cmd *cobra.Command) error {
	var usage bytes.Buffer
	out := cmd.OutOrStderr()
	cmd.SetOut(&usage)
	err := new(cobra.Command).UsageFunc()(cmd)
	cmd.SetOut(out)
	if err != nil {
		return err
	}
	text := usage.String()
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Name == f.Shorthand:
			text = strings.Replace(text, ", --"+f.Name+" ", "      ", 1)
		case f.Value.Type() == "count":
			text = strings.Replace(text, "--"+f.Name+" count", "--"+f.Name+"      ", 1)
		}
	})
	_, err = io.WriteString(out, wrapLists(text))
	return err
}

// wrapParagraphs wraps the lines of paragraphs anew. Lines that are indented stay as they are.
func wrapParagraphs(text string) string {
	var out, paragraph strings.Builder
	end := func() {
		if paragraph.Len() > 0 {
			out.WriteString(wrap(paragraph.String(), 0, 0) + "\n")
			paragraph.Reset()
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.ContainsAny(line[:1], " \t#") {
			end()
			out.WriteString(line + "\n")
			continue
		}
		paragraph.WriteString(line + " ")
	}
	end()
	return out.String()
}

// wrapLists wraps the lines of lists, each of which has a name, two spaces or more and a text. The text is continued below its beginning.
func wrapLists(text string) string {
	var out strings.Builder
	examples := false
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, " ") && line != "\n" {
			examples = strings.HasPrefix(line, "Examples:")
		}
		name := nameWidth(line)
		if examples || name == 0 || utf8.RuneCountInString(line) <= helpWidth+1 { // with the line break
			out.WriteString(line)
			continue
		}
		out.WriteString(line[:name] + wrap(line[name:], utf8.RuneCountInString(line[:name]), min(name, mostIndent)) + "\n")
	}
	return out.String()
}

// mostIndent limits how far the texts of lists are indented: wider names leave them no room.
const mostIndent = 40

// nameWidth returns where the text of a line of a list begins, in bytes. It returns 0 for other lines.
func nameWidth(line string) int {
	start := len(line) - len(strings.TrimLeft(line, " "))
	end := strings.Index(line[start:], "  ")
	if start == 0 || end < 0 {
		return 0
	}
	rest := line[start+end:]
	return start + end + len(rest) - len(strings.TrimLeft(rest, " "))
}

// wrap breaks a text between words into lines of at most helpWidth characters. The first line begins at column first, the others are
// indented.
func wrap(text string, first, indent int) string {
	var out strings.Builder
	column := first
	for i, word := range strings.Fields(text) {
		width := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+width > helpWidth:
			out.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += width
	}
	return out.String()
}

// takes checks the number of arguments of a command that takes from least to most, which are 0 or 1.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		name := cmd.CommandPath()
		switch {
		case len(args) < least:
			return fmt.Errorf("%s needs an argument, %s\nSee %s --help", name, cmd.Use[strings.LastIndexByte(cmd.Use, ' ')+1:], name)
		case len(args) > most && most == 0:
			return fmt.Errorf("%s takes no argument %q\nSee %s --help", name, args[0], name)
		case len(args) > most:
			return fmt.Errorf("%s takes only one argument, not also %q\nSee %s --help", name, args[most], name)
		}
		return nil
	}
}

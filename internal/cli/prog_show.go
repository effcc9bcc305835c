package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/printable"
)

func newProgShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [flags] SELECTOR",
		Short: "Show BPF programs whole: functions, source lines, BPF instructions, machine code",
		Long: `show prints everything that the kernel reports about BPF programs: what list shows, their functions with addresses and sizes,
their instructions after the verifier, and their machine code, with source lines in between if the BTF has them.

` + selectorHelp + `

It needs root, or CAP_SYS_ADMIN, CAP_BPF and CAP_PERFMON. It changes nothing.`,
		Example: `  bperf prog show 17
  bperf prog show name:on_switch`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			selector, err := parseSelector(args)
			if err != nil {
				return err
			}
			list, err := bpfprog.List(selector, 0, true)
			if err != nil {
				return err
			}
			shown, err := readCode(list)
			if err != nil {
				return err
			}
			print := printProgShow
			if asJSON {
				print = printProgShowJSON
			}
			if err := print(cmd.OutOrStdout(), shown); err != nil {
				return fmt.Errorf("print BPF programs: %w", err)
			}
			return missingItems(list.Missing)
		},
	}
	cmd.Flags().BoolVarP(&asJSON, "json", "j", false, "print a JSON array")
	addOn(cmd.Flags())
	return cmd
}

// shownProg is a program with its code.
type shownProg struct {
	*bpfprog.Entry
	*bpfprog.Code
}

// readCode reads the code of the programs. It skips programs that were unloaded after they were listed.
func readCode(l *bpfprog.Listing) ([]shownProg, error) {
	var all []shownProg
	var codes []*bpfprog.Code
	for _, e := range l.Entries {
		code, err := bpfprog.ReadCode(e.Program)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all, codes = append(all, shownProg{e, code}), append(codes, code)
	}
	return all, bpfprog.NameCalls(codes)
}

func printProgShow(w io.Writer, all []shownProg) error {
	var b bytes.Buffer
	for i, p := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		writeProgHead(&b, p.Entry)
		writeFunctions(&b, p.Functions)
		writeTranslated(&b, p)
		writeJITed(&b, p)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeProgHead(b *bytes.Buffer, e *bpfprog.Entry) {
	fmt.Fprintf(b, "BPF program %d: %s\n", e.ID, printable.Text(cmp.Or(e.Name, "(without name)")))
	line := func(title, format string, a ...any) {
		fmt.Fprintf(b, "       %-12s "+format+"\n", append([]any{title}, a...)...)
	}
	line("type", "%s", e.Type)
	line("tag", "%s", e.Tag)
	line("loaded", "%s by %s", seconds(e.Loaded), printable.Text(e.User))
	line("licence", "%s", map[bool]string{true: "compatible with the GPL", false: "not compatible with the GPL"}[e.GPL])
	writeProgDetails(b, e)
	if e.Verified > 0 {
		line("verifier", "processed %d instructions", e.Verified)
	}
	if e.BTF > 0 {
		line("BTF", "%d", e.BTF)
	}
	if e.Stats != (bpfprog.Stats{}) {
		line("runs", "%d counted since it was loaded, which took %d ns; %d did not take place", e.Stats.Runs, e.Stats.RunTime, e.Stats.Missed)
	}
}

func writeFunctions(b *bytes.Buffer, functions []bpfprog.Function) {
	lines := [][]string{{"function", "address", "bytes", "tag"}}
	for _, f := range functions {
		address, size := "hidden", "-"
		if f.Address != 0 {
			address = f.Address.String()
		}
		if f.Size != 0 {
			size = decimal(f.Size)
		}
		lines = append(lines, []string{printable.Text(cmp.Or(f.Name, "-")), address, size, f.Tag})
	}
	b.WriteByte('\n')
	writeColumns(b, "llrl", lines)
}

func writeTranslated(b *bytes.Buffer, p shownProg) {
	fmt.Fprintf(b, "translated instructions: %s\n", cmp.Or(p.TranslatedMissing, decimal(p.Xlated)+" bytes"))
	source := sourceWriter{b: b}
	for _, t := range p.Translated {
		if t.Function != "" {
			b.WriteString(printable.Text(t.Function) + ":\n")
		}
		source.write(t.Source)
		fmt.Fprintf(b, "%6d: %s%s\n", t.Offset, printable.Text(t.Text), called(t.Calls))
	}
	b.WriteByte('\n')
}

func writeJITed(b *bytes.Buffer, p shownProg) {
	fmt.Fprintf(b, "machine code: %s\n", cmp.Or(p.JITedMissing, decimal(p.Program.JITed)+" bytes"))
	for _, f := range p.Code.JITed {
		b.WriteString(printable.Text(cmp.Or(f.Name, "-")) + ":\n")
		source := sourceWriter{b: b}
		for _, i := range f.Instructions {
			source.write(i.Source)
			fmt.Fprintf(b, "%6x: %-30s %s%s\n", i.Offset, i.Bytes, i.Text, called(i.Calls))
		}
	}
}

func called(name string) string {
	if name == "" {
		return ""
	}
	return " <" + printable.Text(name) + ">"
}

// sourceWriter writes source lines between instructions. It skips a line that was just written, because BTF has an entry for each column.
type sourceWriter struct {
	b    *bytes.Buffer
	last bpfprog.Line
}

func (w *sourceWriter) write(l *bpfprog.Line) {
	if l == nil || l.Number == 0 || *l == w.last {
		return
	}
	w.last = *l
	fmt.Fprintf(w.b, "        ; %s  (%s:%d)\n", printable.Text(l.Text), printable.Text(l.File), l.Number)
}

// progShowJSON has the keys of list, and the code.
type progShowJSON struct {
	progJSON
	*bpfprog.Code
}

func printProgShowJSON(w io.Writer, all []shownProg) error {
	array := []progShowJSON{}
	for _, p := range all {
		array = append(array, progShowJSON{newProgJSON(p.Entry), p.Code})
	}
	return writeJSON(w, array)
}

package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/printable"
)

func newProgShowCommand() *cobra.Command {
	var asJSON bool
	var style string
	cmd := &cobra.Command{
		Use:   "show [flags] SELECTOR",
		Short: "Show BPF programs whole: functions, source lines, BPF instructions, machine code",
		Long: `show prints everything that the kernel reports about BPF programs: what list shows, their links, their maps with sizes, their
functions with addresses and sizes, their instructions after the verifier, in its notation, and their machine code, with source lines
in between if the BTF has them.

` + selectorHelp + `

It needs root, or CAP_SYS_ADMIN, CAP_BPF and CAP_PERFMON. It changes nothing.`,
		Example: `  bperf prog show 17
  bperf prog show name:on_switch
  bperf prog show -M intel pid:4711`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkStyle(style); err != nil {
				return err
			}
			selector, err := parseSelector(args)
			if err != nil {
				return err
			}
			list, err := bpfprog.List(selector, 0, true)
			if err != nil {
				return err
			}
			shown, err := readCode(list, style)
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
	addJSON(cmd.Flags(), &asJSON, progShowSchema)
	addStyle(cmd, &style)
	addOn(cmd.Flags())
	return cmd
}

// shownProg is a program with its code and its maps.
type shownProg struct {
	*bpfprog.Entry
	*bpfprog.Code
	maps []bpfprog.MapDetail
}

// readCode reads the code and the maps of the programs. It skips programs that were unloaded after they were listed.
func readCode(l *bpfprog.Listing, style string) ([]shownProg, error) {
	var all []shownProg
	var codes []*bpfprog.Code
	for _, e := range l.Entries {
		code, err := bpfprog.ReadCode(e.Program, style)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		maps, err := bpfprog.ReadMapDetails(e.MapIDs)
		if err != nil {
			return nil, err
		}
		all, codes = append(all, shownProg{e, code, maps}), append(codes, code)
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
		b.WriteByte('\n')
		writeAttached(&b, p.Attached)
		writeMaps(&b, p.maps)
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
	writeDetail(b, "held by", 4, e.Holders)
	line("bytes", "%s", progBytes(e))
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

// writeAttached writes the links of a program, and the hooks that it is attached to without one.
func writeAttached(b *bytes.Buffer, attached []bpfprog.Attachment) {
	if len(attached) == 0 {
		return
	}
	lines := [][]string{{"link", "kind", "attached to"}}
	for _, a := range attached {
		id := "-"
		if a.Link != 0 {
			id = decimal(a.Link)
		}
		lines = append(lines, []string{id, printable.Text(a.Kind), printable.Text(cmp.Or(a.To, "-"))})
	}
	writeColumns(b, "rll", lines)
}

func writeMaps(b *bytes.Buffer, maps []bpfprog.MapDetail) {
	if len(maps) == 0 {
		return
	}
	lines := [][]string{{"map", "name", "type", "key bytes", "value bytes", "max entries", "locked bytes"}}
	for _, m := range maps {
		lines = append(lines, []string{decimal(m.ID), printable.Text(cmp.Or(m.Name, "-")), m.Type.String(), decimal(m.KeySize),
			decimal(m.ValueSize), decimal(m.MaxEntries), decimal(m.Memlock)})
	}
	writeColumns(b, "rllrrrr", lines)
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
		fmt.Fprintf(b, "%6d: (%02x) %s%s\n", t.Offset, t.Opcode, printable.Text(t.Text), named(strings.TrimSpace(t.Map+" "+t.Variable+t.Field)))
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
			fmt.Fprintf(b, "%6x: %-30s %s%s\n", i.Offset, i.Bytes, i.Text, named(i.Calls))
		}
	}
}

// named returns the name of what an instruction refers to, for the end of its line.
func named(name string) string {
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

// progShowJSON has the keys of list, with more of maps, and the code.
type progShowJSON struct {
	progJSON
	Maps []bpfprog.MapDetail `json:"maps"` // instead of those of list
	*bpfprog.Code
}

func printProgShowJSON(w io.Writer, all []shownProg) error {
	array := []progShowJSON{}
	for _, p := range all {
		array = append(array, progShowJSON{newProgJSON(p.Entry), filled(p.maps), p.Code})
	}
	return writeDocument(w, progShowSchema, array)
}

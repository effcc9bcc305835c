package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/printable"
)

func newProgListCommand() *cobra.Command {
	var asJSON bool
	var interval int
	var column string
	cmd := &cobra.Command{
		Use:   "list [flags] [SELECTOR]",
		Short: "List BPF programs: what they are, where they are attached, who holds them, what they cost",
		Long: `list shows the loaded or the selected BPF programs.

` + selectorHelp + `

With --interval the kernel counts the runs of all BPF programs during that time, and the list shows each program's runs,
run time and share of a CPU. --sort by one of these counts for a second.

It needs root, or CAP_SYS_ADMIN and CAP_BPF. It changes nothing.`,
		Example: `  bperf prog list
  bperf prog list --sort cpu
  bperf prog list type:xdp,name:'cil_*'
  bperf prog list -j --interval 5000 | jq '.data.programs[] | {name, use}'`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			i := slices.Index(sortNames(), column)
			if i < 0 {
				return badColumn("programs", column, sortNames())
			}
			sorting := progSorts[i]
			if !cmd.Flags().Changed("interval") && sorting.observed {
				interval = 1000
			}
			if interval != 0 && interval < 10 || interval == 0 && sorting.observed {
				return badCombinationf("--interval %d: the interval must be at least 10 ms", interval)
			}
			selector, err := parseSelector(args)
			if err != nil {
				return err
			}
			list, err := bpfprog.List(selector, time.Duration(interval)*time.Millisecond, asJSON)
			if err != nil {
				return err
			}
			slices.SortStableFunc(list.Entries, sorting.compare)
			return printProgList(cmd.OutOrStdout(), list, asJSON, len(args) == 0)
		},
	}
	addMilliseconds(cmd.Flags(), &interval, "interval", "", 0, "count runs for this long")
	cmd.Flags().StringVar(&column, "sort", "id", "sort by `COLUMN`: "+strings.Join(sortNames(), ", "))
	addJSON(cmd.Flags(), &asJSON, progListSchema)
	addOn(cmd.Flags())
	completeFlag(cmd, "sort", sortNames())
	return cmd
}

// progSort is an order of programs: the largest amounts and the oldest times come first.
type progSort struct {
	column   string
	observed bool // needs an interval
	compare  func(a, b *bpfprog.Entry) int
}

var progSorts = []progSort{
	{"id", false, func(a, b *bpfprog.Entry) int { return cmp.Compare(a.ID, b.ID) }},
	{"type", false, func(a, b *bpfprog.Entry) int { return cmp.Compare(a.Type.String(), b.Type.String()) }},
	{"name", false, func(a, b *bpfprog.Entry) int { return cmp.Compare(a.Name, b.Name) }},
	{"tag", false, func(a, b *bpfprog.Entry) int { return cmp.Compare(a.Tag, b.Tag) }},
	{"loaded", false, func(a, b *bpfprog.Entry) int { return a.Loaded.Compare(b.Loaded) }},
	{"by", false, func(a, b *bpfprog.Entry) int { return cmp.Compare(a.User, b.User) }},
	{"xlated", false, func(a, b *bpfprog.Entry) int { return cmp.Compare(b.Xlated, a.Xlated) }},
	{"jited", false, func(a, b *bpfprog.Entry) int { return cmp.Compare(b.JITed, a.JITed) }},
	{"memlock", false, func(a, b *bpfprog.Entry) int { return cmp.Compare(b.Memlock, a.Memlock) }},
	{"runs", true, func(a, b *bpfprog.Entry) int { return cmp.Compare(use(b).Runs, use(a).Runs) }},
	{"time", true, func(a, b *bpfprog.Entry) int { return cmp.Compare(use(b).RunTime, use(a).RunTime) }},
	{"cpu", true, func(a, b *bpfprog.Entry) int { return cmp.Compare(use(b).CPUs, use(a).CPUs) }},
}

func use(e *bpfprog.Entry) bpfprog.Use {
	if e.Use == nil {
		return bpfprog.Use{}
	}
	return *e.Use
}

func sortNames() []string {
	var names []string
	for _, s := range progSorts {
		names = append(names, s.column)
	}
	return names
}

// badColumn returns the error for an unknown sort column.
func badColumn(things, column string, known []string) error {
	msg := fmt.Sprintf("--sort %s: %s are sorted by %s", column, things, strings.Join(known, ", "))
	if near := event.Nearest(column, known); len(near) > 0 {
		msg += fmt.Sprintf("; did you mean %s?", near[0])
	}
	return badCombination(errors.New(msg))
}

// printProgList prints the selected programs. It returns an error if an item of the selector selected nothing.
func printProgList(w io.Writer, l *bpfprog.Listing, asJSON, everything bool) error {
	if everything {
		l.Missing = nil // "all" may select no program
	}
	var err error
	switch {
	case asJSON:
		err = printProgListJSON(w, l)
	case len(l.Entries) == 0 && len(l.Missing) == 0:
		_, err = io.WriteString(w, "No BPF programs are loaded.\n")
	default:
		err = printProgListText(w, l)
	}
	if err != nil {
		return fmt.Errorf("print the list: %w", err)
	}
	return missingItems(l.Missing)
}

// progListChunk is the size in bytes, a few programs, from which a part of the list is written.
const progListChunk = 4096

func printProgListText(w io.Writer, l *bpfprog.Listing) error {
	if len(l.Entries) == 0 {
		return nil
	}
	header, alignment := []string{"id", "type", "name", "tag", "loaded", "by"}, "rlllll"
	if l.Window > 0 {
		header, alignment = append(header, "runs", "run time ns", "cpu %"), alignment+"rrr"
	}
	lines := append(make([][]string, 0, 1+len(l.Entries)), header)
	for _, e := range l.Entries {
		line := []string{decimal(e.ID), e.Type.String(), printable.Text(cmp.Or(e.Name, "-")), e.Tag, seconds(e.Loaded), printable.Text(e.User)}
		if l.Window > 0 {
			line = append(line, useColumns(e.Use)...)
		}
		lines = append(lines, line)
	}
	var b bytes.Buffer
	for i, line := range alignColumns(alignment, lines) {
		b.Write(line)
		if i > 0 {
			writeProgDetails(&b, l.Entries[i-1])
		}
		if b.Len() >= progListChunk || i == len(lines)-1 {
			if _, err := b.WriteTo(w); err != nil {
				return err
			}
		}
	}
	return nil
}

func useColumns(u *bpfprog.Use) []string {
	if u == nil { // the program was unloaded
		return []string{"-", "-", "-"}
	}
	return []string{decimal(u.Runs), strconv.FormatInt(u.RunTime.Nanoseconds(), 10), fmt.Sprintf("%.3f", 100*u.CPUs)}
}

// writeProgDetails writes what does not fit into columns below a program's line.
func writeProgDetails(b *bytes.Buffer, e *bpfprog.Entry) {
	writeDetail(b, "attached to", 4, e.Attached)
	writeDetail(b, "held by", 4, e.Holders)
	writeDetail(b, "maps", 6, e.Maps)
	b.WriteString("       bytes        " + progBytes(e) + "\n")
}

func progBytes(e *bpfprog.Entry) string {
	return decimal(e.Xlated) + " translated, " + decimal(e.JITed) + " JITed, " + decimal(e.Memlock) + " locked"
}

// writeDetail writes a line with up to most values, unless there are none.
func writeDetail[T fmt.Stringer](b *bytes.Buffer, title string, most int, values []T) {
	if len(values) == 0 {
		return
	}
	b.WriteString("       " + title + strings.Repeat(" ", 13-len(title)))
	for i, v := range values[:min(most, len(values))] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(printable.Text(v.String()))
	}
	if len(values) > most {
		fmt.Fprintf(b, ", and %d more", len(values)-most)
	}
	b.WriteByte('\n')
}

func decimal[T uint32 | uint64](n T) string { return strconv.FormatUint(uint64(n), 10) }

// progJSON adds to a program its user, maps, attachments, holders and use.
type progJSON struct {
	*bpfprog.Program
	User     string               `json:"user"`     // name of the user who loaded it
	Maps     []bpfprog.Map        `json:"maps"`     // those of map_ids that still exist
	Attached []bpfprog.Attachment `json:"attached"` // where it is attached
	Holders  []bpfprog.Holder     `json:"held_by"`  // processes that hold a descriptor
	Use      *bpfprog.Use         `json:"use"`      // in the window; nil without --interval, and if it was unloaded
}

// progListJSON is a listing.
type progListJSON struct {
	Window   time.Duration `json:"window_ns"` // how long runs were counted; 0 without --interval
	Programs []progJSON    `json:"programs"`  // in the order of --sort
}

// printProgListJSON prints everything known about the programs. It encodes one program at a time, because all of them take megabytes.
func printProgListJSON(w io.Writer, l *bpfprog.Listing) error {
	return streamDocument(w, progListSchema, func(out io.Writer) error {
		head, err := json.MarshalIndent(progListJSON{Window: l.Window, Programs: []progJSON{}}, "  ", "  ")
		if err != nil {
			return err
		}
		before, after, _ := bytes.Cut(head, []byte("]"))
		if _, err := out.Write(before); err != nil {
			return err
		}
		var b bytes.Buffer
		encoder := documentEncoder(&b, "      ")
		for i, e := range l.Entries {
			b.Reset()
			b.WriteString("\n      ")
			if err := encoder.Encode(newProgJSON(e)); err != nil {
				return err
			}
			b.Truncate(b.Len() - 1) // the line break
			if i < len(l.Entries)-1 {
				b.WriteByte(',')
			} else {
				b.WriteString("\n    ")
			}
			if _, err := out.Write(b.Bytes()); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintf(out, "]%s\n", after)
		return err
	})
}

func newProgJSON(e *bpfprog.Entry) progJSON {
	return progJSON{Program: e.Program, User: e.User, Maps: filled(e.Maps), Attached: filled(e.Attached), Holders: filled(e.Holders), Use: e.Use}
}

// filled returns an empty array for nil.
func filled[T any](values []T) []T { return append([]T{}, values...) }

package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/printable"
)

func newProgWatchCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "watch [flags]",
		Short: "Show BPF programs as they are loaded and unloaded",
		Long: `watch shows each BPF program that is loaded or unloaded from now on: who loaded it, what it is, its functions and their
source files, its maps and sizes. It also shows programs that are unloaded at once, and what it could not read of them.

It ends at SIGINT or SIGTERM, or when its output has no reader any more.

It needs root, or CAP_SYS_ADMIN, CAP_BPF and CAP_PERFMON, and Linux 5.1. It changes nothing.`,
		Example: `  bperf prog watch
  bperf prog watch --json | jq '.time + " " + .data.name'`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			watcher, err := bpfprog.NewWatcher()
			if err != nil {
				return err
			}
			defer watcher.Close()
			ctx, stop := untilEnd(cmd.Context(), cmd.OutOrStdout())
			defer stop()
			fmt.Fprintln(os.Stderr, "Watching BPF programs.") // programs loaded from now on are seen
			var missed missedChanges
			err = printChanges(ctx, cmd.OutOrStdout(), missed.of(watcher.Run), asJSON)
			if missed != (missedChanges{}) {
				fmt.Fprintf(os.Stderr, "Missed: %s.\n", missed)
			}
			return ended(err)
		},
	}
	addJSONLines(cmd.Flags(), &asJSON, progWatchSchema)
	addOn(cmd.Flags())
	return cmd
}

// missedChanges counts the changes that were missed.
type missedChanges struct {
	records  uint64 // records that the kernel lost
	programs uint64 // programs whose load has no record
}

// of wraps run and counts the changes that were missed.
func (m *missedChanges) of(run watching) watching {
	return func(ctx context.Context, report func(bpfprog.Change)) error {
		return run(ctx, func(c bpfprog.Change) {
			switch c.Event {
			case bpfprog.LostSome:
				m.records += c.Records
			case bpfprog.Unseen:
				m.programs += uint64(c.LastID-c.ID) + 1
			}
			report(c)
		})
	}
}

func (m missedChanges) String() string {
	return fmt.Sprintf("%d records were lost, and %d programs were loaded, but bperf has no record of them", m.records, m.programs)
}

// watching calls report for each change until the context is done.
type watching func(ctx context.Context, report func(bpfprog.Change)) error

// mostUnprinted limits the changes that wait to be printed. Beyond it, bperf reads only a few more records, and then the kernel loses
// records, which is reported.
const mostUnprinted = 16384

// printChanges prints the changes of run while run goes on, because the reader of the output may be slow.
func printChanges(ctx context.Context, w io.Writer, run watching, asJSON bool) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	changes := make(chan bpfprog.Change, mostUnprinted)
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, func(c bpfprog.Change) { changes <- c })
		close(changes)
	}()
	print := printChange
	if asJSON {
		print = printChangeJSON
	}
	var err error
	for c := range changes {
		if err != nil {
			continue // run is ending
		}
		if err = print(w, c); err != nil {
			err = fmt.Errorf("print the changes: %w", err)
			stop()
		}
	}
	return cmp.Or(err, <-done)
}

func printChangeJSON(w io.Writer, c bpfprog.Change) error {
	return writeRecord(w, progWatchSchema, c.Time, c)
}

func printChange(w io.Writer, c bpfprog.Change) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s  %-6s  ", c.Time.Format("2006-01-02 15:04:05.000000"), c.Event)
	switch c.Event {
	case bpfprog.LostSome:
		fmt.Fprintf(&b, "%d records: programs came and went faster than bperf read them\n", c.Records)
	case bpfprog.Unseen:
		fmt.Fprintf(&b, "%7s  programs were loaded, but bperf has no record of them\n", unseenIDs(c))
	case bpfprog.Unloaded:
		lived := "loaded unseen"
		if c.Lived != nil {
			lived = "lived " + c.Lived.Round(time.Microsecond).String()
		}
		writeChanged(&b, c)
		b.WriteString("  " + lived + "\n")
	case bpfprog.Loaded:
		writeChanged(&b, c)
		if c.Missed != "" {
			b.WriteString("  " + c.Missed)
		}
		b.WriteByte('\n')
		writeLoaded(&b, c)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// unseenIDs formats the IDs of a change.
func unseenIDs(c bpfprog.Change) string {
	if c.LastID == c.ID {
		return decimal(c.ID)
	}
	return decimal(c.ID) + " to " + decimal(c.LastID)
}

// writeChanged writes columns that are wide enough for most programs.
func writeChanged(b *bytes.Buffer, c bpfprog.Change) {
	fmt.Fprintf(b, "%7d  %-14s  %-16s  %s", c.ID, cmp.Or(c.Type, "-"), printable.Text(cmp.Or(c.Name, "-")), c.Tag)
}

// writeLoaded writes what is known about a loaded program below its line.
func writeLoaded(b *bytes.Buffer, c bpfprog.Change) {
	by := bpfprog.Holder{PID: c.PID, Comm: cmp.Or(c.Comm, "a process that has ended")}.String()
	switch {
	case c.Missed == bpfprog.Unrecorded:
		by = "an unknown process"
	case c.PID == 0:
		by = "a process of another PID namespace"
	}
	if c.User != "" {
		by += ", user " + c.User
	}
	writeDetail(b, "loaded by", 1, []literal{literal(by)})
	var functions []literal
	for _, f := range c.Functions {
		text := cmp.Or(f.Name, "-")
		if f.Name == "" && len(c.Functions) == 1 {
			break
		}
		if f.Source != nil {
			text += fmt.Sprintf(" (%s:%d)", f.Source.File, f.Source.Number)
		}
		functions = append(functions, literal(text))
	}
	writeDetail(b, "functions", 6, functions)
	writeDetail(b, "maps", 6, c.Maps)
	if p := c.Program; p != nil {
		b.WriteString("       bytes        " + decimal(p.Xlated) + " translated, " + decimal(p.JITed) + " JITed, " + decimal(p.Memlock) + " locked\n")
	}
}

// literal is a string with a String method, as writeDetail needs it.
type literal string

func (l literal) String() string { return string(l) }

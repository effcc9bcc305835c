package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/internal/printable"
)

func printCounters(w io.Writer, s *shared.Status) error {
	var b strings.Builder
	if s.Cost == nil {
		b.WriteString("No counters are shared.\n")
	} else {
		writeEvents(&b, s.Events)
		writeSessions(&b, s.Sessions)
		writePrograms(&b, s.Cost)
		writeCost(&b, s.Cost)
		fmt.Fprintf(&b, "lost:             %s\n", cmp.Or(s.Lost.String(), "nothing"))
		writeTables(&b, s.Tables)
	}
	if s.Ended > 0 {
		fmt.Fprintf(&b, "sessions that ended without leaving: %d; the next session that joins or leaves cleans up after them\n", s.Ended)
	}
	if len(s.OtherVersions) > 0 {
		fmt.Fprintf(&b, "other versions of bperf that share separately, or did: %s\n", printable.Text(strings.Join(s.OtherVersions, " ")))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeEvents(b *strings.Builder, events []shared.EventStatus) {
	lines := [][]string{{"event", "since", "counts", "CPUs", "sessions"}}
	for _, e := range events {
		name := e.Name
		if e.Filter != "" {
			name += " if " + e.Filter
		}
		cpus := e.CPUs
		if e.Leader != 0 {
			cpus = fmt.Sprintf("those of leader %d", e.Leader)
		}
		lines = append(lines, []string{printable.Text(name), seconds(e.Since), modes(e), cpus, strconv.Itoa(e.Sessions)})
	}
	writeColumns(b, "llllr", lines)
	apart := false
	for _, e := range events {
		if e.Apart {
			apart = true
			fmt.Fprintf(b, "%s: perf counts it, too, with a counter of its own: %s\n", printable.Text(e.Name), shared.ApartRemedy)
		}
	}
	if apart {
		b.WriteByte('\n')
	}
}

// modes returns the CPU modes in which an event counts.
func modes(e shared.EventStatus) string {
	switch {
	case !e.Kernel:
		return "user"
	case !e.User:
		return "kernel"
	}
	return "all"
}

func writeSessions(b *strings.Builder, sessions []shared.SessionStatus) {
	lines := [][]string{{"pid", "since", "target", "events", "command"}}
	for _, s := range sessions {
		lines = append(lines, []string{strconv.Itoa(s.PID), seconds(s.Since), printable.Text(s.Target),
			printable.Text(strings.Join(s.Events, ",")), printable.Text(strings.Join(s.Command, " "))})
	}
	writeColumns(b, "rllll", lines)
}

func writePrograms(b *strings.Builder, c *shared.Cost) {
	lines := [][]string{{"program", "id", "attached to", "runs", "runs/s", "run time ns", "ns/run"}}
	for _, p := range c.Programs {
		hook, perRun := p.Hook, "-"
		if hook == "" {
			hook = "-"
		}
		if p.Runs > 0 {
			perRun = fmt.Sprintf("%.0f", float64(p.RunTime)/float64(p.Runs))
		}
		lines = append(lines, []string{p.Name, fmt.Sprint(p.ID), hook, fmt.Sprint(p.Runs),
			fmt.Sprintf("%.1f", float64(p.Runs)/c.Window.Seconds()), fmt.Sprint(p.RunTime.Nanoseconds()), perRun})
	}
	writeColumns(b, "lrlrrrr", lines)
}

func writeCost(b *strings.Builder, c *shared.Cost) {
	fmt.Fprintf(b, "observed:         %.3f s on %d CPUs, of whose time the programs took %.4f %%\n", c.Window.Seconds(), c.CPUs, 100*c.Share())
	fmt.Fprintf(b, "context switches: %d, to each of which sharing added %.1f ns\n", c.Switches, c.PerSwitch())
}

func writeTables(b *strings.Builder, tables []shared.Table) {
	var use []string
	for _, t := range tables {
		use = append(use, fmt.Sprintf("%d of %d %s", t.Used, t.Room, t.Name))
	}
	fmt.Fprintf(b, "in use:           %s\n", strings.Join(use, ", "))
}

// writeColumns writes aligned lines and an empty line. It ignores write errors, so b must be in memory.
func writeColumns(b io.Writer, alignment string, lines [][]string) {
	for _, line := range alignColumns(alignment, lines) {
		b.Write(line)
	}
	io.WriteString(b, "\n")
}

// alignColumns returns lines whose columns are as wide as their longest field. alignment has one letter per column: l or r. A line is valid
// only until the next iteration.
func alignColumns(alignment string, lines [][]string) iter.Seq2[int, []byte] {
	widths := make([]int, len(alignment))
	for _, line := range lines {
		for i, field := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(field))
		}
	}
	return func(yield func(int, []byte) bool) {
		var text []byte
		for n, line := range lines {
			text = text[:0]
			for i, field := range line {
				padding := widths[i] - utf8.RuneCountInString(field)
				if alignment[i] == 'r' {
					text = appendSpaces(text, padding)
				}
				text = append(text, field...)
				if alignment[i] == 'l' {
					text = appendSpaces(text, padding)
				}
				text = append(text, "  "...)
			}
			text = append(bytes.TrimRight(text, " "), '\n')
			if !yield(n, text) {
				return
			}
		}
	}
}

func appendSpaces(to []byte, n int) []byte {
	for range n {
		to = append(to, ' ')
	}
	return to
}

func seconds(t time.Time) string { return t.Format(time.DateTime) }

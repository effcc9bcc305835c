package report

import (
	"bufio"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
)

// WriteFolded writes a line for each stack: the name of the thread, or the labels among the sort keys, then the functions from the
// outermost to the innermost, separated by ";", then the sum of the values. stackcollapse-perf.pl writes this format; flamegraph.pl and
// many other tools read it. A ";" in a name becomes ":".
func WriteFolded(w io.Writer, p *profile.Profile, o *Options) error {
	event, err := theEvent(p, o)
	if err != nil {
		return err
	}
	sums := map[string]uint64{}
	labels := newLabelFrames(o)
	var line []byte
	for s := range chosen(p, o) {
		if int(s.Event) != event {
			continue
		}
		line = line[:0]
		add := func(name string) {
			if len(line) > 0 {
				line = append(line, ';')
			}
			line = append(line, foldedName(name)...)
		}
		for _, l := range labels.of(p, s) {
			add(l.name)
		}
		for _, f := range slices.Backward(p.StackOf(s)) {
			add(frameTitle(p, f))
		}
		sums[string(line)] += s.Value
	}
	buffered := bufio.NewWriter(w)
	for _, stack := range slices.Sorted(maps.Keys(sums)) {
		buffered.WriteString(stack + " " + strconv.FormatUint(sums[stack], 10) + "\n")
	}
	return buffered.Flush()
}

// foldedName replaces the characters that separate names in folded stacks.
func foldedName(name string) string {
	return strings.ReplaceAll(printable.Text(name), ";", ":")
}

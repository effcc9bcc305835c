package page

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/printable"
)

// maxText is the limit of a text of others, in bytes. Names of Kubernetes have at most 253.
const maxText = 512

// text makes a text of others safe in an element, and in an attribute in double quotes.
func text(s string) string {
	short := printable.Short(s, maxText)
	if len(s) > maxText {
		short += "…"
	}
	return html.EscapeString(short)
}

// value returns a percentage with its line.
func (v *view) value(r rate, l *line, unit string) string { return v.formatted(r, l, "%.2f", unit) }

// formatted returns a value with its line, or "" if there is nothing to show. An empty format is that of short.
func (v *view) formatted(r rate, l *line, format, unit string) string {
	drawn := ""
	if l != nil {
		drawn = v.past.svg(l, format, unit)
	}
	if isNaN(r.value) {
		if drawn != "" {
			return "<span>–</span>" + drawn
		}
		return ""
	}
	number := numeral(r.value, format) + unit
	if r.scaled {
		number = "≈ " + number
	}
	return "<span>" + number + "</span>" + drawn
}

func numeral(f float32, format string) string {
	if format == "" {
		return short(float64(f))
	}
	return fmt.Sprintf(format, f)
}

// short returns a number that is not negative with about three digits.
func short(f float64) string {
	for _, unit := range []string{"", " k", " M", " G", " T"} {
		switch {
		case f < 9.995 && f > 0:
			return strconv.FormatFloat(f, 'f', 2, 64) + unit
		case f < 99.95 && f > 0:
			return strconv.FormatFloat(f, 'f', 1, 64) + unit
		case f < 999.5:
			return strconv.FormatFloat(f, 'f', 0, 64) + unit
		}
		f /= 1000
	}
	return strconv.FormatFloat(f, 'g', 3, 64) + " P"
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// percent returns what share of a time another time is.
func percent(part, of time.Duration) float64 { return 100 * part.Seconds() / of.Seconds() }

// lineHeight is the height of a line's drawing, in its own unit.
const lineHeight = 40

// svg draws a line from 0 to its highest value, or returns "" if there is nothing to see: fewer than two values, or only zeros. Points in
// the middle of a level part are left out.
func (h *history) svg(l *line, format, unit string) string {
	lowest, highest, n := float32(0), float32(0), 0
	for _, f := range l {
		if isNaN(f) {
			continue
		}
		if n++; n == 1 {
			lowest = f
		}
		lowest, highest = min(lowest, f), max(highest, f)
	}
	if n < 2 || highest == 0 {
		return ""
	}
	y := func(i int) int { // -1 for no value
		if i < 0 || i >= points || isNaN(h.at(l, i)) {
			return -1
		}
		return lineHeight - 1 - int(math.Round(float64(h.at(l, i)/highest*(lineHeight-2))))
	}
	var b strings.Builder
	for i := range points {
		switch at := y(i); {
		case at < 0:
		case y(i-1) < 0:
			fmt.Fprintf(&b, "M%d %d", i, at)
		case y(i-1) != at || y(i+1) != at:
			fmt.Fprintf(&b, "L%d %d", i, at)
		}
	}
	return fmt.Sprintf(`<svg class="line" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img"><title>%s to %s%s</title><path d="%s"/></svg>`,
		points-1, lineHeight, numeral(lowest, format), numeral(highest, format), unit, b.String())
}

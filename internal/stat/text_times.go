package stat

import (
	"fmt"
	"math"
	"strings"
)

// times prints the times of a single run.
func times(b *strings.Builder, o Outcome) {
	for _, elapsed := range o.Elapsed {
		fmt.Fprintf(b, " %17.9f seconds time elapsed\n\n", elapsed.Seconds())
	}
	if o.HasTimes {
		fmt.Fprintf(b, " %17.9f seconds user\n %17.9f seconds sys\n\n\n", o.User.Seconds(), o.System.Seconds())
	}
}

// repeatedTimes prints the mean time of the runs. With Table it also prints the time of each run, with a bar that is one character longer
// for each 5 % of distance from the mean.
func (t *text) repeatedTimes(b *strings.Builder, o Outcome) {
	var s stats
	for _, elapsed := range o.Elapsed {
		s.add(elapsed.Seconds())
	}
	decimals := precision(s.stdErr())
	if t.o.Table {
		indent := len(fmt.Sprintf(" %17.*f", decimals, s.mean)) - len(fixed(s.mean, decimals))
		fmt.Fprintf(b, "%*s# Table of individual measurements:\n", indent, "")
		for _, elapsed := range o.Elapsed {
			off := elapsed.Seconds() - s.mean
			bar := strings.Repeat("#", 1+int(100*math.Abs(off)/s.mean/5))
			fmt.Fprintf(b, " %17.*f (%+.*f) %s\n", decimals, elapsed.Seconds(), decimals, off, bar)
		}
		fmt.Fprintf(b, "\n%*s# Final result:\n", indent, "")
	}
	fmt.Fprintf(b, " %17.*f +- %.*f seconds time elapsed", decimals, s.mean, decimals, s.stdErr())
	if s.relStdErr() > 0 {
		fmt.Fprintf(b, "  ( +-%6.2f%% )", s.relStdErr())
	}
	b.WriteString("\n\n")
}

// precision returns the number of decimals that shows three digits of an error below 1, up to the nine decimals of nanoseconds.
func precision(err float64) int {
	const nanosecond = 9
	if err == 0 {
		return nanosecond
	}
	return min(2+max(0, int(math.Ceil(-math.Log10(err)))), nanosecond)
}

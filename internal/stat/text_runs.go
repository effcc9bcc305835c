package stat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/printable"
)

// runWidth is the width of a column of runTable.
const runWidth = 13

// runTable prints statistics of single runs of BPF programs: one line per row that has runs.
func (t *text) runTable(b *strings.Builder, rows []Row) {
	headed := false
	cgroups := hasGroups(rows)
	for i := range rows {
		r := &rows[i]
		values := r.runValues()
		if values[0] == "" || t.o.hidden(r) {
			continue
		}
		if !headed {
			headed = true
			fmt.Fprintf(b, "\n%*s", len(t.place(Place{})), "")
			for _, c := range runColumns {
				fmt.Fprintf(b, "%*s ", runWidth, c)
			}
			b.WriteString("per run\n")
		}
		b.WriteString(t.place(r.Place))
		for _, v := range values {
			fmt.Fprintf(b, "%*s ", runWidth, v)
		}
		_, unit := r.runUnit()
		fmt.Fprintf(b, "%-*s %-*s", unitWidth, printable.Text(unit), eventWidth, printable.Text(r.Name))
		if cgroups {
			fmt.Fprintf(b, " %-*s", cgroupWidth, printable.Text(r.group()))
		}
		r.scaledText(b)
		b.WriteByte('\n')
	}
}

// probes prints, once, what bperf's own probes count in each run.
func (t *text) probes(b *strings.Builder, rows []Row) {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Runs == nil || r.Runs.Calibrated })
	probes, unknown := probeCounts(rows)
	if t.probesOf || len(probes)+len(unknown) == 0 {
		return
	}
	t.probesOf = true
	if len(probes) > 0 {
		fmt.Fprintf(b, "\n Of each run, bperf's own probes count: %s (--calibrate takes that off)\n", strings.Join(probes, ", "))
	}
	if len(unknown) > 0 {
		fmt.Fprintf(b, "\n Not known: what bperf's own probes count of %s%s\n", strings.Join(unknown, ", "), notMeasured)
	}
}

// notMeasured is the reason why the probes' count of an event is unknown.
const notMeasured = ": it had no counter while they were measured"

// probeCounts returns what the probes count in each run, and the events for which that is unknown.
func probeCounts(rows []Row) (probes, unknown []string) {
	add := func(list []string, words ...string) []string {
		if part := strings.Join(strings.Fields(printable.Text(strings.Join(words, " "))), " "); !slices.Contains(list, part) {
			return append(list, part)
		}
		return list
	}
	for i := range rows {
		r := &rows[i]
		if r.Runs == nil || r.absent() != "" {
			continue
		}
		scale, unit := r.runUnit()
		if n, known := r.Runs.ProbesPerRun(); known {
			probes = add(probes, strconv.FormatFloat(float64(n)*scale, 'f', -1, 64), unit, r.Name)
		} else if r.Runs.Unmeasured > 0 {
			unknown = add(unknown, r.Name)
		}
	}
	return probes, unknown
}

// barWidth is the width of the longest bar of a histogram.
const barWidth = 50

// histograms draws the distribution of each row's runs: one line per bucket.
func histograms(b *strings.Builder, rows []Row) {
	for i := range rows {
		r := &rows[i]
		if r.Runs == nil || r.absent() != "" {
			continue
		}
		scale, unit := r.runUnit()
		heading := []string{printable.Text(r.Name)}
		for _, s := range []string{unit, r.Place.ID, r.group()} {
			if s != "" {
				heading = append(heading, printable.Text(s))
			}
		}
		WriteHistogram(b, strings.Join(heading, ", "), r.Runs, scale)
	}
}

// WriteHistogram draws the distribution of runs below an empty line and a heading: one line per bucket. It writes nothing if there are no
// runs.
func WriteHistogram(b *strings.Builder, heading string, runs *count.Runs, scale float64) {
	WriteBuckets(b, heading, runs.Histogram(), scale)
}

// WriteBuckets draws a histogram as WriteHistogram does.
func WriteBuckets(b *strings.Builder, heading string, buckets []count.Bucket, scale float64) {
	var most uint64
	for _, k := range buckets {
		most = max(most, k.Runs)
	}
	if most == 0 {
		return
	}
	fmt.Fprintf(b, "\n %s\n", heading)
	for _, k := range buckets {
		low, high := bounds(k, scale)
		bar := strings.Repeat("#", int((k.Runs*barWidth+most-1)/most))
		fmt.Fprintf(b, " %*s to %*s %*d %s\n", runWidth, low, runWidth, high, runWidth, k.Runs, bar)
	}
}

// bounds returns the lowest and the highest count of a bucket's runs.
func bounds(k count.Bucket, scale float64) (low, high string) {
	number := func(v float64) string {
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v*scale, 'g', 12, 64), 64) // 0.005119, not 0.005118999999999999
		return strconv.FormatFloat(rounded, 'f', -1, 64)
	}
	return number(k.Low), number(k.High)
}

// droppedJSON returns an object with the number of dropped runs by reason.
func (r *Row) droppedJSON() string {
	var parts []string
	for i, n := range r.Dropped {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%q : %d", count.DroppedNames[i], n))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// droppedCSV returns the reasons for which runs were dropped, each followed by its number of runs.
func (r *Row) droppedCSV() string {
	if r.Dropped == nil {
		return ""
	}
	var parts []string
	for i, n := range r.Dropped {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", count.DroppedNames[i], n))
		}
	}
	return strings.Join(parts, " ")
}

// histogramJSON returns an array of the buckets that have runs: lowest count, highest count, runs.
func (r *Row) histogramJSON() string {
	var parts []string
	scale, _ := r.runUnit()
	for _, k := range r.Runs.Histogram() {
		if k.Runs > 0 {
			low, high := bounds(k, scale)
			parts = append(parts, fmt.Sprintf("[%s, %s, %d]", low, high, k.Runs))
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

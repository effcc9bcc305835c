package stat

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/printable"
)

type jsonLines struct {
	w    io.Writer
	o    OutputOptions
	runs int
}

// NewJSON returns a printer of perf's JSON: one object per event, each on its own line. The keys are perf's, because programs that check
// perf's output reject others; only rows of BPF programs, which perf cannot print, have more.
func NewJSON(w io.Writer, o OutputOptions) Printer { return &jsonLines{w: w, o: o} }

func (j *jsonLines) Header(o Outcome) error {
	j.runs = o.Runs
	return nil
}

func (j *jsonLines) Snapshot(s Snapshot) error {
	var b strings.Builder
	if j.o.MetricOnly {
		j.metricTable(&b, s)
	} else {
		j.table(&b, s)
	}
	_, err := io.WriteString(j.w, b.String())
	return err
}

// End prints nothing: perf's JSON has no times.
func (j *jsonLines) End(Outcome) error { return nil }

func (j *jsonLines) table(b *strings.Builder, s Snapshot) {
	cgroups := hasGroups(s.Rows)
	for i := range s.Rows {
		r := &s.Rows[i]
		if j.o.hidden(r) {
			continue
		}
		f := j.prefix(s, r.Place)
		metrics := j.o.metrics(r)
		if r.OnlyMetrics {
			j.group(&f, r, cgroups)
			b.WriteString(f.String())
			f = j.prefix(s, r.Place)
		} else {
			j.count(&f, r, cgroups)
		}
		if len(metrics) == 0 {
			j.o.Compat.noMetricJSON(&f)
		}
		for n, m := range metrics {
			if n > 0 { // a separate object with only the metric
				b.WriteString(f.String())
				f = j.prefix(s, r.Place)
			}
			j.o.Compat.metricJSON(&f, m)
		}
		b.WriteString(f.String())
	}
}

// group adds the heading of a group of metrics: perf's keys.
func (j *jsonLines) group(f *object, r *Row, cgroups bool) {
	if cgroups {
		f.string(j.o.groupKey(), r.group())
	}
	f.raw("event-runtime", strconv.FormatUint(r.Running, 10))
	f.raw("pcnt-running", fixed(r.share(), 2))
	f.string("metricgroup", r.Name)
}

func (j *jsonLines) count(f *object, r *Row, cgroups bool) {
	absent := r.absent()
	if absent == "" {
		f.string("counter-value", fixed(r.printed(), 6))
	} else {
		f.string("counter-value", absent)
	}
	f.string("unit", r.Event.Unit)
	f.string("event", r.Name)
	if cgroups {
		f.string(j.o.groupKey(), r.group())
	}
	if j.runs > 1 && absent == "" {
		f.raw("variance", fixed(r.Variance, 2))
	}
	f.raw("event-runtime", strconv.FormatUint(r.Running, 10))
	f.raw("pcnt-running", fixed(r.share(), 2))
	if absent != "" && j.o.Programs {
		f.string("reason", r.reason())
	}
	if r.Dropped != nil {
		f.raw("dropped", r.droppedJSON())
	}
	if r.Runs == nil {
		return
	}
	f.raw("runs", strconv.FormatUint(r.Runs.Counted, 10))
	for i, v := range r.runValues() {
		if v != "" {
			f.raw("run-"+runColumns[i], v)
		}
	}
	if probes, known := r.Runs.ProbesPerRun(); known && !r.Runs.Calibrated && absent == "" {
		f.raw("run-probes", strconv.FormatUint(probes, 10))
	}
	if j.o.Histogram {
		f.raw("histogram", r.histogramJSON())
	}
}

// metricTable prints one object per place and cgroup, with one key per metric.
func (j *jsonLines) metricTable(b *strings.Builder, s Snapshot) {
	t := newMetricTable(s.Rows, &j.o)
	cgroups := hasGroups(s.Rows)
	for _, l := range t.lines {
		f := j.prefix(s, l.place)
		if cgroups {
			f.string(j.o.groupKey(), l.cgroup)
		}
		if len(l.values) == 0 {
			f.string("metric-value", "none")
		}
		for _, c := range t.columns {
			if m, ok := l.values[c]; ok {
				f.string(c, j.o.Compat.columnJSON(m))
			}
		}
		b.WriteString(f.String())
	}
}

// prefix returns an object that starts with the time and the place.
func (j *jsonLines) prefix(s Snapshot, p Place) object {
	var f object
	if j.o.Interval && !s.Summary {
		f.raw("interval", seconds(s.Time))
	}
	switch by := j.o.Aggregation; {
	case by == AggregateGlobal:
	case by == AggregateThread:
		f.string("thread", p.ID)
	case p.Core:
		f.string(places[AggregateCore].heading, p.ID)
	case by == AggregateNone:
		f.string("cpu", strings.TrimPrefix(p.ID, "CPU"))
	default:
		f.string(places[by].heading, p.ID)
		f.raw(j.o.Compat.countersKey(), strconv.Itoa(p.Counters))
	}
	return f
}

// object is a JSON object in perf's spacing, because programs without a JSON parser may rely on it.
type object struct{ fields []string }

func (o *object) string(key, value string) { o.raw(key, quote(value)) }

// raw adds a value that is JSON already.
func (o *object) raw(key, value string) {
	o.fields = append(o.fields, quote(key)+" : "+value)
}

// String returns the object as a line.
func (o *object) String() string { return "{" + strings.Join(o.fields, ", ") + "}\n" }

// quote returns s as a JSON string. It leaves the < of "<not counted>" as it is.
func quote(s string) string {
	var b bytes.Buffer
	e := printable.JSONEncoder(&b)
	e.Encode(s) // cannot fail: every string has a JSON form, and a buffer accepts every write
	return strings.TrimSuffix(b.String(), "\n")
}

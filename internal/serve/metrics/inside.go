package metrics

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/serve/node"
)

// Each of these descriptions never changes.
var (
	insideTimes = newDesc("bperf_bpf_program_run_duration_seconds",
		"Run times of a BPF program, without dropped runs: a native histogram.", programNames...)
	insideDropped = newDesc("bperf_bpf_program_dropped_runs_total",
		"Runs of a BPF program that are not in its run times and events.", programNames...)
	insideEvents = newDesc("bperf_bpf_program_events_total",
		"Events inside a BPF program, as counted: not scaled up if the event was multiplexed.", append([]string{"event"}, programNames...)...)
	insideEnabled = newDesc("bperf_bpf_program_event_enabled_seconds_total",
		"Time that an event was enabled inside a BPF program.", append([]string{"event"}, programNames...)...)
	insideRunning = newDesc("bperf_bpf_program_event_running_seconds_total",
		"Time that an event was enabled and on a hardware counter inside a BPF program.", append([]string{"event"}, programNames...)...)
)

// insideDescs are all of them.
var insideDescs = []*desc{insideTimes, insideDropped, insideEvents, insideEnabled, insideRunning}

// counts inside a BPF program: those runs that were dropped, the sum of the run times in ns, the histogram of the run times, and three for
// each event.
const (
	insideDrops = iota
	insideSum
	insideBucket
	insideEvent = insideBucket + count.Buckets
)

// exportInside exports what was counted inside BPF programs.
func (c *Collector) exportInside(s *scrape, snap *node.Snapshot) {
	if snap.Inside == nil {
		return // nothing was asked for
	}
	s.feature("inside_bpf_programs", snap.NoInside)
	events := s.supported(snap.InsideEvents, insideSupported)
	for i := range snap.Inside {
		p := &snap.Inside[i]
		counts := make([]uint64, insideEvent+3*len(p.Readings))
		counts[insideDrops], counts[insideSum] = p.Dropped, p.Time
		copy(counts[insideBucket:], p.Times.Buckets[:])
		for n, r := range p.Readings {
			putReading(counts[insideEvent+3*n:], r)
		}
		c.inside.add(p.ID, programLabels{label(p.Name), label(p.Type), label(p.Tag)}, counts)
	}
	for _, sum := range c.inside.settle() {
		if s.fits(2 + 3*len(events)) {
			s.inside(sum, events)
		}
	}
}

func (s *scrape) inside(sum *sum[programLabels], events []event) {
	labels := insideTimes.pairs(sum.labels.name, sum.labels.kind, sum.labels.tag)
	s.histogram(insideTimes, seconds(sum.counts[insideSum]), sum.counts[insideBucket:insideEvent], labels)
	s.add(insideDropped, float64(sum.counts[insideDrops]), labels)
	s.readings(sum.counts[insideEvent:], events, insideEvents, insideEnabled, insideRunning, labels)
}

// schema is that of native histograms: 8 buckets for each power of 2. A bucket of count.Runs is as wide as 1.5 to 3 of them, so its runs
// count where its middle is.
const schema = 3

// histogram exports run times. buckets are those of count.Runs, in ns.
func (s *scrape) histogram(d *desc, sum float64, buckets []uint64, labels []*dto.LabelPair) {
	var runs count.Runs
	copy(runs.Buckets[:], buckets)
	all, zero := uint64(0), uint64(0)
	native := map[int]int64{}
	for _, b := range runs.Histogram() {
		all += b.Runs
		switch middle := (b.Low + b.High) / 2 * time.Nanosecond.Seconds(); {
		case b.Runs == 0:
		case middle == 0:
			zero += b.Runs
		default:
			native[int(math.Ceil(math.Log2(middle)*(1<<schema)))] += int64(b.Runs)
		}
	}
	out := &dto.Metric{}
	m, err := prometheus.NewConstNativeHistogram(noLabels, all, sum, native, nil, zero, schema, time.Nanosecond.Seconds()/2, time.Time{})
	if err == nil {
		err = m.Write(out)
	}
	if err != nil {
		s.err = errors.Join(s.err, fmt.Errorf("%s: %w", d.name, err))
		return
	}
	out.Label = labels
	f := s.family(d, dto.MetricType_HISTOGRAM)
	f.Metric = append(f.Metric, out)
}

// noLabels describes a histogram that gets its labels later.
var noLabels = prometheus.NewDesc(insideTimes.name, insideTimes.help, nil, nil)

package metrics

import (
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/serve/node"
)

// Each of these descriptions never changes.
var (
	insideTimes = NewDesc("bperf_bpf_program_run_duration_seconds",
		"Run times of a BPF program, without dropped runs: a native histogram.", programNames...)
	insideDropped = NewDesc("bperf_bpf_program_dropped_runs_total",
		"Runs of a BPF program that are not in its run times and events.", programNames...)
	insideEvents = NewDesc("bperf_bpf_program_events_total",
		"Events inside a BPF program, as counted: not scaled up if the event was multiplexed.", append([]string{"event"}, programNames...)...)
	insideEnabled = NewDesc("bperf_bpf_program_event_enabled_seconds_total",
		"Time that an event was enabled inside a BPF program.", append([]string{"event"}, programNames...)...)
	insideRunning = NewDesc("bperf_bpf_program_event_running_seconds_total",
		"Time that an event was enabled and on a hardware counter inside a BPF program.", append([]string{"event"}, programNames...)...)
)

// counts inside a BPF program: those runs that were dropped, the sum of the run times in ns, the histogram of the run times, and three for
// each event.
const (
	insideDrops = iota
	insideSum
	insideBucket
	insideEvent = insideBucket + count.Buckets
)

// exportInside exports what was counted inside BPF programs.
func (c *Collector) exportInside(s *Scrape, snap *node.Snapshot) {
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

func (s *Scrape) inside(sum *sum[programLabels], events []event) {
	labels := insideTimes.pairs(sum.labels.name, sum.labels.kind, sum.labels.tag)
	s.histogram(insideTimes, seconds(sum.counts[insideSum]), sum.counts[insideBucket:insideEvent], labels)
	s.add(insideDropped, float64(sum.counts[insideDrops]), labels)
	s.readings(sum.counts[insideEvent:], events, insideEvents, insideEnabled, insideRunning, labels)
}

// schema is that of native histograms: 8 buckets for each power of 2. A bucket of count.Runs is as wide as 1.5 to 3 of them, so its runs
// count where its middle is.
const schema = 3

// histogram exports run times. buckets are those of count.Runs, in ns.
func (s *Scrape) histogram(d *Desc, sum float64, buckets []uint64, labels []*dto.LabelPair) {
	var runs count.Runs
	copy(runs.Buckets[:], buckets)
	all, zero := uint64(0), uint64(0)
	h := &dto.Histogram{Schema: new(int32(schema)), SampleCount: &all, SampleSum: &sum, ZeroCount: &zero, ZeroThreshold: new(time.Nanosecond.Seconds() / 2)}
	next, before := int32(0), int64(0) // the bucket after the last one, and the runs in the last one
	add := func(n int64) {
		*h.PositiveSpan[len(h.PositiveSpan)-1].Length++
		h.PositiveDelta = append(h.PositiveDelta, n-before)
		before = n
		next++
	}
	for _, b := range runs.Histogram() {
		all += b.Runs
		switch middle := (b.Low + b.High) / 2 * time.Nanosecond.Seconds(); {
		case b.Runs == 0:
		case middle == 0:
			zero += b.Runs
		default:
			at := int32(math.Ceil(math.Log2(middle) * (1 << schema)))
			if gap := at - next; len(h.PositiveSpan) == 0 || gap > smallGap {
				h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: &gap, Length: new(uint32(0))})
				next = at
			}
			for next < at {
				add(0)
			}
			add(int64(b.Runs))
		}
	}
	f := s.family(d, dto.MetricType_HISTOGRAM)
	f.Metric = append(f.Metric, &dto.Metric{Histogram: h, Label: labels})
}

// smallGap is the number of empty buckets that take less as buckets than as a new span.
const smallGap = 2

package stat

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/recorded"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
)

// ReportConfig configures Report.
type ReportConfig struct {
	Aggregation *Aggregation // nil for that of the recorded session
	CacheLevel  int          // of AggregateCache; 0 for the highest
	NoMerge     bool         // separate rows for the boxes of an uncore PMU
	Metrics     []string     // of -M; nil for those of sessions without named events
	CPU         string       // whose vendor's metrics are computed, as for vendor.ForCPU; empty for the recorded one

	Output  OutputOptions // Aggregation and Interval are set from the recording
	Printer func(OutputOptions) Printer
	Notify  func(string)
}

// errNoCounts is the error of a recording without counts.
var errNoCounts = errors.New("the recording has no counts: bperf stat record makes one that has")

// Report prints the counts of a recording that stat record made, as the recorded session printed them. The Reader must not have returned a
// record yet.
func Report(r *perfdata.Reader, cfg ReportConfig) error {
	p := &reporter{reader: r, cfg: cfg, rounds: recorded.New(r.Events, r.EventByID)}
	for record, err := range r.Records() {
		if err != nil {
			return err
		}
		round, err := p.rounds.Add(record)
		if err != nil {
			return err
		}
		if round == nil {
			continue
		}
		if err := p.round(round); err != nil {
			return err
		}
	}
	return p.end()
}

// reporter prints the rounds of a recording.
type reporter struct {
	reader  *perfdata.Reader
	cfg     ReportConfig
	rounds  *recorded.Rounds
	printer Printer // nil before the first round

	session  Config // what newLayout needs of the recorded session
	topology target.Topology
	counters *counters
	vendor   *VendorMetrics // nil for none
	readings *readings
	layout   *layout
	cells    []count.Cell // that layout is of

	outcome Outcome
	last    time.Duration // end of the interval before
}

// round prints a round.
func (p *reporter) round(round *recorded.Round) error {
	if p.printer == nil {
		if err := p.begin(round); err != nil {
			return err
		}
	}
	if len(p.reader.Events()) != len(p.counters.events) {
		return errors.New("an event comes after the first round of counts")
	}
	cells, since := p.whole(round)
	if p.layout == nil || !sameCounters(cells, p.cells) || p.rounds.Cut == 1 {
		p.cells = slices.Clone(cells)
		p.layout = newLayout(p.counters, cells, &p.session, p.topology)
	}
	s := Snapshot{Time: round.Time, Summary: round.Final && p.cfg.Output.Interval}
	elapsed := round.Time
	if round.Final {
		since = nil
		p.outcome.Elapsed = []time.Duration{round.Time}
	} else {
		elapsed, p.last = max(round.Time-p.last, 0), round.Time
	}
	s.Rows = withMetrics(p.layout.snapshot(cells, since), p.vendor, elapsed)
	return p.printer.Snapshot(s)
}

// sameCounters reports whether two rounds have readings of the same counters.
func sameCounters(a, b []count.Cell) bool {
	return slices.EqualFunc(a, b, func(a, b count.Cell) bool {
		return a.Event == b.Event && a.CPU == b.CPU && a.Thread == b.Thread
	})
}

// begin prepares what all rounds have in common, and prints the heading.
func (p *reporter) begin(first *recorded.Round) error {
	features := p.reader.Features()
	p.cfg.Output.Interval = p.rounds.Config.Interval > 0
	p.session = Config{Raw: p.rounds.Config.Raw, NoMerge: p.cfg.NoMerge, CacheLevel: p.cfg.CacheLevel}
	events := p.reader.Events()
	if len(events) > mostEvents {
		return fmt.Errorf("the recording has %d events: bperf reports the counts of at most %d", len(events), mostEvents)
	}
	p.counters, p.readings = recordedCounters(events, pmuNames(features))
	p.counters.target = recordedTarget(p.rounds, first.Cells)
	if err := p.aggregate(); err != nil {
		return err
	}
	if err := p.metrics(); err != nil {
		return err
	}
	p.cfg.Output.Aggregation = p.session.Aggregation
	p.printer = p.cfg.Printer(p.cfg.Output)
	p.outcome = Outcome{Runs: 1, Subject: "'pipe'"}
	if v, _ := features.Get(perfdata.FeatureCmdline); v != nil {
		if line, is := v.(perfdata.CommandLine); is {
			p.outcome.Subject = "'" + strings.Join(line, " ") + "'"
		}
	}
	return p.printer.Header(p.outcome)
}

// aggregate chooses how the readings are added up, and reads the topology if that needs it. Readings of tasks belong to no CPU, and readings
// of CPUs to no thread.
func (p *reporter) aggregate() error {
	by, known := recordedAggregation(&p.rounds.Config, p.reader.Features().Text(perfdata.FeatureVersion))
	switch {
	case p.cfg.Aggregation != nil:
		by = *p.cfg.Aggregation
	case !known:
		p.cfg.Notify("bperf does not know the aggregation of the recorded session, and adds everything up")
	}
	switch {
	case by == AggregateThread && len(p.counters.target.Threads) == 0:
		p.cfg.Notify("the recording is of CPUs, not of threads: bperf adds all of them up")
		by = AggregateGlobal
	case by != AggregateGlobal && by != AggregateThread && len(p.counters.target.CPUs) == 0:
		p.cfg.Notify("the recording is of threads, not of CPUs: bperf adds all of them up")
		by = AggregateGlobal
	}
	if p.session.CacheLevel == 0 && p.cfg.Aggregation == nil && p.rounds.Config.Level <= target.MaxCacheLevel {
		p.session.CacheLevel = int(p.rounds.Config.Level)
	}
	p.session.Aggregation = by
	if !by.needsTopology() {
		return nil
	}
	var err error
	if p.topology, err = recordedTopology(p.reader.Features(), p.counters.target.CPUs, by, p.session.CacheLevel); err != nil && p.cfg.Aggregation == nil {
		p.cfg.Notify(err.Error() + ": bperf adds everything up")
		p.session.Aggregation, err = AggregateGlobal, nil
	}
	return err
}

// mostEvents limits the events of a recording, because a row of a metric looks for other rows.
const mostEvents = 1 << 13

// whole returns the cells of a round, and the same cells at the end of the round before. It adds events without readings.
func (p *reporter) whole(round *recorded.Round) (cells, since []count.Cell) {
	cells, since = round.Cells, round.Since
	p.readings.withoutIdle = p.rounds.Cut > 0
	for _, e := range round.Idle {
		if p.readings.errs[e] == nil {
			nothing := count.Cell{Event: e, CPU: count.None, Thread: count.None, Cgroup: count.None, Program: count.None}
			cells, since = append(cells, nothing), append(since, nothing)
		}
	}
	if len(p.counters.target.Threads) == 0 {
		for i := range cells {
			cells[i].Thread, since[i].Thread = count.None, count.None
		}
	}
	return cells, since
}

// end ends the output, and reports what is missing.
func (p *reporter) end() error {
	switch {
	case p.printer == nil && p.rounds.Pending():
		return errors.New("the recording ends before its first round of counts: stat record was killed")
	case p.printer == nil:
		return errNoCounts
	}
	err := p.printer.End(p.outcome)
	for _, loss := range p.rounds.Losses() {
		p.cfg.Notify(loss)
	}
	if p.reader.Stats().Truncated {
		p.cfg.Notify("the recording is incomplete: it was cut, or its writer was killed")
	}
	return err
}

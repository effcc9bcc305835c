package stat

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/session"
	"github.com/bperf/bperf/internal/target"
)

// run is one measurement, from opening the counters to closing them.
type run struct {
	*counting
	*session.Session
	counters *counters
	layout   *layout

	topology  target.Topology // set if the aggregation needs it
	following *following      // nil if no programs are followed
	recorder  *recorder       // nil if the counts are not recorded

	observation *shared.Observation // measures the cost of sharing; nil without Verbose, or if nothing is shared

	enabled   bool
	start     time.Time     // of the measured time
	delayed   bool          // the delay is over
	last      []count.Cell  // the reading at the last interval
	lastTime  time.Duration // time of last, since start
	intervals int
}

// run does one of the session's runs.
func (s *counting) run() error {
	r := &run{counting: s, Session: session.New(&s.cfg.Spec)}
	defer r.close()
	if err := r.launch(); err != nil {
		return err
	}
	if err := r.wait(); err != nil {
		return err
	}
	r.End()
	r.result = r.Result
	return r.finish()
}

// close stops everything that still runs.
func (r *run) close() {
	r.Close()
	r.recorder.close() // after an error, which is returned already
	if r.observation != nil {
		r.observation.End()
	}
	r.following.end()
	if r.counters != nil {
		r.counters.Close()
	}
}

// launch opens the counters and starts the target.
func (r *run) launch() (err error) {
	resolve := r.cfg.Target.Resolve
	switch {
	case !r.cfg.CommandIsTarget():
	case r.inheritable():
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		resolve = only(target.Thread{TID: syscall.Gettid(), PID: os.Getpid(), Comm: r.cfg.Command[0]})
	default:
		command, err := r.Prepare()
		if err != nil {
			return err
		}
		resolve = only(command)
	}
	if r.counters, err = r.open(resolve); err != nil {
		return err
	}
	if err := supported(r.counters); err != nil {
		return err
	}
	return r.begin()
}

// only returns a function that resolves to one thread, which is known to be alive.
func only(t target.Thread) func() (target.Target, error) {
	return func() (target.Target, error) { return target.Target{Threads: []target.Thread{t}}, nil }
}

// begin starts the counters and the command. With a delay or -D -1, the counters start later.
func (r *run) begin() error {
	if err := r.prepare(); err != nil {
		return err
	}
	if err := r.observe(); err != nil {
		return err
	}
	switch {
	case r.cfg.Waits():
		r.cfg.Notify("Events disabled")
	case r.enableOnExec():
		if err := r.counters.enableTools(); err != nil {
			return err
		}
		r.enabled = true
	default:
		if err := r.enable(); err != nil {
			return err
		}
	}
	r.start = time.Now()
	if err := r.follow(); err != nil {
		return err
	}
	return r.Execute()
}

// prepare takes the reading that the first interval starts from, and makes the layout.
func (r *run) prepare() (err error) {
	if r.last, err = r.counters.Read(nil); err != nil {
		return err
	}
	if r.cfg.needsTopology() {
		if r.topology, err = target.ReadTopology(os.DirFS("/sys")); err != nil {
			return err
		}
	}
	if r.cfg.Aggregation == AggregateCache {
		if err := r.topology.ReadCaches(os.DirFS("/sys"), r.cfg.CacheLevel); err != nil {
			return err
		}
	}
	r.layout = newLayout(r.counters, r.last, r.cfg, r.topology)
	r.recorder, err = newRecorder(r.cfg, r.counters, r.last)
	return err
}

func (r *run) enable() error {
	if r.enabled {
		return nil
	}
	r.enabled = true
	if err := r.counters.Enable(); err != nil {
		return err
	}
	if r.cfg.Delay > 0 && !r.delayed { // the measured time is without the delay
		r.delayed, r.start = true, time.Now()
	}
	return nil
}

func (r *run) disable() error {
	if !r.enabled {
		return nil
	}
	r.enabled = false
	return r.counters.Disable()
}

// wait returns when the session is over.
func (r *run) wait() error {
	if r.following != nil {
		go r.followPrograms()
	}
	return r.Wait(&session.Measurement{Enable: r.enable, Disable: r.disable, Threads: len(r.counters.target.Threads) > 0,
		Every: r.cfg.Interval, Tick: r.tick})
}

// tick prints an interval. The interval that reaches IntervalCount ends the run.
func (r *run) tick() (over bool, err error) {
	err = r.interval()
	return r.intervals == r.cfg.IntervalCount, err
}

// interval prints what was counted since the last interval.
func (r *run) interval() error {
	now := time.Since(r.start)
	cells, err := r.counters.Read(nil)
	if err != nil {
		return err
	}
	rows := r.layout.snapshot(cells, r.last)
	rows = withMetrics(rows, r.cfg.Vendor, now-r.lastTime)
	r.last, r.lastTime = cells, now
	r.intervals++
	if err := r.recorder.round(cells, now, false); err != nil {
		return err
	}
	return r.print(Snapshot{Time: now, Rows: rows})
}

// finish stops counting and keeps or prints the result. It does not disable events of threads before their only reading: that
// would interrupt another CPU for each event.
func (r *run) finish() error {
	elapsed := time.Since(r.start)
	if len(r.counters.target.Threads) == 0 || r.cfg.Interval > 0 {
		if err := r.disable(); err != nil {
			return err
		}
	}
	if r.cfg.CommandIsTarget() {
		r.counters.finish(r.result.Command)
	}
	if r.cfg.Interval > 0 && (r.cfg.IntervalCount == 0 || r.intervals != r.cfg.IntervalCount) {
		if err := r.interval(); err != nil { // the rest, shorter than an interval
			return err
		}
	}
	cells, err := r.counters.Read(nil)
	if err != nil {
		return err
	}
	if err := r.verbose(cells); err != nil {
		return err
	}
	rows := r.layout.snapshot(cells, nil)
	r.reportCalibration(rows)
	if err := r.reportLost(); err != nil {
		return err
	}
	if err := r.record(cells, elapsed); err != nil {
		return err
	}
	r.outcome.add(elapsed, r.result.Command, r.cfg)
	if r.cfg.Interval == 0 {
		r.repeats.add(rows)
		return nil
	}
	if !r.cfg.Summary {
		return nil
	}
	return r.print(Snapshot{Time: elapsed, Summary: true, Rows: withMetrics(rows, r.cfg.Vendor, elapsed)})
}

// record completes the recording, if there is one. As in perf, one of intervals has no sum of them.
func (r *run) record(cells []count.Cell, elapsed time.Duration) error {
	if r.cfg.Interval == 0 {
		if err := r.recorder.round(cells, elapsed, true); err != nil {
			return err
		}
	}
	return r.recorder.close()
}

// verbose reports the sum of each event's readings as the kernel returned them, and which other sessions share the events.
func (r *run) verbose(cells []count.Cell) error {
	if r.cfg.Verbose == nil {
		return nil
	}
	for i, e := range r.counters.events {
		if err := r.counters.Err(i); err != nil {
			r.cfg.Verbose(err.Error())
			continue
		}
		var sum count.Cell
		for _, c := range cells {
			if c.Event == i {
				sum.Add(c.Reading)
			}
		}
		r.cfg.Verbose(fmt.Sprintf("%s: %d %d %d", e.Name, sum.Value, sum.Enabled, sum.Running))
	}
	for _, p := range r.counters.common {
		sharers, err := p.counter.Sharers()
		if err != nil {
			return err
		}
		for i, s := range sharers {
			name := r.counters.events[p.events[i]].Name
			if s.Sessions > 0 {
				r.cfg.Verbose(fmt.Sprintf("%s: sessions that share it: %d", name, s.Sessions))
			}
			if s.Apart {
				r.cfg.Verbose(fmt.Sprintf("%s: perf counts it, too, with a counter of its own: %s", name, shared.ApartRemedy))
			}
		}
	}
	return r.reportCost()
}

// observe starts to measure the cost of sharing, if Verbose is set and counters are shared.
func (r *run) observe() (err error) {
	if all := r.counters.common; len(all) > 0 && r.cfg.Verbose != nil {
		r.observation, err = all[0].counter.Observe()
	}
	return err
}

// reportCost reports what sharing cost in all sessions together while this session ran.
func (r *run) reportCost() error {
	if r.observation == nil {
		return nil
	}
	o := r.observation
	r.observation = nil
	cost, err := o.End()
	if err != nil {
		return err
	}
	for _, p := range cost.Programs {
		if p.Runs > 0 {
			r.cfg.Verbose(fmt.Sprintf("BPF program %s: %d runs, %d ns", p.Name, p.Runs, p.RunTime.Nanoseconds()))
		}
	}
	r.cfg.Verbose(fmt.Sprintf("context switches of the machine: %d, to each of which sharing added %.1f ns", cost.Switches, cost.PerSwitch()))
	return nil
}

// reportCalibration reports what --calibrate subtracted from each run of BPF programs.
func (r *run) reportCalibration(rows []Row) {
	if !r.cfg.Calibrate {
		return
	}
	probes, unknown := probeCounts(rows)
	if len(probes) > 0 {
		r.cfg.Notify("subtracted from each run as the probes' own: " + strings.Join(probes, ", "))
	}
	if len(unknown) > 0 {
		r.cfg.Notify("not subtracted, because it is not known: what the probes count of " + strings.Join(unknown, ", ") + notMeasured)
	}
}

// reportLost reports what was not counted. All parts that share counters have the same losses, so it asks only the first.
func (r *run) reportLost() error {
	if cpus := r.counters.joined(); len(cpus) > 0 {
		r.cfg.Notify("events were opened on CPU " + procfs.FormatCPUList(cpus) + " while counting, as CPUs came online: " +
			"what ran there just before is not in the counts")
	}
	if r.counters.inside != nil {
		return r.reportLostRuns()
	}
	all := r.counters.common
	if len(all) == 0 {
		return nil
	}
	lost, err := all[0].counter.Lost()
	if err != nil {
		return err
	}
	if s := lost.String(); s != "" {
		r.cfg.Notify("shared counters have lost " + s + ": the counts may be too low")
	}
	return nil
}

// reportLostRuns reports which runs of BPF programs were not counted, and which programs are missing from a sum.
func (r *run) reportLostRuns() error {
	losses, err := r.counters.inside.Losses()
	if err != nil {
		return err
	}
	for _, l := range losses {
		if n := l.Dropped.Total(); n > 0 {
			r.cfg.Notify(fmt.Sprintf("BPF program %s: %d of its runs are not in the counts: %s", l.Target, n, &l.Dropped))
		}
	}
	if !r.cfg.SumPrograms {
		return nil
	}
	for _, u := range r.counters.inside.Untraceable() {
		r.cfg.Notify(u.Error() + " Its events are not in the sum")
	}
	return nil
}

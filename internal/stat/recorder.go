package stat

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/recorded"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
)

// Recording says where a session records its counts, in the format of perf stat record.
type Recording struct {
	Create   func() (io.WriteCloser, error) // called when the events are open; a file is also an io.WriteSeeker
	Pipe     bool                           // write the format of pipes
	Features map[perfdata.FeatureID]perfdata.FeatureValue
}

// recorder writes the cells of a session to a recording. A nil recorder writes nothing.
type recorder struct {
	cfg    *Config
	out    io.WriteCloser
	writer *perfdata.Writer
	ids    []uint64 // of each cell
	cpus   []int    // of each cell
	closed bool
}

// mostThreads is the number of threads that fit into a record.
const mostThreads = 2700

// newRecorder begins the recording of a session, and returns nil if it is not recorded. cells are those of each reading.
func newRecorder(cfg *Config, c *counters, cells []count.Cell) (*recorder, error) {
	if cfg.Recording == nil {
		return nil, nil
	}
	if n := len(c.target.Threads); n > mostThreads {
		return nil, fmt.Errorf("%d threads cannot be recorded: a recording has room for %d; select fewer", n, mostThreads)
	}
	if len(c.events) == 0 {
		return nil, errors.New("without events there is nothing to record: leave out -n")
	}
	r := &recorder{cfg: cfg}
	events := r.describe(c, cells)
	var err error
	if r.out, err = cfg.Recording.Create(); err != nil {
		return nil, err
	}
	if err := r.begin(events); err != nil {
		return nil, errors.Join(fmt.Errorf("begin the recording: %w", err), r.out.Close())
	}
	return r, r.introduce(c)
}

// begin writes the events, and to a pipe the features.
func (r *recorder) begin(events []*perfdata.Event) (err error) {
	o := perfdata.Options{Events: events}
	if !r.cfg.Recording.Pipe {
		file, seeks := r.out.(io.WriteSeeker)
		if !seeks {
			return errors.New("only a pipe can be written without seeking")
		}
		r.writer, err = perfdata.NewWriter(file, o)
		return err
	}
	if r.writer, err = perfdata.NewPipeWriter(r.out, o); err != nil {
		return err
	}
	features := maps.Clone(r.cfg.Recording.Features)
	var names perfdata.EventDescriptions // those of events without counters are nowhere else
	for _, e := range events {
		names = append(names, perfdata.EventDescription{Attr: e.Attr, Name: e.Name, IDs: e.IDs})
	}
	features[perfdata.FeatureEventDesc] = names
	for _, id := range slices.Sorted(maps.Keys(features)) {
		r.writer.SetFeature(id, features[id]) // the next record returns a write error again
	}
	return nil
}

// describe returns the events as the recording lists them, and gives each cell an ID.
func (r *recorder) describe(c *counters, cells []count.Cell) []*perfdata.Event {
	events := make([]*perfdata.Event, len(c.events))
	for i, e := range c.events {
		events[i] = &perfdata.Event{Attr: r.attr(e), Name: e.Name, Unit: e.Unit, CPUs: e.CPUs}
		if e.Scale != 1 {
			events[i].Scale = e.Scale
		}
	}
	for i, cell := range cells {
		e := events[cell.Event]
		if cell.CPU == count.None && len(c.target.CPUs) > 0 && len(c.target.Threads) == 0 {
			cell.CPU = c.target.CPUs[0] // as perf records tool events of CPUs
			e.CPUs = c.target.CPUs[:1]
		}
		r.cpus = append(r.cpus, cell.CPU)
		r.ids = append(r.ids, uint64(i+1))
		e.IDs = append(e.IDs, uint64(i+1))
	}
	return events
}

// attr returns the attributes that an event is counted with.
func (r *recorder) attr(e *event.Event) perfdata.Attr {
	a := e.Attr
	if e.Tool != event.ToolNone { // as perf recorded them before 6.12
		a = perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwareDummy}
	}
	a.SamplePeriod, a.ReadFormat = 0, perfevent.ReadFormatTimes
	if !r.cfg.Recording.Pipe { // in a pipe, perf script would expect samples of the event
		a.SampleType = perfdata.SampleIdentifier
	}
	a.Flags = a.Flags&^perfdata.AttrFreq | perfdata.AttrDisabled
	for flag, set := range map[perfdata.AttrFlags]bool{perfdata.AttrInherit: r.cfg.Inherit, perfdata.AttrExcludeKernel: r.cfg.AllUser,
		perfdata.AttrExcludeUser: r.cfg.AllKernel} {
		if set {
			a.Flags |= flag
		}
	}
	return a
}

// introduce writes the threads, the CPUs and the configuration of the session.
func (r *recorder) introduce(c *counters) error {
	threads := &perfdata.ThreadMap{}
	for _, t := range c.target.Threads {
		threads.Threads = append(threads.Threads, perfdata.MappedThread{TID: int64(t.TID), Comm: t.Comm})
	}
	if len(threads.Threads) == 0 {
		threads.Threads = []perfdata.MappedThread{{TID: -1}}
	}
	cpus := slices.Compact(slices.Sorted(slices.Values(r.cpus)))
	cpuMap := &perfdata.CPUMap{}
	if cpuMap.Any = len(cpus) == 0 || cpus[0] == count.None; cpuMap.Any && len(cpus) > 0 {
		cpus = cpus[1:]
	}
	cpuMap.CPUs = cpus
	for _, v := range []perfdata.Value{threads, cpuMap, r.config()} {
		if err := r.writer.Write(0, v); err != nil {
			return err
		}
	}
	return r.writer.Flush()
}

// config returns the configuration of the session. perf before 6.5 does not know the level, so only modes that have another number there
// come with one.
func (r *recorder) config() *perfdata.StatConfig {
	mode := slices.Index(modesSince69, r.cfg.Aggregation)
	scale := uint64(1)
	if r.cfg.Raw {
		scale = 0
	}
	terms := []perfdata.StatConfigTerm{{Tag: recorded.TagAggregation, Value: uint64(mode)},
		{Tag: recorded.TagInterval, Value: uint64(r.cfg.Interval.Milliseconds())}, {Tag: recorded.TagScale, Value: scale}}
	if mode >= len(modesBefore) || modesBefore[mode] != r.cfg.Aggregation {
		terms = append(terms, perfdata.StatConfigTerm{Tag: recorded.TagLevel, Value: uint64(r.cfg.CacheLevel)})
	}
	return &perfdata.StatConfig{Terms: terms}
}

// round writes the readings at the end of an interval, or with final of the run.
func (r *recorder) round(cells []count.Cell, end time.Duration, final bool) error {
	if r == nil {
		return nil
	}
	for i, c := range cells {
		v := &perfdata.Stat{ID: r.ids[i], CPU: int32(r.cpus[i]), Thread: int32(max(c.Thread, 0)), Value: c.Value, Enabled: c.Enabled, Running: c.Running}
		if err := r.writer.Write(0, v); err != nil {
			return err
		}
	}
	round := &perfdata.StatRound{Time: uint64(max(end, 0))}
	if final {
		round.Type = 1 // PERF_STAT_ROUND_TYPE__FINAL
	}
	if err := r.writer.Write(0, round); err != nil {
		return err
	}
	return r.writer.Flush()
}

// close completes the recording. Calling it again does nothing.
func (r *recorder) close() error {
	if r == nil || r.closed {
		return nil
	}
	r.closed = true
	if !r.cfg.Recording.Pipe {
		for id, v := range r.cfg.Recording.Features {
			if err := r.writer.SetFeature(id, v); err != nil {
				return errors.Join(err, r.out.Close())
			}
		}
	}
	err := errors.Join(r.writer.Close(), r.out.Close())
	if left := r.writer.LeftOut(); left != nil {
		r.cfg.Notify(left.Error())
	}
	return err
}

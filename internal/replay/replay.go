package replay

import (
	"io"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/perfdata"
)

// Item is a record with the state of the machine at its time.
type Item struct {
	*perfdata.Record
	Sample   *perfdata.Sample // nil for other records
	Thread   Thread           // that the record is of, if it is of one
	Previous uint64           // of samples: the time of the one before, in ns; 0 for the first
	Cgroup   string           // of samples with SampleCgroup: its path; empty if it is not known

	user, kernel *addressSpace
	sum          *Sum   // nil for others
	interval     uint32 // with Options.Sums
}

// Stats is what was seen, and what is missing.
type Stats struct {
	perfdata.Stats
	Samples     uint64 // that were handed out
	First, Last uint64 // times of the oldest and the newest sample, in ns of the recording's clock
	Filtered    uint64 // samples that Options.Filter left out
	LostRecords uint64 // that the kernel had no room for: LOST
	LostSamples uint64 // LOST_SAMPLES, other than those that a BPF filter dropped
	BPFFiltered uint64 // samples that a BPF filter of the event dropped
	Throttled   uint64 // times that an event was stopped, as it came too often: THROTTLE
	Stopped     uint64 // for so long in all, in ns
	Outside     uint64 // samples that are not in Options.Functions
	CutChains   uint64 // callchains that end at an entry that is no address

	Problems    []string // of what there are no symbols, and why
	BadPrograms error    // why what the recording tells of BPF programs is known in part only; nil if all can be read
}

// Replay is a recording that is being followed.
type Replay struct {
	reader  *perfdata.Reader
	options Options
	machine *machine
	stats   Stats
	filter  filter
	symbols *symbols

	locations *locations
	resolvers []*Resolver
	readings  readings
	deferred  deferred
	throttles throttles
	previous  uint64 // time of the sample that was handed out last

	cutChains atomic.Uint64
	outside   atomic.Uint64
	sums      sumQueue
}

// New makes a replay of a recording that is open and of which no record was read.
func New(reader *perfdata.Reader, o Options) *Replay {
	if o.MaxStack == 0 {
		o.MaxStack = 127
	}
	if o.Allowance == nil {
		o.Allowance = allowance.New(allowance.DefaultMemory)
	}
	r := &Replay{reader: reader, options: o, filter: newFilter(o.Filter), locations: &locations{}}
	r.sums.replay = r
	r.symbols = &symbols{replay: r, problems: map[string]bool{}, known: map[uint64]*Symbol{}}
	r.machine = newMachine(r.symbols)
	r.machine.monotonic = isMonotonic(reader.Events())
	r.machine.setFeatures(reader.Features(), reader.ByteOrder())
	return r
}

// Close unmaps the files that symbols were read from. Symbols that were resolved stay valid.
func (r *Replay) Close() {
	for _, d := range r.machine.byKey {
		d.close()
	}
}

// Handler works on some records that follow one another, and appends to out what is to be written for them.
type Handler func(items []Item, out []byte) []byte

// manyEnded is the number of threads that have ended after which those that had ended before are dropped.
const manyEnded = 1024

// pieceSize is the number of records that a handler gets at a time.
const pieceSize = 256

// piece is what a handler made of some items.
type piece struct {
	items []Item
	out   []byte
}

// Run goes through the recording once, in the order of time. Each CPU gets a handler of its own, with a resolver of its own. What they
// append is written to w in the order of the records. Items and what they point to are valid no longer than the call of the handler, but
// for threads, locations and values other than samples.
func (r *Replay) Run(newHandler func(*Resolver) Handler, w io.Writer) error {
	return r.run(newHandler, w, func() error { return nil })
}

// run calls pause now and then, when no handler is at work.
func (r *Replay) run(newHandler func(*Resolver) Handler, w io.Writer, pause func() error) error {
	handlers := make([]Handler, runtime.GOMAXPROCS(0))
	for i := range handlers {
		resolver := &Resolver{replay: r}
		r.resolvers = append(r.resolvers, resolver)
		handlers[i] = newHandler(resolver)
	}
	var items []Item
	var pieces []piece
	var failed, err error
	flush := func(items []Item) ([]Item, error) {
		var err error
		pieces, err = handle(handlers, items, pieces, w)
		return items[:0], err
	}
	for batch, broken := range r.reader.Batches() {
		r.sums.receive()
		for i := range batch {
			if items, err = r.sums.upTo(batch[i].Time, items, flush); err != nil {
				return err
			}
			items = r.next(&batch[i], items)
		}
		if items, err = flush(items); err != nil {
			return err
		}
		if len(r.machine.ended) >= manyEnded {
			r.machine.forgetThreads()
		}
		if err := pause(); err != nil {
			return err
		}
		failed = broken
	}
	r.sums.receive()
	if items, err = r.sums.upTo(math.MaxUint64, items, flush); err != nil {
		return err
	}
	if _, err = flush(r.handOut(r.deferred.take(len(r.deferred.waiting)), items)); err != nil {
		return err
	}
	return failed
}

// handle has the handlers work on items, and writes what they made. The pieces are memory for the next time.
func handle(handlers []Handler, items []Item, pieces []piece, w io.Writer) ([]piece, error) {
	pieces = cut(items, pieces)
	work(handlers, pieces)
	for _, p := range pieces {
		if len(p.out) == 0 {
			continue
		}
		if _, err := w.Write(p.out); err != nil {
			return pieces, err
		}
	}
	return pieces, nil
}

// cut makes pieces of items, with the buffers of the pieces before.
func cut(items []Item, pieces []piece) []piece {
	pieces = pieces[:cap(pieces)]
	n := 0
	for ; len(items) > 0; n++ {
		if n == len(pieces) {
			pieces = append(pieces, piece{})
		}
		size := min(pieceSize, len(items))
		pieces[n].items, items = items[:size], items[size:]
	}
	return pieces[:n]
}

// work has the handlers take one piece after the other.
func work(handlers []Handler, pieces []piece) {
	var next atomic.Int64
	run := func(h Handler) {
		for i := next.Add(1) - 1; i < int64(len(pieces)); i = next.Add(1) - 1 {
			pieces[i].out = h(pieces[i].items, pieces[i].out[:0])
		}
	}
	var others sync.WaitGroup
	for _, h := range handlers[1:min(len(handlers), max(1, len(pieces)))] {
		others.Go(func() { run(h) })
	}
	run(handlers[0])
	others.Wait()
}

// next changes the state by a record, and adds it to the items if it is wanted.
func (r *Replay) next(record *perfdata.Record, items []Item) []Item {
	m := r.machine
	if s, ok := record.Value.(*perfdata.Sample); ok {
		if IsOffCPUDump(record.Event) {
			readOffCPU(record, s, r.reader.ByteOrder())
		}
		t := m.thread(sampleThread(s))
		if !r.filter.wants(s, t) {
			r.stats.Filtered++
			return items
		}
		t.process.load(s.Time)
		if !s.Fields.Has(perfdata.SampleRead) {
			return r.sample(r.item(record, s, t), items)
		}
		r.readings.split(record, s, r.reader.Events(), func(record *perfdata.Record, s *perfdata.Sample) {
			items = r.sample(r.item(record, s, t), items)
		})
		return items
	}
	m.apply(record)
	switch v := record.Value.(type) {
	case *perfdata.Lost:
		r.stats.LostRecords += v.Records
	case *perfdata.LostSamples:
		if v.BPF {
			r.stats.BPFFiltered += v.Samples
		} else {
			r.stats.LostSamples += v.Samples
		}
	case *perfdata.Throttle, *perfdata.Unthrottle:
		r.throttles.apply(v)
	case *perfdata.CallchainDeferred:
		before := len(items)
		items = r.deferred.join(v, items)
		items = r.handOut(items[before:], items[:before])
	}
	if !r.options.Others {
		return items
	}
	item := Item{Record: record, kernel: m.kernel.share()}
	if pid, tid, ok := subject(record.Value); ok {
		t := m.thread(pid, tid)
		item.Thread, item.user = t.Thread, t.process.maps.share()
	}
	return append(items, item)
}

// item is a sample with the state of the machine.
func (r *Replay) item(record *perfdata.Record, s *perfdata.Sample, t *thread) Item {
	item := Item{Record: record, Sample: s, Thread: t.Thread, user: t.process.maps.share(), kernel: r.machine.kernel.share(),
		interval: r.sums.interval}
	if s.Fields.Has(perfdata.SampleCgroup) {
		item.Cgroup = r.machine.cgroups[s.Cgroup]
	}
	return item
}

// sample appends a sample, or keeps it until the rest of its callchain comes.
func (r *Replay) sample(item Item, items []Item) []Item {
	if _, waits := cookieOf(item.Sample); waits {
		return r.handOut(r.deferred.hold(item), items)
	}
	return append(items, r.counted(item))
}

// handOut appends samples that had to wait.
func (r *Replay) handOut(waited, items []Item) []Item {
	for _, item := range waited {
		items = append(items, r.counted(item))
	}
	return items
}

// counted is a sample that is handed out now.
func (r *Replay) counted(item Item) Item {
	time := item.Sample.Time
	if r.stats.Samples == 0 || time < r.stats.First {
		r.stats.First = time
	}
	r.stats.Samples++
	r.stats.Last = max(r.stats.Last, time)
	item.Previous, r.previous = r.previous, time
	return item
}

// sampleThread is the thread that a sample is of: -1 if it does not tell.
func sampleThread(s *perfdata.Sample) (pid, tid int32) {
	if !s.Fields.Has(perfdata.SampleTID) {
		return -1, -1
	}
	return s.PID, s.TID
}

// First is the time of the first sample that was handed out, in ns of the recording's clock. Handlers may ask for it.
func (r *Replay) First() uint64 { return r.stats.First }

// Stats is what was seen up to now; of all of the recording when Run has ended.
func (r *Replay) Stats() Stats {
	s := r.stats
	s.Stats = r.reader.Stats()
	if err := r.machine.badBuildIDs; err != nil {
		s.Damaged = append(s.Damaged, err)
	}
	s.CutChains, s.Problems, s.BadPrograms = r.cutChains.Load(), r.problems(), r.machine.programs.err
	s.Outside = r.outside.Load()
	s.Throttled, s.Stopped = r.throttles.count, r.throttles.until(s.Last)
	return s
}

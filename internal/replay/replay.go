package replay

import (
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/perfdata"
)

// Item is a record with the state of the machine at its time.
type Item struct {
	*perfdata.Record
	Sample   *perfdata.Sample // nil for other records
	Thread   Thread           // thread of the record, if it has one
	Previous uint64           // of samples: the time of the previous one, in ns; 0 for the first
	Cgroup   string           // of samples with SampleCgroup: the path; empty if unknown
	Raw      bool             // the record as it was read (Options.Raw): Sample is nil

	user, kernel *addressSpace
	cgroups      *perfdata.NamespaceLink // the thread's cgroup namespace; nil if unknown
	sum          *Sum                    // nil for other records
	interval     uint32                  // with Options.Sums
}

// maps returns the address space of a CPU mode. It is nil if there is none.
func (i *Item) maps(mode perfdata.Misc) *addressSpace {
	switch mode {
	case perfdata.MiscUser:
		return i.user
	case perfdata.MiscKernel:
		return i.kernel
	}
	return nil
}

// Stats counts what was read, and what is missing.
type Stats struct {
	perfdata.Stats
	Samples     uint64 // number of samples that were handed out
	First, Last uint64 // times of the oldest and the newest sample, in ns of the recording's clock
	Filtered    uint64 // samples that Options.Filter left out
	LostRecords uint64 // records that the kernel had no room for: LOST
	LostSamples uint64 // LOST_SAMPLES, without those that a BPF filter dropped
	BPFFiltered uint64 // samples that a BPF filter of the event dropped
	Throttled   uint64 // number of times that an event was stopped because it overflowed too often: THROTTLE
	Stopped     uint64 // total time that events were stopped, in ns
	Outside     uint64 // samples outside Options.Functions
	CutChains   uint64 // callchains that end at an entry that is not an address

	Problems    []string // what has no symbols, and why
	BadPrograms error    // why BPF programs are only partly known; nil if all can be read
}

// Replay follows a recording.
type Replay struct {
	reader  *perfdata.Reader
	options Options
	machine *machine
	stats   Stats
	symbols *symbols

	locations *locations
	resolvers []*Resolver
	readings  readings
	deferred  deferred
	throttles throttles
	ahead     *ahead // nil without Options.Debuginfod
	shift     shift
	on        bool   // the state of Filter.Switches
	previous  uint64 // time of the last sample that was handed out

	cutChains atomic.Uint64
	outside   atomic.Uint64
	sums      sumQueue
	dsos      map[profile.ModuleID]*DSO // see DSO
}

// New returns a replay of an open recording from which no record was read yet.
func New(reader *perfdata.Reader, o Options) *Replay {
	if o.MaxStack == 0 {
		o.MaxStack = 127
	}
	if o.Allowance == nil {
		o.Allowance = allowance.New(allowance.DefaultMemory)
	}
	r := &Replay{reader: reader, options: o, locations: &locations{}, on: o.Filter.Switches.On == "", readings: readings{}}
	if o.Debuginfod != nil {
		r.ahead = newAhead(&o)
		r.options.Debuginfod = o.Debuginfod.WithContext(r.ahead.ctx)
	}
	r.sums.replay = r
	r.symbols = &symbols{replay: r, problems: map[string]bool{}, known: map[uint64]*Symbol{}}
	r.machine = newMachine(r.symbols)
	r.machine.monotonic = isMonotonic(reader.Events())
	r.machine.setFeatures(reader.Features(), reader.ByteOrder())
	return r
}

// Close unmaps the files that symbols were read from. Symbols that were resolved stay valid.
func (r *Replay) Close() {
	if r.ahead != nil {
		r.ahead.close()
	}
	r.symbols.storing.Wait()
	for _, d := range r.machine.byKey {
		d.close()
	}
}

// Handler processes consecutive records and appends their output to out.
type Handler func(items []Item, out []byte) []byte

// manyEnded is the number of ended threads at which run drops those that had ended before.
const manyEnded = 1024

// A handler gets at most mostItems records at a time without Options.Portion, and at least leastItems of those that are there. Many at a time
// are of few processes, and their callers are looked up once. Few in the end let all handlers end at the same time.
const (
	mostItems  = 128
	leastItems = 16
)

// piece is a group of items with the output of a handler.
type piece struct {
	items []Item
	out   []byte
}

// Run reads the recording once, in the order of time. Each CPU gets its own handler with its own resolver; with Options.Ordered there is
// only one. Run writes their output to w in the order of the records. Items and what they point to are valid only during the call of the
// handler, except threads, locations and values other than samples.
func (r *Replay) Run(newHandler func(*Resolver) Handler, w io.Writer) error {
	return r.run(newHandler, w, func() error { return nil })
}

// run does the same as Run. It also calls pause now and then.
func (r *Replay) run(newHandler func(*Resolver) Handler, w io.Writer, pause func() error) error {
	workers := runtime.GOMAXPROCS(0)
	if r.options.Ordered {
		workers = 1
	}
	shift := &r.shift
	shift.w = w
	for range workers {
		resolver := &Resolver{replay: r}
		resolver.forget() // its caches are written before they are read, as in package profile
		r.resolvers = append(r.resolvers, resolver)
		shift.handlers = append(shift.handlers, newHandler(resolver))
	}
	shift.start()
	defer shift.end()
	var items []Item
	var busy [jobs][]Item // items that handlers may be at work on
	var failed, err error
	// flush hands the items to the handlers and returns room for the next ones. The handlers are at work when it returns.
	flush := func(items []Item) ([]Item, error) {
		portion, size := max(1, len(items)), mostItems
		if n := r.options.Portion; n > 0 {
			portion, size = n, max(1, n/workers)
		}
		for some := range slices.Chunk(items, portion) {
			if r.ahead != nil && !r.options.NoNames {
				r.ahead.add(some)
			}
			shift.begin(some, size)
		}
		if r.options.Sums != nil || len(items) == 0 { // the memory of sums is used again
			shift.wait()
		}
		free := busy[0]
		copy(busy[:], busy[1:])
		busy[jobs-1] = items
		return free[:0], shift.err
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
			shift.wait()
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
	if shift.wait(); shift.err != nil {
		return shift.err
	}
	return failed
}

// shift lets the handlers work on items while the caller collects the next ones. Only the goroutine of Run calls its methods.
type shift struct {
	handlers []Handler
	queues   []chan *job // one for each handler
	w        io.Writer
	jobs     [jobs]job
	begun    int   // number of jobs that have begun
	ended    int   // number of those that have ended, and whose output is written
	err      error // of writing
}

// jobs is the number of jobs that handlers can have at a time. With a second one, a handler need not wait for the others at the end of the
// first one.
const jobs = 2

// job is items in pieces. A handler takes the next piece when it is done with one.
type job struct {
	pieces  []piece
	next    atomic.Int64
	working sync.WaitGroup
}

// start starts the goroutines of the handlers.
func (s *shift) start() {
	for _, h := range s.handlers {
		queue := make(chan *job, jobs)
		s.queues = append(s.queues, queue)
		go func() {
			for t := range queue {
				for i := t.next.Add(1) - 1; i < int64(len(t.pieces)); i = t.next.Add(1) - 1 {
					t.pieces[i].out = h(t.pieces[i].items, t.pieces[i].out[:0])
				}
				t.working.Done()
			}
		}()
	}
}

// end waits for the end of all work and ends the goroutines.
func (s *shift) end() {
	s.wait()
	for _, queue := range s.queues {
		close(queue)
	}
	s.queues = nil
}

// begin begins with these items, in pieces of at most size. If all jobs are in work, it first waits for the end of the oldest one.
func (s *shift) begin(items []Item, size int) {
	if s.begun-s.ended == jobs {
		s.finish()
	}
	t := &s.jobs[s.begun%jobs]
	s.begun++
	t.pieces = cut(items, len(s.handlers), size, t.pieces)
	t.next.Store(0)
	for _, queue := range s.queues[:min(len(s.queues), len(t.pieces))] {
		t.working.Add(1)
		queue <- t
	}
}

// wait waits until no handler is at work, and writes what they have printed.
func (s *shift) wait() {
	for s.ended < s.begun {
		s.finish()
	}
}

// finish waits for the end of the oldest job, and writes what the handlers have printed.
func (s *shift) finish() {
	t := &s.jobs[s.ended%jobs]
	s.ended++
	t.working.Wait()
	for i := range t.pieces {
		if out := t.pieces[i].out; len(out) > 0 && s.err == nil {
			_, s.err = s.w.Write(out)
		}
	}
	t.pieces = t.pieces[:0]
}

// cut splits items into pieces for a number of handlers, each of at most the given number. Pieces become smaller towards the end. It reuses
// the buffers of the previous pieces.
func cut(items []Item, handlers, most int, pieces []piece) []piece {
	pieces = pieces[:cap(pieces)]
	n := 0
	for ; len(items) > 0; n++ {
		if n == len(pieces) {
			pieces = append(pieces, piece{})
		}
		size := min(most, max(leastItems, len(items)/(2*handlers)), len(items))
		pieces[n].items, items = items[:size], items[size:]
	}
	return pieces[:n]
}

// next updates the state by a record, and adds the record to the items if it is wanted.
func (r *Replay) next(record *perfdata.Record, items []Item) []Item {
	m := r.machine
	if r.options.Raw {
		items = append(items, Item{Record: record, Raw: true, kernel: m.kernel.share()})
	}
	if s, ok := record.Value.(*perfdata.Sample); ok {
		if IsOffCPUDump(record.Event) {
			readOffCPU(record, s, r.reader.ByteOrder())
		}
		t := m.thread(sampleThread(s))
		if !r.options.Filter.wants(s, t) {
			r.stats.Filtered++
			return items
		}
		t.process.load(s.Time)
		if !s.Fields.Has(perfdata.SampleRead) {
			return r.sample(r.item(record, s, t), items)
		}
		r.readings.split(record, s, r.reader.EventByID, func(record *perfdata.Record, s *perfdata.Sample) {
			items = r.sample(r.item(record, s, t), items)
		})
		return items
	}
	if affectsHandlers(record) {
		r.shift.wait()
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
	if r.options.Records != nil {
		r.options.Records(record)
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

// affectsHandlers reports whether no handler may be at work while a record is applied: it changes the kernel's image or the BPF programs, which
// handlers read without a lock, or Options.Records may print it, after the samples before it.
func affectsHandlers(record *perfdata.Record) bool {
	switch record.Value.(type) {
	case *perfdata.Mmap, *perfdata.Mmap2:
		return record.Misc.CPUMode() == perfdata.MiscKernel
	case *perfdata.KSymbol, *perfdata.Comm, *perfdata.Fork, *perfdata.Exit, *perfdata.Namespaces, *perfdata.Cgroup, *perfdata.Lost, *perfdata.LostSamples,
		*perfdata.Throttle, *perfdata.Unthrottle, *perfdata.CallchainDeferred, *perfdata.Switch, *perfdata.SwitchCPUWide, *perfdata.FinishedRound:
		return false
	}
	return true
}

// item returns a sample with the state of the machine.
func (r *Replay) item(record *perfdata.Record, s *perfdata.Sample, t *thread) Item {
	item := Item{Record: record, Sample: s, Thread: t.Thread, user: t.process.maps.share(), kernel: r.machine.kernel.share(),
		cgroups: t.cgroups, interval: r.sums.interval}
	if s.Fields.Has(perfdata.SampleCgroup) {
		item.Cgroup = r.machine.cgroups[s.Cgroup]
	}
	return item
}

// sample appends a sample, or holds it until the rest of its callchain comes.
func (r *Replay) sample(item Item, items []Item) []Item {
	if !r.options.Filter.Switches.keeps(item.Event, &r.on) {
		r.stats.Filtered++
		return items
	}
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

// counted counts a sample that is handed out, and completes it with the time of the previous one.
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

// sampleThread returns the thread of a sample, or -1 if the sample does not have it.
func sampleThread(s *perfdata.Sample) (pid, tid int32) {
	if !s.Fields.Has(perfdata.SampleTID) {
		return -1, -1
	}
	return s.PID, s.TID
}

// First returns the time of the oldest sample that was handed out so far, in ns of the recording's clock. Handlers may call it.
func (r *Replay) First() uint64 { return r.stats.First }

// Stats returns the statistics so far. They are complete when Run has returned.
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

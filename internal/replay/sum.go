package replay

import (
	"cmp"
	"slices"
	"sync"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/perfdata"
)

// Sum is a number of equal samples that were added up where they were taken.
type Sum struct {
	Event        int    // index of an event of the recording, or Other(i)
	Time         uint64 // of the first sample, in ns of the recording's clock
	PID, TID     int32  // -1 if samples of several were added up
	CPU          int32  // -1 if samples of several CPUs were added up
	Cgroup       uint64
	IP           uint64   // the innermost frame
	Kernel, User []uint64 // its callers, the innermost first
	Count        uint64   // number of samples; 0 only states that Interval has begun
	Value        uint64   // the sum of the periods
	Interval     uint32   // interval of the samples, from 0
	Comm         string   // thread name; empty for the one in the recording
	CgroupPath   string   // empty for the one in the recording
	Tags         []SumTag
}

// SumTag is a label with a free name.
type SumTag struct{ Key, Value string }

// Other returns the value of Sum.Event for the i-th of Sums.Others.
func Other(i int) int { return -1 - i }

// Sums passes sums to a replay, which inserts them among the recording's records by time: it hands out a sum when a record with a later
// time comes, or when the recording ends. After adding sums, the caller must therefore write a record with the current time.
type Sums struct {
	Stacks bool              // sums have stacks
	Others []*perfdata.Event // events of sums that the recording does not have

	mu    sync.Mutex
	added []queuedSum
	sums  []Sum  // free space for sums
	count uint64 // number of sums so far
}

// queuedSum is a sum with its place in the order of handing out: sums of one time come in the order in which they were added. Ordering looks
// at no sum, as there can be many, each elsewhere in memory.
type queuedSum struct {
	time, number uint64
	sum          *Sum
}

// Add adds a copy of a sum, which shares its slices: they must not change any more.
func (s *Sums) Add(sum *Sum) {
	const room = 256
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sums) == 0 {
		s.sums = make([]Sum, room)
	}
	p := &s.sums[0]
	s.sums = s.sums[1:]
	*p = *sum
	s.added = append(s.added, queuedSum{sum.Time, s.count, p})
	s.count++
}

// InKernel reports whether the innermost frame is in the kernel, which has the upper half of the addresses.
func (s *Sum) InKernel() bool { return int64(s.IP) < 0 }

// appendCallchain appends the innermost frame and its callers to a callchain.
func (s *Sum) appendCallchain(chain []uint64) []uint64 {
	switch {
	case s.IP == 0:
		return perfdata.AppendCallchain(chain, s.Kernel, s.User)
	case s.InKernel():
		chain = append(append(chain, perfdata.ContextKernel, s.IP), s.Kernel...)
		return perfdata.AppendCallchain(chain, nil, s.User)
	}
	chain = perfdata.AppendCallchain(chain, s.Kernel, nil)
	return append(append(chain, perfdata.ContextUser, s.IP), s.User...)
}

// take returns what was added since the last call.
func (s *Sums) take() []queuedSum {
	s.mu.Lock()
	defer s.mu.Unlock()
	added := s.added
	s.added = nil
	return added
}

// sumQueue holds the sums that a replay has not handed out yet.
type sumQueue struct {
	replay   *Replay
	waiting  []queuedSum       // in order
	interval uint32            // last interval with a sum
	all      []*perfdata.Event // see events
	records  []perfdata.Record
	samples  []perfdata.Sample
}

// mostSums is the maximum number of sums that are handed out at a time.
const mostSums = 2048

// receive takes the sums that were added since the last call. Sums with a time before a record's were added before that record was written.
func (q *sumQueue) receive() {
	if q.replay.options.Sums == nil {
		return
	}
	q.waiting = append(q.waiting, q.replay.options.Sums.take()...)
	slices.SortFunc(q.waiting, func(a, b queuedSum) int {
		if a.time != b.time { // nearly always, and cmp.Or would compare the numbers, too
			return cmp.Compare(a.time, b.time)
		}
		return cmp.Compare(a.number, b.number)
	})
	if q.records == nil {
		q.records, q.samples = make([]perfdata.Record, mostSums), make([]perfdata.Sample, mostSums)
	}
}

// upTo appends all sums before a time to the items. It calls flush when there are too many items.
func (q *sumQueue) upTo(time uint64, items []Item, flush func([]Item) ([]Item, error)) (_ []Item, err error) {
	for len(q.waiting) > 0 && q.waiting[0].time < time {
		if len(items) >= mostSums {
			if items, err = flush(items); err != nil {
				return nil, err
			}
		}
		items = q.sum(q.waiting[0].sum, &q.records[len(items)], &q.samples[len(items)], items)
		q.waiting[0], q.waiting = queuedSum{}, q.waiting[1:]
	}
	return items, nil
}

// sum appends a sum to the items as a sample.
func (q *sumQueue) sum(of *Sum, record *perfdata.Record, s *perfdata.Sample, items []Item) []Item {
	r := q.replay
	q.interval = max(q.interval, of.Interval)
	if of.Count == 0 {
		return items
	}
	*record = perfdata.Record{Type: perfdata.RecordSample, Misc: perfdata.MiscUser, Time: of.Time, Event: q.event(of.Event), Value: s}
	if of.InKernel() {
		record.Misc = perfdata.MiscKernel
	}
	*s = perfdata.Sample{IP: of.IP, Period: of.Value, Cgroup: of.Cgroup, Callchain: s.Callchain[:0]}
	s.Fields, s.PID, s.TID, s.CPU, s.Time = sumFields, of.PID, of.TID, uint32(of.CPU), of.Time
	if r.options.Sums.Stacks {
		s.Fields, s.Callchain = s.Fields|perfdata.SampleCallchain, of.appendCallchain(s.Callchain)
	}
	t := r.machine.thread(of.PID, of.TID)
	t.process.load(of.Time)
	item := r.item(record, s, t)
	item.sum, item.interval, item.Cgroup = of, of.Interval, cmp.Or(of.CgroupPath, item.Cgroup)
	return r.sample(item, items)
}

const sumFields = perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU | perfdata.SamplePeriod | perfdata.SampleCgroup

// event returns the event of a sum, or nil.
func (q *sumQueue) event(of int) *perfdata.Event {
	events := q.events()
	if of < 0 {
		of = len(q.replay.reader.Events()) - 1 - of
	}
	if of >= len(events) {
		return nil
	}
	return events[of]
}

// events returns the events of the recording, followed by Sums.Others.
func (q *sumQueue) events() []*perfdata.Event {
	r := q.replay
	if r.options.Sums == nil || len(r.options.Sums.Others) == 0 {
		return r.reader.Events()
	}
	if q.all == nil {
		q.all = slices.Clone(r.reader.Events())
		for _, e := range r.options.Sums.Others {
			e.Index = len(q.all)
			q.all = append(q.all, e)
		}
	}
	return q.all
}

// tags stores labels as a list. The first one comes first.
func (f *filler) tags(all []SumTag) profile.TagsID {
	var list profile.TagsID
	for _, t := range slices.Backward(all) {
		list = f.p.Tags.ID(profile.Tag{Key: f.p.Strings.ID(t.Key), Value: f.p.Strings.ID(t.Value), Next: list})
	}
	return list
}

// wanted reports whether a leaf is in Options.Functions. It is true if there are none.
func (f *filler) wanted(leaf profile.FrameID) bool {
	only := f.replay.options.Functions
	if len(only) == 0 {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	function := f.p.Functions.At(f.p.Frames()[leaf].Function)
	return slices.Contains(only, f.p.Strings.At(function.Name)) || function.Linkage != 0 && slices.Contains(only, f.p.Strings.At(function.Linkage))
}

// addSum adds a sum to the profile.
func (p *part) addSum(item *Item, sample profile.Sample) {
	if !p.wanted(sample.Leaf) {
		p.filler.replay.outside.Add(item.sum.Count)
		return
	}
	sample.Labels, sample.Count = p.sumLabel(item), item.sum.Count
	p.own.Add(sample)
}

// sumLabel returns the labels of a sum.
func (p *part) sumLabel(item *Item) profile.LabelsID {
	key := labelKey{item.Thread, item.sum.CPU, item.Cgroup, true}
	switch {
	case item.sum.Comm != "":
		key.Comm = item.sum.Comm
	case key.TID == -1: // a sum of several threads has no name
		key.Comm = ""
	}
	if len(item.sum.Tags) > 0 {
		return p.newLabel(key, item.sum.Tags)
	}
	return p.labelOf(key)
}

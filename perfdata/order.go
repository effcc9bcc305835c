package perfdata

import "sync/atomic"

// chunk is memory with records. It goes back to where it came from when nothing points into it any more.
type chunk struct {
	memory []byte // chunkSize; nil while it must be read again before use
	n      int    // bytes of it that are in use; the splitter's alone, like added
	base   int64  // in the file, of the first byte
	inner  bool   // decompressed: base is that of the record around it
	given  bool   // some of its records were delivered; the splitter's alone
	refs   atomic.Int64
	added  int64 // references that the splitter has given out
}

// chunkSize is enough for the start of a record that did not end in the chunk before, and for reading on.
const chunkSize = 256 << 10

// held keeps a chunk from being given back while the splitter works on it.
const held = 1 << 40

func (c *chunk) offset(at uint32) int64 {
	if c.inner {
		return c.base
	}
	return c.base + int64(at)
}

// item is a record in a chunk.
type item struct {
	time     uint64
	chunk    *chunk
	at, size uint32
}

func (i *item) raw() []byte { return i.chunk.memory[i.at : i.at+i.size : i.at+i.size] }

// maxPending bounds the bytes of records that wait for their round to finish. Two rounds of a machine with 256 CPUs and perf's default
// rings, all full, are as large.
const maxPending = 256 << 20

// orderer puts records in the order of time. perf record reads all rings in turns: what a ring gives in one round is not older than
// what any gave in the round before the last.
type orderer struct {
	pending []item
	spare   []item
	bytes   int64 // of pending
	sorted  int   // so many of pending are, from the front on
	max     uint64
	limit   uint64 // newest time of the round before
	emit    func(item)
}

func (o *orderer) add(i item) {
	o.pending = append(o.pending, i)
	o.bytes += int64(i.size)
	o.max = max(o.max, i.time)
	if o.bytes > maxPending {
		o.sort()
		o.flush(len(o.pending) / 2)
	}
}

// round gives what cannot be preceded by anything that follows.
func (o *orderer) round() {
	o.sort()
	n := 0
	for n < len(o.pending) && o.pending[n].time <= o.limit {
		n++
	}
	o.flush(n)
	o.limit = o.max
}

// end gives everything.
func (o *orderer) end() {
	o.sort()
	o.flush(len(o.pending))
}

func (o *orderer) flush(n int) {
	for _, i := range o.pending[:n] {
		o.bytes -= int64(i.size)
		o.emit(i)
	}
	rest := copy(o.pending, o.pending[n:])
	clear(o.pending[rest:])
	o.pending = o.pending[:rest]
	o.sorted = rest
}

// sort sorts by time and keeps what has the same time in its order. The rings give runs that are in order already, so that merging runs is
// faster than any other sorting.
func (o *orderer) sort() {
	if len(o.pending) > o.sorted {
		o.pending, o.spare = mergeRuns(o.pending, o.spare)
	}
	o.sorted = len(o.pending)
}

// mergeRuns merges neighbouring runs of a until one is left. It returns the result and memory for the next time.
func mergeRuns(a, spare []item) (sorted, rest []item) {
	ends := runs(a)
	if len(ends) == 1 {
		return a, spare
	}
	if cap(spare) < len(a) {
		spare = make([]item, 0, cap(a))
	}
	from, to := a, spare[:len(a)]
	for len(ends) > 1 {
		merged := ends[:0]
		start := 0
		for i := 0; i < len(ends); i += 2 {
			if i+1 == len(ends) {
				copy(to[start:ends[i]], from[start:ends[i]])
				merged = append(merged, ends[i])
				break
			}
			middle, end := ends[i], ends[i+1]
			merge(to[start:end], from[start:middle], from[middle:end])
			merged = append(merged, end)
			start = end
		}
		ends = merged
		from, to = to, from
	}
	clear(to)
	return from, to[:0]
}

// runs returns where each stretch of ascending times ends.
func runs(a []item) []int {
	var ends []int
	for i := 1; i < len(a); i++ {
		if a[i].time < a[i-1].time {
			ends = append(ends, i)
		}
	}
	return append(ends, len(a))
}

func merge(to, a, b []item) {
	for i := range to {
		if len(b) == 0 || len(a) > 0 && a[0].time <= b[0].time {
			to[i], a = a[0], a[1:]
		} else {
			to[i], b = b[0], b[1:]
		}
	}
}

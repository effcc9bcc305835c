package perfdata

import "slices"

// item is a record in a chunk.
type item struct {
	time     uint64
	chunk    *chunk
	at, size uint32
}

func (i *item) raw() []byte { return i.chunk.memory[i.at : i.at+i.size : i.at+i.size] }

// waiting is an item of an orderer in 16 bytes. It has no pointers, so the garbage collector does not read millions of them.
type waiting struct {
	time  uint64
	where uint64 // from the highest bit: the index of the chunk in orderer.chunks, the offset and the size of the record
}

// The sizes of the lowest parts of waiting.where. They have room for each offset in a chunk, and for the size in the header of a record.
const (
	offsetBits = 18
	sizeBits   = 16
	chunkShift = offsetBits + sizeBits
)

// maxPending bounds the bytes of records that wait for their round to finish. It is two rounds of a machine with 256 CPUs whose rings, of
// perf's default size, are all full.
const maxPending = 256 << 20

// orderer sorts records by time. perf record reads all rings in rounds. A record of one round is never older than a record from two rounds
// before.
type orderer struct {
	pending []waiting
	spare   []waiting
	chunks  []*chunk // those of pending, and others between them
	bytes   int64    // size of the records in pending
	sorted  int      // length of the sorted front of pending
	max     uint64
	limit   uint64                  // newest time up to the end of the previous round
	last    uint64                  // newest time of the emitted records
	emit    func(i item, late bool) // late: a newer record was emitted before
}

func (o *orderer) add(i item) {
	if n := len(o.chunks); n == 0 || o.chunks[n-1] != i.chunk {
		o.chunks = append(o.chunks, i.chunk)
	}
	o.pending = append(o.pending, waiting{i.time, uint64(len(o.chunks)-1)<<chunkShift | uint64(i.at)<<sizeBits | uint64(i.size)})
	o.bytes += int64(i.size)
	o.max = max(o.max, i.time)
	if o.bytes > maxPending {
		o.sort()
		o.flush(len(o.pending) / 2)
	}
}

// round ends a round. It emits the records that no later record can precede.
func (o *orderer) round() {
	o.sort()
	n := 0
	for n < len(o.pending) && o.pending[n].time <= o.limit {
		n++
	}
	o.flush(n)
	o.limit = o.max
}

// end emits all records.
func (o *orderer) end() {
	o.sort()
	o.flush(len(o.pending))
}

func (o *orderer) flush(n int) {
	for _, w := range o.pending[:n] {
		i := item{w.time, o.chunks[w.where>>chunkShift], uint32(w.where >> sizeBits % (1 << offsetBits)), uint32(w.where % (1 << sizeBits))}
		o.bytes -= int64(i.size)
		o.emit(i, i.time < o.last)
		o.last = max(o.last, i.time)
	}
	rest := copy(o.pending, o.pending[n:])
	o.pending = o.pending[:rest]
	o.sorted = rest
	o.forget()
}

// forget drops the chunks before those of pending records.
func (o *orderer) forget() {
	first := uint64(len(o.chunks))
	for _, w := range o.pending {
		first = min(first, w.where>>chunkShift)
	}
	for i := range o.pending {
		o.pending[i].where -= first << chunkShift
	}
	o.chunks = slices.Delete(o.chunks, 0, int(first))
}

// sort is a stable sort by time. Each ring yields a run that is sorted already, so merging runs is faster than other algorithms.
func (o *orderer) sort() {
	if len(o.pending) > o.sorted {
		o.pending, o.spare = mergeRuns(o.pending, o.spare)
	}
	o.sorted = len(o.pending)
}

// mergeRuns merges neighbouring runs of a until one is left. It returns the sorted records, and memory for the next call.
func mergeRuns(a, spare []waiting) (sorted, rest []waiting) {
	ends := runs(a)
	if len(ends) == 1 {
		return a, spare
	}
	if cap(spare) < len(a) {
		spare = make([]waiting, 0, cap(a))
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
	return from, to[:0]
}

// runs returns the end index of each run of ascending times.
func runs(a []waiting) []int {
	var ends []int
	for i := 1; i < len(a); i++ {
		if a[i].time < a[i-1].time {
			ends = append(ends, i)
		}
	}
	return append(ends, len(a))
}

func merge(to, a, b []waiting) {
	for i := range to {
		if len(b) == 0 || len(a) > 0 && a[0].time <= b[0].time {
			to[i], a = a[0], a[1:]
		} else {
			to[i], b = b[0], b[1:]
		}
	}
}

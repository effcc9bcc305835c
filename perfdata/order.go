package perfdata

// item is a record in a chunk.
type item struct {
	time     uint64
	chunk    *chunk
	at, size uint32
}

func (i *item) raw() []byte { return i.chunk.memory[i.at : i.at+i.size : i.at+i.size] }

// maxPending bounds the bytes of records that wait for their round to finish. It is two rounds of a machine with 256 CPUs whose rings, of
// perf's default size, are all full.
const maxPending = 256 << 20

// orderer sorts records by time. perf record reads all rings in rounds. A record of one round is never older than a record from two rounds
// before.
type orderer struct {
	pending []item
	spare   []item
	bytes   int64 // size of the records in pending
	sorted  int   // length of the sorted front of pending
	max     uint64
	limit   uint64                  // newest time up to the end of the previous round
	last    uint64                  // newest time of the emitted records
	emit    func(i item, late bool) // late: a newer record was emitted before
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
	for _, i := range o.pending[:n] {
		o.bytes -= int64(i.size)
		o.emit(i, i.time < o.last)
		o.last = max(o.last, i.time)
	}
	rest := copy(o.pending, o.pending[n:])
	clear(o.pending[rest:])
	o.pending = o.pending[:rest]
	o.sorted = rest
}

// sort is a stable sort by time. Each ring yields a run that is sorted already, so merging runs is faster than other algorithms.
func (o *orderer) sort() {
	if len(o.pending) > o.sorted {
		o.pending, o.spare = mergeRuns(o.pending, o.spare)
	}
	o.sorted = len(o.pending)
}

// mergeRuns merges neighbouring runs of a until one is left. It returns the sorted items, and memory for the next call.
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

// runs returns the end index of each run of ascending times.
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

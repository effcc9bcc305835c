package bpfprog

import "slices"

// unseen finds the loads of which there was no record: the kernel gives programs their IDs one after another (idr_alloc_cyclic), so
// that an ID which was left out is that of a program whose record was lost, or was left on a CPU that nobody watched.
type unseen struct {
	last uint32 // the highest ID of a load; 0 before the first
	gaps []gap  // from the lowest on
}

// gap is a range of IDs that were left out, since a time in ns since boot.
type gap struct {
	first, last uint32
	since       uint64
}

// mostLeftOut is how many IDs may be left out at once: beyond that, the kernel has begun anew, or somebody changed the sequence.
const mostLeftOut = 1 << 20

// add is a load. Those of several CPUs at a time may have come in another order than their IDs.
func (u *unseen) add(id uint32, at uint64) {
	switch {
	case u.last != 0 && id > u.last+1 && id-u.last <= mostLeftOut:
		u.gaps = append(u.gaps, gap{u.last + 1, id - 1, at})
	case id < u.last:
		u.drop(id)
	}
	if id > u.last || u.last-id > mostLeftOut {
		u.last = id
	}
}

// drop takes an ID out of the gaps.
func (u *unseen) drop(id uint32) {
	for i, g := range u.gaps {
		if id < g.first || id > g.last {
			continue
		}
		var rest []gap
		if g.first < id {
			rest = append(rest, gap{g.first, id - 1, g.since})
		}
		if id < g.last {
			rest = append(rest, gap{id + 1, g.last, g.since})
		}
		u.gaps = slices.Replace(u.gaps, i, i+1, rest...)
		return
	}
}

// due takes out the gaps that have been there since a time or before.
func (u *unseen) due(since uint64) (due []gap) {
	u.gaps = slices.DeleteFunc(u.gaps, func(g gap) bool {
		if g.since <= since {
			due = append(due, g)
		}
		return g.since <= since
	})
	return due
}

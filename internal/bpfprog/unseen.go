package bpfprog

import "slices"

// unseen finds loads without a record. The kernel assigns program IDs in sequence (idr_alloc_cyclic), so an ID that was skipped belongs to
// a program whose record was lost, or was written on a CPU without a ring.
type unseen struct {
	last uint32 // highest ID so far; 0 before the first load
	gaps []gap  // in ascending order
}

// gap is a range of skipped IDs.
type gap struct {
	first, last uint32
	since       uint64 // time of the load that revealed the gap, ns since boot
}

// mostLeftOut is the largest gap, in IDs. A larger jump means that the kernel's sequence wrapped or was changed.
const mostLeftOut = 1 << 20

// add adds a load. Loads on several CPUs at once may arrive in another order than their IDs.
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

// drop removes an ID from the gaps.
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

// due removes and returns the gaps that opened at a time or before it.
func (u *unseen) due(since uint64) (due []gap) {
	u.gaps = slices.DeleteFunc(u.gaps, func(g gap) bool {
		if g.since <= since {
			due = append(due, g)
		}
		return g.since <= since
	})
	return due
}

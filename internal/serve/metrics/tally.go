package metrics

import (
	"cmp"
	"slices"
)

// tally adds up the counts of members, such as BPF programs, by the labels that they are exported with. Several members can have the same
// labels. A sum does not fall when one of them ends: the sum keeps what it counted, as long as another member has the same labels. M
// identifies a member, L is its labels. A tally holds only the members of the newest snapshot.
type tally[M, L comparable] struct {
	members map[M]*member[L]
	sums    map[L]*sum[L]
	begun   uint64 // sums that were ever begun
}

// member is one source of counts.
type member[L comparable] struct {
	labels L
	counts []uint64 // the largest seen so far
	fresh  bool     // in the current snapshot
}

// sum is the sum of all members with the same labels.
type sum[L comparable] struct {
	labels  L
	order   uint64 // of its begin: a sum that the limit of series let in keeps its place
	members int
	counts  []uint64
}

func newTally[M, L comparable]() *tally[M, L] {
	return &tally[M, L]{members: map[M]*member[L]{}, sums: map[L]*sum[L]{}}
}

// add adds what a member counted since the last snapshot. A count that fell adds nothing.
func (t *tally[M, L]) add(id M, labels L, counts []uint64) {
	m := t.members[id]
	if m != nil && m.labels != labels {
		t.rename(m, labels, len(counts))
	}
	if m == nil {
		m = &member[L]{labels: labels, counts: make([]uint64, len(counts))}
		t.members[id] = m
		t.join(labels, len(counts)).members++
	}
	m.fresh = true
	s := t.sums[labels]
	for i, c := range counts {
		if c > m.counts[i] {
			s.counts[i] += c - m.counts[i]
			m.counts[i] = c
		}
	}
}

// rename moves a member to other labels, such as those of a container whose pod became known. The new sum has all that the member counted.
func (t *tally[M, L]) rename(m *member[L], labels L, counts int) {
	t.leave(m.labels)
	m.labels = labels
	s := t.join(labels, counts)
	s.members++
	for i, c := range m.counts {
		s.counts[i] += c
	}
}

func (t *tally[M, L]) join(labels L, counts int) *sum[L] {
	s := t.sums[labels]
	if s == nil {
		s = &sum[L]{labels: labels, order: t.begun, counts: make([]uint64, counts)}
		t.begun++
		t.sums[labels] = s
	}
	return s
}

func (t *tally[M, L]) leave(labels L) {
	s := t.sums[labels]
	if s.members--; s.members == 0 {
		delete(t.sums, labels)
	}
}

// settle drops the members that were not added since the last call, and returns the sums in the order in which they began.
func (t *tally[M, L]) settle() []*sum[L] {
	for id, m := range t.members {
		if !m.fresh {
			t.leave(m.labels)
			delete(t.members, id)
		}
		m.fresh = false
	}
	sums := make([]*sum[L], 0, len(t.sums))
	for _, s := range t.sums {
		sums = append(sums, s)
	}
	slices.SortFunc(sums, func(a, b *sum[L]) int { return cmp.Compare(a.order, b.order) })
	return sums
}

package replay

import "github.com/bperf/bperf/perfdata"

// deferred holds samples whose user part of the callchain comes in a later record: CALLCHAIN_DEFERRED, when the thread returns to user
// mode. Linux 6.19.
type deferred struct {
	waiting []Item // by time
}

// maxDeferred is the maximum number of waiting samples. A thread that is in the kernel for long can have many; the user part of their
// callchains is the same.
const maxDeferred = 1 << 16

// cookieOf returns the cookie that joins a sample with the record that has the rest of its callchain. It returns false if no such record
// follows.
func cookieOf(s *perfdata.Sample) (uint64, bool) {
	n := len(s.Callchain)
	if n < 2 || s.Callchain[n-2] != perfdata.ContextUserDeferred {
		return 0, false
	}
	return s.Callchain[n-1], true
}

// hold keeps a sample until the rest of its callchain comes. If there is no room, it returns the older half of the samples, which stay
// without the rest.
func (d *deferred) hold(item Item) (without []Item) {
	record := *item.Record
	item.Record, item.Sample = &record, item.Sample.Clone()
	record.Value, record.Raw = item.Sample, nil
	d.waiting = append(d.waiting, item)
	if len(d.waiting) <= maxDeferred {
		return nil
	}
	return d.take(len(d.waiting) / 2)
}

// take removes the first n samples and returns them.
func (d *deferred) take(n int) []Item {
	taken := append([]Item(nil), d.waiting[:n]...)
	rest := copy(d.waiting, d.waiting[n:])
	clear(d.waiting[rest:])
	d.waiting = d.waiting[:rest]
	return taken
}

// join appends the waiting samples of the record's thread to items. Samples with the record's cookie get the rest of their callchain. For
// the others nothing will come: the thread was in user mode since, so the record for them was lost.
func (d *deferred) join(v *perfdata.CallchainDeferred, items []Item) []Item {
	rest := d.waiting[:0]
	for _, item := range d.waiting {
		s := item.Sample
		cookie, _ := cookieOf(s)
		if v.Fields.Has(perfdata.SampleTID) && v.TID != s.TID || !v.Fields.Has(perfdata.SampleTID) && v.Cookie != cookie {
			rest = append(rest, item)
			continue
		}
		if v.Cookie == cookie {
			s.Callchain = append(s.Callchain[:len(s.Callchain)-2], v.Callchain...)
		}
		items = append(items, item)
	}
	clear(d.waiting[len(rest):])
	d.waiting = rest
	return items
}

package replay

import "github.com/bperf/bperf/perfdata"

// deferred are samples whose user's part of the callchain comes in a later record: CALLCHAIN_DEFERRED, when the thread returns to user mode.
// Linux 6.19.
type deferred struct {
	waiting []Item // in the order of time
}

// maxDeferred bounds how many samples wait. A thread that is in the kernel for long can have many: those of the same call have the same callchain.
const maxDeferred = 1 << 16

// cookieOf is what a sample and the record with the rest of its callchain have in common; false if nothing follows.
func cookieOf(s *perfdata.Sample) (uint64, bool) {
	n := len(s.Callchain)
	if n < 2 || s.Callchain[n-2] != perfdata.ContextUserDeferred {
		return 0, false
	}
	return s.Callchain[n-1], true
}

// hold keeps a sample until the rest of its callchain comes. What there is no room for is handed out as it is.
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

// take takes the first samples.
func (d *deferred) take(n int) []Item {
	taken := append([]Item(nil), d.waiting[:n]...)
	rest := copy(d.waiting, d.waiting[n:])
	clear(d.waiting[rest:])
	d.waiting = d.waiting[:rest]
	return taken
}

// join appends the samples of a thread that wait, those with the cookie with the rest of their callchain. For others of the thread nothing
// comes any more: it was in user mode since, and the record with it was lost.
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

package profile

import "unsafe"

// Split returns a profile of the samples of each group, as group names it. All of them share the tables of p, so nothing may be added to
// any of them or to p afterwards; several goroutines may read them. They have no losses: nobody knows in which group a lost sample would
// be.
func Split[K comparable](p *Profile, group func(*Sample) K) map[K]*Profile {
	parts := map[K]*Profile{}
	for _, s := range p.samples.all {
		k := group(&s)
		part := parts[k]
		if part == nil {
			copied := *p
			part = &copied
			part.samples, part.Losses = samples{}, Losses{}
			part.Events = append([]Event(nil), p.Events...)
			for i := range part.Events {
				e := &part.Events[i]
				e.Samples, e.Value, e.Stacks = 0, 0, 0
			}
			parts[k] = part
		}
		e := &part.Events[s.Event]
		e.Samples += s.Count
		e.Value += s.Value
		part.samples.all = append(part.samples.all, s)
	}
	return parts
}

// Bytes estimates the memory that a profile takes.
func (p *Profile) Bytes() uint64 {
	bytes := uint64(unsafe.Sizeof(*p))
	for _, s := range p.Strings.all {
		bytes += uint64(len(s))
	}
	bytes += p.Strings.bytes() + p.Modules.bytes() + p.Programs.bytes() + p.Functions.bytes() + p.Tags.bytes() +
		p.frames.bytes() + p.labels.bytes() + p.details.bytes()
	bytes += sliceBytes(p.Stacks.all) + sliceBytes(p.Stacks.index) + sliceBytes(p.samples.all) + sliceBytes(p.samples.index)
	for _, m := range p.Mappings {
		bytes += sliceBytes(m)
	}
	return bytes
}

// bytes returns the memory that a table takes, without what its values refer to.
func (t *Table[ID, T]) bytes() uint64 { return sliceBytes(t.all) + sliceBytes(t.index) }

func sliceBytes[T any](s []T) uint64 {
	var one T
	return uint64(cap(s)) * uint64(unsafe.Sizeof(one))
}

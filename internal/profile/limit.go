package profile

// Limits of profiles that keep the time of each sample.
const (
	firstStep = 1 << 20 // ns, about a millisecond
	lastStep  = 1 << 40 // about 18 minutes
)

// SetLimit makes the profile keep about this number of samples with different keys. Above it, the profile rounds times down, to longer
// and longer steps, which makes samples equal. When that no longer helps, it drops samples; Cut counts them. SetLimit comes before the
// first sample.
func (p *Profile) SetLimit(samples int) { p.limit = samples }

// Step returns the length of the steps of time in ns, or 0 if each sample has its own time.
func (p *Profile) Step() int64 { return p.step }

// Cut returns the number of samples that the limit made the profile drop. The sums of the events do not include them.
func (p *Profile) Cut() uint64 { return p.cut }

// isFull reports whether a profile that no longer can merge samples has no room for more.
func (p *Profile) isFull() bool {
	return p.limit > 0 && p.step >= lastStep && len(p.samples.all) >= p.limit
}

// insert adds a sample with its time rounded down, and makes room if that was the last. Samples with their own times hardly ever are equal, so
// insert does not look for an equal one: that would take as long as all else that reading a recording does with a sample.
func (p *Profile) insert(s Sample) {
	if p.keep.Has(Time) && p.step == 0 {
		p.samples.append(s)
	} else {
		s.Time -= s.Time % max(1, p.step)
		p.samples.add(s)
	}
	p.merge()
}

// merge rounds times until the samples fit, or until that no longer helps.
func (p *Profile) merge() {
	for p.limit > 0 && len(p.samples.all) > p.limit && p.step < lastStep {
		p.setStep(max(firstStep, 4*p.step))
	}
}

// setStep rounds the times of all samples down.
func (p *Profile) setStep(step int64) {
	if step <= p.step {
		return
	}
	before := p.samples.all
	p.step, p.samples = step, samples{}
	for _, s := range before {
		s.Time -= s.Time % step
		p.samples.add(s)
	}
}

// Select returns a profile of the samples that wanted selects. It has those keys of p that are in keep. It shares the tables of p, as
// the profiles of Split do, and has no losses.
func (p *Profile) Select(keep Keys, wanted func(*Sample) bool) *Profile {
	part := *p
	part.samples, part.labels, part.Losses, part.limit, part.cut = samples{}, Table[LabelsID, Labels]{}, Losses{}, 0, 0
	part.Events = append([]Event(nil), p.Events...)
	for i := range part.Events {
		e := &part.Events[i]
		e.Samples, e.Value, e.Stacks = 0, 0, 0
	}
	part.keep &= keep
	labels := make([]LabelsID, len(p.Labels())) // 1 + the number in part
	for i := range p.samples.all {
		s := p.samples.all[i]
		if !wanted(&s) {
			continue
		}
		id := &labels[s.Labels]
		if *id == 0 {
			*id = 1 + part.Label(p.Labels()[s.Labels])
		}
		s.Labels = *id - 1
		if !part.keep.Has(Time) {
			s.Time = 0
		}
		e := &part.Events[s.Event]
		e.Samples += s.Count
		e.Value += s.Value
		part.samples.add(s)
	}
	return &part
}

package profile

import (
	"fmt"
	"slices"
)

// Losses counts the data that is missing from the samples. The sums of the events do not include it.
type Losses struct {
	Records   uint64 // records of any type that the kernel had no room for
	Samples   uint64 // samples that are known to be lost; an exact number
	Filtered  uint64 // samples that a BPF filter of the event dropped on purpose
	Truncated uint64 // stacks that were cut; the profile has the part that was recorded
	Reasons   []Loss // other losses, in the producer's words

	// MissedEstimate estimates the number of additional samples that were due but not taken. It comes from the events' own counts.
	MissedEstimate uint64
}

// Loss is a number of samples that are missing for a reason.
type Loss struct {
	Reason  string // for the user, including how to fix it
	Samples uint64
}

// Notes describes for the user which samples are missing, one note for each kind of loss.
func (l *Losses) Notes() (notes []string) {
	if l.Samples > 0 {
		notes = append(notes, fmt.Sprintf("lost samples: %d", l.Samples))
	}
	if l.MissedEstimate > 0 {
		notes = append(notes, fmt.Sprintf("missed samples (estimate): about %d", l.MissedEstimate))
	}
	for _, r := range l.Reasons {
		notes = append(notes, fmt.Sprintf("missing samples: %d: %s", r.Samples, r.Reason))
	}
	return notes
}

// Add adds other losses.
func (l *Losses) Add(o *Losses) {
	l.Records += o.Records
	l.Samples += o.Samples
	l.Filtered += o.Filtered
	l.Truncated += o.Truncated
	l.MissedEstimate += o.MissedEstimate
	for _, r := range o.Reasons {
		if i := l.reason(r.Reason); i >= 0 {
			l.Reasons[i].Samples += r.Samples
		} else {
			l.Reasons = append(l.Reasons, r)
		}
	}
}

// Since returns what was lost since before, earlier losses of the same session.
func (l *Losses) Since(before *Losses) Losses {
	since := Losses{Records: l.Records - before.Records, Samples: l.Samples - before.Samples, Filtered: l.Filtered - before.Filtered,
		Truncated: l.Truncated - before.Truncated, MissedEstimate: l.MissedEstimate - before.MissedEstimate}
	for _, r := range l.Reasons {
		if i := before.reason(r.Reason); i >= 0 {
			r.Samples -= before.Reasons[i].Samples
		}
		if r.Samples > 0 {
			since.Reasons = append(since.Reasons, r)
		}
	}
	return since
}

// reason returns the position of a reason, or -1.
func (l *Losses) reason(text string) int {
	return slices.IndexFunc(l.Reasons, func(r Loss) bool { return r.Reason == text })
}

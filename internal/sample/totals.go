package sample

import (
	"fmt"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/userstack"
)

// Totals count what happened to the samples. There is a field for each way in which a sample can be missing or incomplete.
type Totals struct {
	Samples    uint64                 // samples taken
	Idle       uint64                 // samples of idle tasks that were left out
	Filtered   uint64                 // samples that filters dropped
	NoRoom     uint64                 // samples that are not in the profile because the maps were full
	NoStack    uint64                 // samples without a stack because there was no room for it
	Collisions uint64                 // samples without a stack because another stack has the same hash
	Truncated  uint64                 // samples with truncated stacks
	Cut        [userstack.Ends]uint64 // samples by the reason why the user stack is truncated; the first element is for complete stacks
	Unwinding  string                 // problems with unwind tables; empty for none
	Value      uint64                 // sum of the periods of all samples taken
	Counted    uint64                 // the events' own counts; 0 if they cannot be compared with Value
	Missed     uint64                 // samples for which the kernel did not run the program, estimated from the events' own counts
	NotRun     uint64                 // the part of Missed from events with a period of 1, which is exact: these samples are lost
	IdleCPUs   bool                   // samples of idle CPUs are included
	Unfollowed uint64                 // started processes whose samples are left out because there was no room
	Throttled  uint64                 // times that the kernel stopped an event because it came too often; it does not count either while stopped
	Stopped    time.Duration          // total time for which events were stopped
	Steal      time.Duration          // time that the hypervisor took from the CPUs; 0 if unknown
	Entries    uint64                 // number of entries that would have been enough for the maps
	Stacks     bool                   // samples have stacks
	Read       uint64                 // bytes of sums and stacks that bperf read from the kernel
	Maps       string                 // what is missing in maps of the user's programs; empty if nothing is

	OffCPU *OffCPU // nil without off-CPU time; each time that a thread was blocked is one of Samples
}

// String returns a summary of one or more lines.
func (t Totals) String() string {
	wanted := t.Samples - t.Idle - t.Filtered
	s := fmt.Sprintf("%d samples, %d lost", wanted, t.lost())
	if t.Stacks {
		s += fmt.Sprintf(", %.1f %% with stacks that are cut", percent(t.Truncated, wanted))
		if reasons := t.reasons(); reasons != "" {
			s += " (" + reasons + ")"
		}
	}
	if t.Idle > 0 {
		s += fmt.Sprintf("; %d more of idle CPUs are left out", t.Idle)
	}
	if t.Filtered > 0 {
		s += fmt.Sprintf("; %d others were not asked for", t.Filtered)
	}
	if t.NoRoom > 0 || t.NoStack > 0 {
		s += fmt.Sprintf("\nMaps in the kernel were full: %d samples are lost, %d have no stack. There would be room with --map-entries %d",
			t.NoRoom, t.NoStack, t.Entries)
	}
	if t.Collisions > 0 {
		s += fmt.Sprintf("\n%d samples have no stack, as another one has the same hash", t.Collisions)
	}
	if t.NotRun > 0 {
		s += fmt.Sprintf("\n%d samples are lost: the kernel takes none while another BPF program runs on the CPU", t.NotRun)
	}
	if missed := t.estimated(); missed > 0 {
		s += fmt.Sprintf("\nAbout %d more samples were due but not taken (estimated from event counts):\n"+
			"timers were late, threads ended before a sample, or another BPF program ran", missed)
		if t.IdleCPUs {
			s += "\nTimers of idle CPUs can be late on virtual machines; --no-idle skips idle CPUs"
		}
		if t.Steal > 0 {
			s += fmt.Sprintf("\nThe hypervisor had the CPUs for %.3f s (steal)", t.Steal.Seconds())
		}
	}
	if t.Unfollowed > 0 {
		s += fmt.Sprintf("\n%d processes that were started are left out, as there are too many. With -a all are sampled", t.Unfollowed)
	}
	if t.Throttled > 0 {
		s += fmt.Sprintf("\nThe kernel stopped sampling %d times, for %.3f s in all: there were more samples between two ticks of a CPU than "+
			"kernel.perf_event_max_sample_rate allows. Idle CPUs have no ticks: --no-idle leaves their samples out", t.Throttled, t.Stopped.Seconds())
	}
	if t.Unwinding != "" {
		s += "\nUnwind tables: " + t.Unwinding
	}
	if t.OffCPU != nil {
		s += "\n" + t.OffCPU.String()
	}
	if t.Maps != "" {
		s += "\n" + t.Maps
	}
	return s
}

// lost returns the exact number of samples that are known to be lost.
func (t *Totals) lost() uint64 { return t.NoRoom + t.NotRun }

// estimated returns the estimated number of samples that were due but not taken, without those in lost.
func (t *Totals) estimated() uint64 { return t.Missed - t.NotRun }

// reasons returns the reasons why user stacks are truncated, with their shares.
func (t *Totals) reasons() string {
	var parts []string
	for end, n := range t.Cut {
		if n > 0 && userstack.End(end) != userstack.Outermost {
			parts = append(parts, fmt.Sprintf("%s %.1f %%", userstack.End(end), percent(n, t.Samples-t.Idle-t.Filtered)))
		}
	}
	return strings.Join(parts, ", ")
}

func percent(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// totals returns the Totals of all events.
func (s *sampler) totals() (Totals, error) {
	all, err := s.counter.counts()
	if err != nil {
		return Totals{}, err
	}
	t := Totals{Stacks: s.cfg.By.Stack, Entries: s.room.enough, Read: s.counter.bytes, NoStack: s.counter.noStack, Maps: s.maps.missing()}
	if s.counter.tables != nil {
		t.Unwinding = s.counter.tables.Stats().String()
	}
	for i, c := range all {
		t.add(&c)
		if i == s.settings.events { // blocked threads
			continue
		}
		t.Counted += s.counted[i].Count
		missed, exact := s.counted[i].Missed(c.Samples, c.Value)
		t.Missed += missed
		if exact {
			t.NotRun += missed
		}
	}
	if t.Unfollowed, err = s.counter.lostProcesses(); err != nil {
		return t, err
	}
	if s.cfg.measuresWaits() {
		t.Samples += s.still.threads
		t.Value += s.still.time
		t.OffCPU, err = s.offCPU(&all[s.settings.events])
	}
	return t, err
}

// add adds the counts of an event.
func (t *Totals) add(c *sampleCounts) {
	t.Samples += c.Samples
	t.Idle += c.Idle
	t.Filtered += c.Filtered
	t.NoRoom += c.NoSum
	t.NoStack += c.NoStack
	t.Collisions += c.Collisions
	t.Truncated += c.Truncated
	for end, n := range c.Cut {
		t.Cut[end] += n
	}
	t.Value += c.Value
}

// addTo adds the losses.
func (t *Totals) addTo(l *profile.Losses) {
	l.Samples += t.lost()
	l.MissedEstimate += t.estimated()
	l.Truncated += t.Truncated
	l.Filtered += t.Filtered
	if t.OffCPU != nil {
		l.Samples += t.OffCPU.Lost
	}
	if n := t.NoStack + t.Collisions; n > 0 {
		l.Reasons = append(l.Reasons, profile.Loss{Reason: "without their stacks, for which there was no room", Samples: n})
	}
}

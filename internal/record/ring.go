package record

import (
	"math/bits"
	"os"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
)

// ring is a buffer for the events of one CPU, or of one thread with Config.PerThread.
type ring struct {
	*perfevent.Ring
	owner       *perfevent.Event  // that was mapped
	overwritten bool              // the kernel keeps what is newest
	offCPU      bool              // for what BPF programs report
	later       map[uint64]uint64 // the IDs of events that were opened later, and those that stand for them; see join
}

// ringKey identifies a ring.
type ringKey struct {
	place
	overwritten bool
	offCPU      bool
}

// Sizes of rings in bytes. The least is what kernel.perf_event_mlock_kb allows every user for each CPU.
const (
	leastRing = 512 << 10
	mostRing  = 4 << 20
	mostRings = 256 << 20 // of all CPUs together, as long as that is not less than the least
)

// sampleSize is what a sample with a callchain takes, in bytes: 100 to 200 were seen.
const sampleSize = 256

// sizeRings sets the size of rings: without -m they hold half a second of samples, if this process may lock so much memory. On an overloaded
// machine, a fifth of a second may pass until a process that was woken runs.
func (p *plan) sizeRings(cpus int, unlimited bool) {
	size := leastRing
	if unlimited && p.cfg.Sums == nil && !p.cfg.PerThread { // of threads there may be many
		size = max(size, min(p.bytesPerSecond()/2, mostRing, mostRings>>bits.Len(uint(cpus-1))))
	}
	if p.cfg.RingPages > 0 {
		size = p.cfg.RingPages * os.Getpagesize()
	}
	p.ringSize = os.Getpagesize() << order(size)
	for _, o := range p.events {
		// Unasked, the kernel wakes a reader when a ring is half full: then there is less time left for it.
		o.attr.Flags, o.attr.WakeupEvents = o.attr.Flags|perfdata.AttrWatermark, uint32(p.ringSize/4)
		if p.samplesCPUs() { // rings have records of tasks alone, and user stacks are cut until these are read
			o.attr.WakeupEvents = 1
		}
		if p.cfg.NoBuffering {
			o.attr.Flags, o.attr.WakeupEvents = o.attr.Flags&^perfdata.AttrWatermark, 1
		}
	}
}

// bytesPerSecond returns the size of the samples that a CPU takes in a second.
func (p *plan) bytesPerSecond() int {
	sum := uint64(0)
	for _, o := range p.events {
		if o.attr.Has(perfdata.AttrFreq) {
			sum += min(o.attr.SamplePeriod, 1e6) * uint64(sampleSize+o.attr.SampleStackUser)
		}
	}
	return int(sum)
}

// order returns the number of pages of a ring of a size in bytes, as a power of two.
func order(size int) int { return bits.Len(uint(max(size/os.Getpagesize(), 1) - 1)) }

package record

import (
	"math/bits"
	"os"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/record/chains"
	"github.com/bperf/bperf/perfdata"
)

// ring is a buffer for the events of one CPU, or of one thread with Config.PerThread.
type ring struct {
	*perfevent.Ring
	owner       *perfevent.Event  // the event whose ring was mapped
	overwritten bool              // the kernel keeps the newest records
	offCPU      bool              // for records that off-CPU BPF programs write
	chains      *chains.Ring      // nil if no samples get user callchains of a BPF program
	later       map[uint64]uint64 // IDs of events that were opened later, and the IDs that replace them; see join
}

// ringKey identifies a ring.
type ringKey struct {
	scope
	overwritten bool
	offCPU      bool
	tasks       bool // records of tasks and memory alone
}

// Limits of the size of a ring in bytes. leastRing is what kernel.perf_event_mlock_kb allows every user per CPU.
const (
	leastRing = 512 << 10
	mostRing  = 4 << 20
	mostRings = 256 << 20 // all rings together, but at least leastRing each
)

// sampleSize is the assumed size of a sample with a callchain, in bytes. Measured sizes are 100 to 200.
const sampleSize = 256

// sizeRings sets the size of rings. Without -m they hold half a second of samples, if this process may lock that much memory: on an overloaded
// machine, a process that was woken may wait for a fifth of a second until it runs.
func (p *plan) sizeRings(cpus int, unlimited bool) {
	size := leastRing
	if unlimited && p.cfg.Sums == nil && !p.cfg.PerThread { // there may be many threads
		size = max(size, min(p.bytesPerSecond()/2, mostRing, mostRings>>bits.Len(uint(cpus-1))))
	}
	if p.unwinds && !unlimited { // there are rings of tasks, too
		size /= 2
	}
	if p.cfg.RingPages > 0 {
		size = p.cfg.RingPages * os.Getpagesize()
	}
	p.ringSize = os.Getpagesize() << order(size)
	for _, o := range p.events {
		// By default, the kernel wakes the reader when a ring is half full. At a quarter, the reader has more time.
		o.attr.Flags, o.attr.WakeupEvents = o.attr.Flags|perfdata.AttrWatermark, uint32(p.ringSize/4)
		if o.kind == sideBand && p.unwinds && !p.cfg.perCPU() { // user callchains are cut until bperf has read its records
			o.attr.WakeupEvents = 1
		}
		if p.samplesCPUs() { // rings only have records of tasks, and user stacks are truncated until bperf has read these
			o.attr.WakeupEvents = 1
		}
		if p.cfg.NoBuffering {
			o.attr.Flags, o.attr.WakeupEvents = o.attr.Flags&^perfdata.AttrWatermark, 1
		}
	}
}

// bytesPerSecond returns the number of bytes that the samples of one CPU take per second.
func (p *plan) bytesPerSecond() int {
	sum := uint64(0)
	for _, o := range p.events {
		if o.attr.Has(perfdata.AttrFreq) {
			size := sampleSize + o.attr.SampleStackUser
			if o.unwound {
				size *= 3
			}
			sum += min(o.attr.SamplePeriod, 1e6) * uint64(size)
		}
	}
	return int(sum)
}

// order returns the base-2 logarithm of the number of pages of a ring with at least size bytes.
func order(size int) int { return bits.Len(uint(max(size/os.Getpagesize(), 1) - 1)) }

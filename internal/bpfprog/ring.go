package bpfprog

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
)

// ring has the records of what happens on a CPU.
type ring struct {
	cpu   int
	event *perfevent.Event
	*perfevent.Ring
	lost uint64 // records that another record says are lost
}

// openRing lets the kernel leave records of what happens on a CPU. They have the clock of load times. It returns nil if the CPU is
// offline.
func openRing(cpu, size int) (*ring, error) {
	attr := &perfdata.Attr{
		Type: perfdata.TypeSoftware, Config: perfdata.SoftwareDummy, SampleType: perfevent.TrailerFormat, ClockID: unix.CLOCK_BOOTTIME,
		Flags:        perfdata.AttrKSymbol | perfdata.AttrBPFEvent | perfdata.AttrSampleIDAll | perfdata.AttrUseClockID | perfdata.AttrWatermark,
		WakeupEvents: 1, // wake the reader for each record
	}
	attr.ReadFormat = perfdata.ReadLost
	where := perfevent.Where{Thread: perfevent.AnyThread, CPU: cpu}
	event, err := perfevent.Open(attr, where)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.0
		attr.ReadFormat = 0
		event, err = perfevent.Open(attr, where)
	}
	switch {
	case errors.Is(err, unix.ENODEV):
		return nil, nil
	case errors.Is(err, unix.EINVAL):
		return nil, fmt.Errorf("watch BPF programs on CPU %d: the kernel does not tell when they come and go; it takes Linux 5.1", cpu)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("watch BPF programs on CPU %d: %w. %s", cpu, err,
			kernel.Remedy("Run as root, or with CAP_PERFMON, or allow more: sysctl kernel.perf_event_paranoid=0"))
	case err != nil:
		return nil, fmt.Errorf("watch BPF programs on CPU %d: %w", cpu, err)
	}
	memory, err := event.Map(bits.Len(uint(max(size/os.Getpagesize(), 1) - 1)))
	if err != nil {
		event.Close()
		return nil, fmt.Errorf("map the ring buffer of CPU %d: %w. Allow more locked memory: "+
			"sysctl kernel.perf_event_mlock_kb, or ulimit -l", cpu, err)
	}
	return &ring{cpu: cpu, event: event, Ring: memory}, nil
}

// untold is how many records are lost of which no record has told: that comes with the next one which has room. Before Linux 6.0
// the kernel does not tell it otherwise.
func (r *ring) untold() uint64 {
	lost, err := r.event.Lost()
	if err != nil || lost < r.lost {
		return 0
	}
	return lost - r.lost
}

func (r *ring) close() error { return errors.Join(r.Ring.Close(), r.event.Close()) }

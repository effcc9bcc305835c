package bpfprog

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
)

// rings has a ring buffer for the kernel's records of BPF programs on each online CPU, and a thread that reads it. The thread runs on that
// CPU and preempts others there, because a program may be unloaded right after it was loaded.
type rings struct {
	flags perfdata.AttrFlags // select the records
	size  int                // minimum size of a ring, bytes
	see   func(perfevent.Record) error
	full  func() bool // reports whether the threads must wait for hasRoom; called with mu locked, like see

	mu   sync.Mutex // held while records are read
	room sync.Cond  // signaled when full may have changed
	all  []*ring
	err  error  // first error of a thread
	lost uint64 // records of closed rings that were lost and that no record reported
}

// ring receives the records of one CPU.
type ring struct {
	cpu     int
	event   *perfevent.Event
	waiter  *perfevent.Waiter
	memory  *perfevent.Ring
	lost    uint64 // records that another record reported as lost
	stopped atomic.Bool
	thread  sync.WaitGroup
}

// openRings starts to read on all online CPUs.
func openRings(flags perfdata.AttrFlags, size int, see func(perfevent.Record) error, full func() bool) (*rings, error) {
	s := &rings{flags: flags, size: size, see: see, full: full}
	s.room.L = &s.mu
	if err := s.openAll(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *rings) openAll() error {
	cpus, err := procfs.OnlineCPUs()
	if err != nil {
		return fmt.Errorf("watch BPF programs: %w", err)
	}
	for _, cpu := range cpus {
		if err := s.open(cpu); err != nil {
			return fmt.Errorf("watch BPF programs on CPU %d: %w", cpu, err)
		}
	}
	return nil
}

// open starts to read on a CPU, unless it is offline.
func (s *rings) open(cpu int) error {
	r, err := s.openRing(cpu)
	if r == nil || err != nil {
		return err
	}
	s.mu.Lock()
	s.all = append(s.all, r)
	s.mu.Unlock()
	r.thread.Go(func() { s.read(r) })
	return nil
}

// openRing returns the ring of a CPU; nil if the CPU is offline. Its records have times of CLOCK_BOOTTIME, like load times.
func (s *rings) openRing(cpu int) (*ring, error) {
	attr := &perfdata.Attr{
		Type: perfdata.TypeSoftware, Config: perfdata.SoftwareDummy, SampleType: perfevent.TrailerFormat, ClockID: unix.CLOCK_BOOTTIME,
		Flags:        s.flags | perfdata.AttrSampleIDAll | perfdata.AttrUseClockID | perfdata.AttrWatermark,
		ReadFormat:   perfdata.ReadLost,
		WakeupEvents: 1, // wake the reader for each record
	}
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
		return nil, errors.New("the kernel does not report when they come and go; it takes Linux 5.1")
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w. %s", err,
			kernel.Remedy("Run as root, or with CAP_PERFMON, or allow more: sysctl kernel.perf_event_paranoid=0"))
	case err != nil:
		return nil, err
	}
	r := &ring{cpu: cpu, event: event}
	if r.memory, err = event.Map(bits.Len(uint(max(s.size/os.Getpagesize(), 1) - 1))); err != nil {
		event.Close()
		return nil, fmt.Errorf("map the ring buffer: %w. Allow more locked memory: sysctl kernel.perf_event_mlock_kb, or ulimit -l", err)
	}
	if r.waiter, err = perfevent.NewWaiter(); err != nil {
		return nil, errors.Join(err, r.close())
	}
	if err := r.waiter.Add(event); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *ring) close() error {
	var err error
	if r.waiter != nil {
		err = r.waiter.Close()
	}
	return errors.Join(err, r.memory.Close(), r.event.Close())
}

// read reads a ring until it is stopped, and then once more.
func (s *rings) read(r *ring) {
	runtime.LockOSThread() // never unlocked: the thread has another priority, and ends with this goroutine
	perfevent.RunFirst(r.cpu)
	for stopped := false; !stopped; {
		_, err := r.waiter.Wait(-1)
		s.mu.Lock()
		for s.full() && !r.stopped.Load() {
			s.room.Wait()
		}
		stopped = r.stopped.Load() || err != nil
		if err == nil {
			err = s.drain(r)
		}
		if err != nil && s.err == nil {
			s.err = err
		}
		s.mu.Unlock()
	}
}

// drain reads the records of a ring. The caller holds mu.
func (s *rings) drain(r *ring) error {
	for {
		record, more, err := r.memory.Next()
		if err != nil || !more {
			return err
		}
		if record.Type == perfevent.RecordLost {
			l, err := record.Lost()
			if err != nil {
				return err
			}
			r.lost += l.Records
		}
		if err := s.see(record); err != nil {
			return err
		}
	}
}

// drainAll reads all records that the rings of all CPUs have now. It also returns the first error of a thread.
func (s *rings) drainAll() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.all {
		if err := s.drain(r); err != nil {
			return err
		}
	}
	return s.err
}

// hasRoom wakes threads that wait because full returned true.
func (s *rings) hasRoom() { s.room.Broadcast() }

// stop ends the threads of some rings. The rings stay open.
func (s *rings) stop(some []*ring) {
	s.mu.Lock()
	for _, r := range some {
		r.stopped.Store(true)
		r.waiter.Wake()
	}
	s.room.Broadcast()
	s.mu.Unlock()
	for _, r := range some {
		r.thread.Wait()
	}
}

// follow starts to read on a CPU that came online, and stops on a CPU that went offline. A ring does not work again when its CPU comes back,
// so follow opens a new one.
func (s *rings) follow(change target.CPUChange) error {
	missed := change.Number == 0 // messages were lost: any CPU may have come or gone
	gone := func(r *ring) bool { return r.cpu == change.CPU || missed }
	old := slices.DeleteFunc(slices.Clone(s.all), func(r *ring) bool { return !gone(r) })
	s.stop(old)
	s.mu.Lock()
	s.all = slices.DeleteFunc(s.all, gone)
	s.mu.Unlock()
	for _, r := range old {
		s.lost += r.unreported()
		if err := r.close(); err != nil {
			return fmt.Errorf("end watching CPU %d: %w", r.cpu, err)
		}
	}
	switch {
	case missed:
		return s.openAll()
	case change.Online:
		return s.open(change.CPU)
	}
	return nil
}

// unreported returns the number of lost records that no record has reported. The kernel reports lost records before the next record that
// finds room, and from Linux 6.0 on also in the event's count.
func (r *ring) unreported() uint64 {
	lost, err := r.event.Lost()
	if err != nil || lost < r.lost {
		return 0
	}
	return lost - r.lost
}

// lostUnreported returns the number of lost records of all CPUs that no record has reported.
func (s *rings) lostUnreported() uint64 {
	lost := s.lost
	for _, r := range s.all {
		lost += r.unreported()
	}
	return lost
}

// close stops reading and closes the rings.
func (s *rings) close() error {
	s.stop(s.all)
	var errs []error
	for _, r := range s.all {
		errs = append(errs, r.close())
	}
	s.all = nil
	return errors.Join(errs...)
}

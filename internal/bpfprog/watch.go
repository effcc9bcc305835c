package bpfprog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
)

// Watcher sees BPF programs being loaded and unloaded, from records that the kernel leaves in a ring buffer of each CPU (Linux 5.1).
type Watcher struct {
	events  []*perfevent.Event
	rings   []*perfevent.Ring
	reader  *Reader
	history history
	users   map[uint32]string
	pending []seen // until records of other CPUs that are older would have been read
	unread  []int  // those of them that are loads of which nothing was read yet
}

// seen is what a record tells, and of a load the program, which is opened at once: it may be gone a moment later.
type seen struct {
	trailer perfevent.Trailer
	symbol  *perfevent.KSymbol
	event   *perfevent.BPFEvent
	lost    uint64

	program descriptor // of a load, until it is read; -1 if there is none
	details details
}

// mostOpen is how many programs are open at most until they are read.
const mostOpen = 64

// ringSize is the least size of a ring in bytes. A program that comes and goes leaves some 250 bytes, more if it has several functions.
// With its first page it is what kernel.perf_event_mlock_kb allows by default for each CPU.
const ringSize = 512 << 10

// NewWatcher begins to watch the CPUs that are online.
func NewWatcher() (*Watcher, error) { return newWatcher(ringSize) }

// newWatcher makes rings of at least such a size in bytes.
func newWatcher(size int) (*Watcher, error) {
	for _, err := range programs.ids() { // programs are found by their IDs
		if err != nil {
			return nil, err
		}
		break
	}
	cpus, err := target.Spec{System: true}.Resolve()
	if err != nil {
		return nil, fmt.Errorf("watch BPF programs: %w", err)
	}
	w := &Watcher{users: make(map[uint32]string)}
	if w.reader, err = NewReader(Detail{Functions: true, Memlock: true, Source: true}); err != nil {
		return nil, err
	}
	for _, cpu := range cpus.CPUs {
		if err := w.open(cpu, size); err != nil {
			w.Close()
			return nil, err
		}
	}
	// After the events are open: what is loaded between is in both.
	before, err := NewReader(Detail{})
	if err != nil {
		w.Close()
		return nil, err
	}
	all, err := before.All()
	if err != nil {
		w.Close()
		return nil, err
	}
	w.history = newHistory(w.reader.boot, all)
	return w, nil
}

// open lets the kernel leave records of what happens on a CPU. They have the clock of load times.
func (w *Watcher) open(cpu, size int) error {
	event, err := perfevent.Open(&perfevent.Attr{
		Type: perfevent.TypeSoftware, Config: perfevent.SoftwareDummy, SampleType: perfevent.TrailerFormat, ClockID: unix.CLOCK_BOOTTIME,
		Flags:  perfevent.KSymbols | perfevent.BPFEvents | perfevent.SampleIDAll | perfevent.UseClockID | perfevent.Watermark,
		Wakeup: 1, // wake the reader for each record
	}, perfevent.Where{Thread: perfevent.AnyThread, CPU: cpu})
	switch {
	case errors.Is(err, unix.ENODEV): // it was taken offline
		return nil
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("watch BPF programs on CPU %d: the kernel does not tell when they come and go; it takes Linux 5.1", cpu)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("watch BPF programs on CPU %d: %w. Run as root, or with CAP_PERFMON, or allow more: sysctl kernel.perf_event_paranoid=0", cpu, err)
	case err != nil:
		return fmt.Errorf("watch BPF programs on CPU %d: %w", cpu, err)
	}
	w.events = append(w.events, event)
	ring, err := event.Map(bits.Len(uint(max(size/os.Getpagesize(), 1) - 1)))
	if err != nil {
		return fmt.Errorf("map the ring buffer of CPU %d: %w. Allow more locked memory: sysctl kernel.perf_event_mlock_kb, or ulimit -l", cpu, err)
	}
	w.rings = append(w.rings, ring)
	return nil
}

// Close ends watching.
func (w *Watcher) Close() error {
	var errs []error
	for _, r := range w.rings {
		errs = append(errs, r.Close())
	}
	for _, e := range w.events {
		errs = append(errs, e.Close())
	}
	return errors.Join(errs...)
}

// settle is how long a record may take from the reading of the clock until others can see it.
const settle = time.Millisecond

// Run calls tell for what happens, in the order in which it happened, until the context is done. As long as tell takes, nothing is read.
func (w *Watcher) Run(ctx context.Context, tell func(Change)) error {
	end, ending, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("watch BPF programs: %w", err)
	}
	defer end.Close()
	defer ending.Close()
	defer context.AfterFunc(ctx, func() { ending.Close() })()
	wait := []unix.PollFd{{Fd: int32(end.Fd())}} // the end of a pipe is always waited for
	for _, e := range w.events {
		wait = append(wait, unix.PollFd{Fd: int32(e.FD()), Events: unix.POLLIN})
	}
	for {
		last := ctx.Err() != nil
		horizon, err := w.horizon()
		if err != nil {
			return err
		}
		if err := w.drain(); err != nil {
			return err
		}
		if last {
			horizon = ^uint64(0)
		}
		for _, c := range w.settled(horizon) {
			tell(c)
		}
		if last {
			return nil
		}
		timeout := -1
		if len(w.pending) > 0 {
			timeout = int(settle.Milliseconds())
		}
		if _, err := unix.Poll(wait, timeout); err != nil && err != unix.EINTR {
			return fmt.Errorf("wait for BPF programs: %w", err)
		}
	}
}

// horizon is the time up to which all records can be read now.
func (w *Watcher) horizon() (uint64, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, fmt.Errorf("read the time since boot: %w", err)
	}
	return uint64(now.Nano()) - uint64(settle), nil
}

// drain reads all records that there are. Programs are opened as soon as their records are seen, and read afterwards: opening takes
// a microsecond, reading a hundred.
func (w *Watcher) drain() error {
	for _, r := range w.rings {
		for {
			record, more, err := r.Next()
			if err != nil {
				return err
			}
			if !more {
				break
			}
			if err := w.see(record); err != nil {
				return err
			}
			if len(w.unread) == mostOpen {
				w.read()
			}
		}
	}
	w.read()
	return nil
}

// see keeps a record, and opens the program of a load.
func (w *Watcher) see(r perfevent.Record) error {
	s := seen{program: -1}
	switch r.Type {
	case perfevent.RecordKSymbol:
		k, err := r.KSymbol()
		if err != nil {
			return err
		}
		s.trailer, s.symbol = k.Trailer, &k
	case perfevent.RecordBPFEvent:
		e, err := r.BPFEvent()
		if err != nil {
			return err
		}
		s.trailer, s.event = e.Trailer, &e
		if e.Type == perfevent.BPFLoad {
			s.program, s.details.err = programs.open(e.ID)
			w.unread = append(w.unread, len(w.pending))
		}
	case perfevent.RecordLost:
		l, err := r.Lost()
		if err != nil {
			return err
		}
		s.trailer, s.lost = l.Trailer, l.Records
	default:
		return nil
	}
	w.pending = append(w.pending, s)
	return nil
}

// details are what could be fetched of a program that was loaded.
type details struct {
	program *Program // nil if there is none
	user    string
	maps    []Map
	comm    string // of the process that loaded it
	err     error  // why there is no program
}

// read reads the programs that are open, and closes them.
func (w *Watcher) read() {
	for _, i := range w.unread {
		s := &w.pending[i]
		if s.program >= 0 {
			s.details.program, s.details.err = w.reader.read(s.program)
		}
		if p := s.details.program; p != nil {
			s.details.user = w.user(p.UID)
			s.details.maps = mapsOf(p)
		}
		if s.program >= 0 { // not before: its maps would go with it
			s.program.close()
			s.program = -1
		}
		s.details.comm = comm(s.trailer.PID)
	}
	w.unread = w.unread[:0]
}

func (w *Watcher) user(uid uint32) string {
	name, known := w.users[uid]
	if !known {
		name = userName(uid)
		w.users[uid] = name
	}
	return name
}

// mapsOf are the maps of a program. Those that cannot be read have no name.
func mapsOf(p *Program) []Map {
	var all []Map
	for _, id := range p.MapIDs {
		m, err := readMap(id)
		if err != nil {
			m = Map{ID: id}
		}
		all = append(all, m)
	}
	return all
}

// comm is the name of a process; empty if it has ended, or is in no PID namespace that this process sees.
func comm(pid int32) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(name), "\n")
}

// settled are the changes up to a time.
func (w *Watcher) settled(horizon uint64) []Change {
	slices.SortStableFunc(w.pending, func(a, b seen) int { return cmp.Compare(a.trailer.Time, b.trailer.Time) })
	var changes []Change
	n := 0
	for ; n < len(w.pending) && w.pending[n].trailer.Time <= horizon; n++ {
		if c, ok := w.history.add(w.pending[n]); ok {
			changes = append(changes, c)
		}
	}
	w.pending = slices.Delete(w.pending, 0, n)
	return changes
}

package bpfprog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
)

// Watcher reports BPF programs that are loaded and unloaded, from records that the kernel leaves in a ring buffer of each CPU (Linux 5.1).
type Watcher struct {
	rings   *rings
	cpus    target.CPUChanges
	history history

	mu      sync.Mutex // between the goroutine that reads programs and others
	reader  *Reader
	users   map[uint32]string
	unread  chan *seen     // loads whose programs are open
	reading sync.WaitGroup // until all of them have been read

	// Locked by rings.mu.
	pending []*seen // until records of other CPUs that are older would have been read

	arrived chan struct{} // has an element when there are new ones
}

// seen is a record. The program of a load is opened at once: it may be gone a moment later.
type seen struct {
	trailer perfevent.Trailer
	symbol  *perfevent.KSymbol
	event   *perfevent.BPFEvent
	lost    uint64

	program descriptor  // of a load, until it is read; -1 if there is none
	unread  atomic.Bool // its program is open, or being read
	details details
}

// mostOpen is how many programs are open at most until they are read.
const mostOpen = 64

// mostPending is how many records wait to be reported. Beyond that the rings are no longer read on the CPUs that fill them.
const mostPending = 1024

// ringSize is the least size of a ring in bytes. A program that comes and goes leaves some 250 bytes, more if it has several functions.
// With its first page it is what kernel.perf_event_mlock_kb allows by default for each CPU.
const ringSize = 512 << 10

// NewWatcher begins to watch the CPUs that are online.
func NewWatcher() (*Watcher, error) { return newWatcher(ringSize) }

// newWatcher makes rings of at least such a size in bytes.
func newWatcher(size int) (*Watcher, error) {
	var err error
	for _, err = range programs.ids() { // programs are found by their IDs
		break
	}
	if err != nil {
		return nil, err
	}
	w := &Watcher{users: make(map[uint32]string), unread: make(chan *seen, mostOpen), arrived: make(chan struct{}, 1)}
	if w.reader, err = NewReader(Detail{Functions: true, Memlock: true, Source: true}); err != nil {
		return nil, err
	}
	if w.cpus, err = target.ListenForCPUs(); err != nil {
		return nil, fmt.Errorf("watch BPF programs: %w", err)
	}
	go w.readAll()
	w.rings, err = openRings(perfdata.AttrKSymbol|perfdata.AttrBPFEvent, size, w.see, func() bool { return len(w.pending) >= mostPending })
	if err != nil {
		close(w.unread)
		return nil, errors.Join(err, w.cpus.Close())
	}
	// After the events are open: what is loaded between is in both.
	before, err := NewReader(Detail{})
	if err != nil {
		w.Close()
		return nil, err
	}
	all, err := before.all()
	if err != nil {
		w.Close()
		return nil, err
	}
	w.history = newHistory(w.reader.boot, all)
	return w, nil
}

// Close ends watching.
func (w *Watcher) Close() error {
	err := errors.Join(w.cpus.Close(), w.rings.close())
	close(w.unread)
	return err
}

// settle is how long a record may take from the reading of the clock until others can see it.
const settle = time.Millisecond

// late is how long a load may be left out of the sequence of IDs until it counts as unseen.
const late = time.Second

// Run calls report for each change, in the order of time, until the context is done. While report runs, only mostPending records more are
// read.
func (w *Watcher) Run(ctx context.Context, report func(Change)) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	changes := make(chan target.CPUChange)
	go func() {
		for change := range w.cpus.All() {
			select {
			case changes <- change:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		horizon, err := w.horizon()
		if err != nil {
			return err
		}
		if err := w.rings.drainAll(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return w.end(report)
		}
		settled, timeout := w.settled(horizon)
		for _, c := range settled {
			report(c)
		}
		if err := w.reportUnseen(horizon-uint64(late), report); err != nil {
			return err
		}
		select {
		case <-w.arrived:
		case <-timeout:
		case <-ctx.Done():
		case change := <-changes:
			if err := w.rings.follow(change); err != nil {
				return err
			}
		}
	}
}

// end reports what is left, and the records that were lost at last.
func (w *Watcher) end(report func(Change)) error {
	w.rings.stop(w.rings.all)
	w.reading.Wait()
	if err := w.rings.drainAll(); err != nil { // for the ends of programs that bperf kept until they were read
		return err
	}
	w.reading.Wait()
	settled, _ := w.settled(math.MaxUint64)
	for _, c := range settled {
		report(c)
	}
	if err := w.reportUnseen(math.MaxUint64, report); err != nil {
		return err
	}
	if lost := w.rings.lostUnreported(); lost > 0 {
		report(Change{Event: LostSome, Time: time.Now(), Records: lost})
	}
	return nil
}

// reportUnseen reports programs whose IDs were left out of the sequence by a time, in ns since boot, and what is still loaded of them.
func (w *Watcher) reportUnseen(since uint64, report func(Change)) error {
	due := w.history.unseen.due(since)
	if len(due) == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var alive []uint32
	for id, err := range programs.ids() {
		if err != nil {
			return err
		}
		alive = append(alive, id)
	}
	for _, g := range due {
		at := w.history.boot.Add(time.Duration(g.since))
		report(Change{Event: Unseen, Time: at, ID: g.first, LastID: g.last})
		for _, id := range alive {
			if id < g.first || id > g.last {
				continue
			}
			if p, err := w.reader.Read(id); err == nil { // or it has gone
				report(w.history.found(p, w.user(p.UID), mapsOf(p)))
			}
		}
	}
	return nil
}

// horizon is the time up to which all records can be read now.
func (w *Watcher) horizon() (uint64, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, fmt.Errorf("read the time since boot: %w", err)
	}
	return uint64(now.Nano()) - uint64(settle), nil
}

// see keeps a record, and opens the program of a load. Another goroutine reads it: opening takes a microsecond, reading fifty, and by then
// the next one may have come and gone.
func (w *Watcher) see(r perfevent.Record) error {
	s := &seen{program: -1}
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
			s.unread.Store(true)
			w.reading.Add(1)
			w.unread <- s
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
	select {
	case w.arrived <- struct{}{}:
	default:
	}
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

// readAll reads the programs that are open.
func (w *Watcher) readAll() {
	for s := range w.unread {
		w.read(s)
		s.unread.Store(false)
		w.reading.Done()
	}
}

// read reads a program, and closes it.
func (w *Watcher) read(s *seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.details.comm = comm(s.trailer.PID)
	if s.program < 0 {
		return
	}
	s.details.program, s.details.err = w.reader.read(s.program)
	if p := s.details.program; p != nil {
		s.details.user = w.user(p.UID)
		s.details.maps = mapsOf(p)
	}
	s.program.close() // not before: its maps would go with it
	s.program = -1
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
	name, _ := procfs.Comm(os.DirFS("/proc"), strconv.Itoa(int(pid)))
	return name
}

// settled returns the changes up to a time, in ns since boot, as far as they have been read, and when to call it again if nothing arrives.
func (w *Watcher) settled(horizon uint64) (changes []Change, again <-chan time.Time) {
	w.rings.mu.Lock()
	defer w.rings.mu.Unlock()
	slices.SortStableFunc(w.pending, func(a, b *seen) int { return cmp.Compare(a.trailer.Time, b.trailer.Time) })
	n := 0
	for ; n < len(w.pending) && w.pending[n].trailer.Time <= horizon && !w.pending[n].unread.Load(); n++ {
		if c, ok := w.history.add(w.pending[n]); ok {
			changes = append(changes, c)
		}
	}
	w.pending = slices.Delete(w.pending, 0, n)
	w.rings.hasRoom()
	switch {
	case len(w.pending) > 0:
		again = time.After(settle)
	case len(w.history.unseen.gaps) > 0:
		again = time.After(late)
	}
	return changes, again
}

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

// Watcher reports BPF programs that are loaded and unloaded, from records that the kernel writes to a ring buffer of each CPU (Linux 5.1).
type Watcher struct {
	rings   *rings
	cpus    target.CPUChanges
	history history

	mu      sync.Mutex // guards reader and users
	reader  *Reader
	users   map[uint32]string
	unread  chan *seen     // loads whose programs are not read yet
	reading sync.WaitGroup // waits until all of them have been read

	// Guarded by rings.mu.
	pending []*seen // records that wait until all older records of other CPUs have been read

	arrived chan struct{} // has an element if there are new records
}

// seen is a record. The program of a load is opened at once, because it may be unloaded right after.
type seen struct {
	trailer perfevent.Trailer
	symbol  *perfevent.KSymbol
	event   *perfevent.BPFEvent
	lost    uint64

	program descriptor  // of a load, until it is read; -1 otherwise
	unread  atomic.Bool // a load whose details are not read yet
	details details
}

// mostOpen limits the number of programs that are open and not read yet.
const mostOpen = 64

// mostPending limits the number of records that wait to be reported. At the limit, the threads stop reading the rings.
const mostPending = 1024

// ringSize is the minimum size of a ring in bytes. The load and unload of a program take about 250 bytes, more if it has several functions.
// With its first page, the ring is as large as kernel.perf_event_mlock_kb allows by default for each CPU.
const ringSize = 512 << 10

// NewWatcher starts to watch the CPUs that are online. Run follows CPUs that come and go.
func NewWatcher() (*Watcher, error) { return newWatcher(ringSize) }

// newWatcher is NewWatcher with a minimum size of the rings in bytes.
func newWatcher(size int) (*Watcher, error) {
	var err error
	for _, err = range programs.ids() { // fail early without the permission to find programs by ID
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
	// Read them after opening the events: a program that is loaded in between is in both, and none is missed.
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

// Close stops watching.
func (w *Watcher) Close() error {
	err := errors.Join(w.cpus.Close(), w.rings.close())
	close(w.unread)
	return err
}

// settle is the longest time between a record's timestamp and the moment when the record can be read.
const settle = time.Millisecond

// late is the time after which an ID that is missing from the sequence of loads counts as unseen.
const late = time.Second

// Run calls report for each change, in the order of time, until the context is done. While report runs, at most mostPending records are
// buffered in addition to the rings.
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

// end reports the remaining changes, and lost records that no record reported.
func (w *Watcher) end(report func(Change)) error {
	w.rings.stop(w.rings.all)
	w.reading.Wait()
	if err := w.rings.drainAll(); err != nil { // for the unloads of programs that bperf itself kept open until it had read them
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

// reportUnseen reports the gaps in the sequence of IDs that opened at since (ns since boot) or before, and the programs in them that are
// still loaded.
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
			if p, err := w.reader.Read(id); err == nil { // otherwise it was unloaded
				report(w.history.found(p, w.user(p.UID), mapsOf(p)))
			}
		}
	}
	return nil
}

// horizon returns the time up to which all records can be read now, in ns since boot.
func (w *Watcher) horizon() (uint64, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, fmt.Errorf("read the time since boot: %w", err)
	}
	return uint64(now.Nano()) - uint64(settle), nil
}

// see adds a record to pending, and opens the program of a load. Another goroutine reads the program, because opening takes 1 µs and reading
// 50 µs, in which the next program may come and go.
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

// details are what could be read of a program that was loaded.
type details struct {
	program *Program // nil if it could not be read
	user    string
	maps    []Map
	comm    string // of the process that loaded it
	err     error  // why program is nil
}

// readAll reads the programs of unread loads.
func (w *Watcher) readAll() {
	for s := range w.unread {
		w.read(s)
		s.unread.Store(false)
		w.reading.Done()
	}
}

// read reads the program of a load and closes it.
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
	s.program.close() // not earlier: the kernel would free the maps together with the program
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

// mapsOf returns the maps of a program. Maps that cannot be read have no name.
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

// comm returns the comm of a process; empty if the process has ended, or if it is not visible in the PID namespace of /proc.
func comm(pid int32) string {
	name, _ := procfs.Comm(os.DirFS("/proc"), strconv.Itoa(int(pid)))
	return name
}

// settled removes the records up to horizon (ns since boot) from pending and returns their changes. It stops at a load that is not read yet.
// again fires when to call settled again if no record arrives before.
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

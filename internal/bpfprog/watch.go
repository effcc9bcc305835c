package bpfprog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
)

// Watcher sees BPF programs being loaded and unloaded, from records that the kernel leaves in a ring buffer of each CPU (Linux 5.1).
type Watcher struct {
	size    int // of a ring, in bytes
	rings   []*ring
	cpus    target.CPUChanges
	history history

	mu      sync.Mutex // between the goroutine that reads programs and others
	reader  *Reader
	users   map[uint32]string
	unread  chan *seen     // loads whose programs are open
	reading sync.WaitGroup // until all of them have been read

	pending []*seen // until records of other CPUs that are older would have been read
	lost    uint64  // records of which no record told, of CPUs that have gone
	spun    time.Time
}

// seen is what a record tells, and of a load the program, which is opened at once: it may be gone a moment later.
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
	w := &Watcher{size: size, users: make(map[uint32]string), unread: make(chan *seen, mostOpen)}
	if w.reader, err = NewReader(Detail{Functions: true, Memlock: true, Source: true}); err != nil {
		return nil, err
	}
	if w.cpus, err = target.ListenForCPUs(); err != nil {
		return nil, fmt.Errorf("watch BPF programs: %w", err)
	}
	if err := w.openRings(); err != nil {
		w.Close()
		return nil, err
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

// openRings begins to watch the CPUs that are online.
func (w *Watcher) openRings() error {
	cpus, err := procfs.OnlineCPUs()
	if err != nil {
		return fmt.Errorf("watch BPF programs: %w", err)
	}
	for _, cpu := range cpus {
		if err := w.openRing(cpu); err != nil {
			return err
		}
	}
	return nil
}

// openRing begins to watch a CPU, if it is online.
func (w *Watcher) openRing(cpu int) error {
	r, err := openRing(cpu, w.size)
	if r != nil {
		w.rings = append(w.rings, r)
	}
	return err
}

// Close ends watching.
func (w *Watcher) Close() error {
	errs := []error{w.cpus.Close()}
	for _, r := range w.rings {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}

// settle is how long a record may take from the reading of the clock until others can see it.
const settle = time.Millisecond

// late is how long a load may be left out of the sequence of IDs until it counts as unseen.
const late = time.Second

// Run calls tell for what happens, in the order in which it happened, until the context is done. As long as tell takes, nothing is read.
func (w *Watcher) Run(ctx context.Context, tell func(Change)) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer hurry()()
	awake, err := newWaker(ctx, w.cpus)
	if err != nil {
		return fmt.Errorf("watch BPF programs: %w", err)
	}
	defer awake.close()
	go w.readAll()
	defer close(w.unread)
	for {
		last := ctx.Err() != nil
		horizon, err := w.horizon()
		if err != nil {
			return err
		}
		if err := w.look(); err != nil {
			return err
		}
		if err := w.changeCPUs(awake); err != nil {
			return err
		}
		if last {
			return w.end(tell)
		}
		if len(w.pending) < mostPending && w.spin() { // telling can wait
			continue
		}
		for _, c := range w.settled(horizon) {
			tell(c)
		}
		if err := w.tellUnseen(horizon-uint64(late), tell); err != nil {
			return err
		}
		if err := awake.wait(w.rings, w.timeout()); err != nil {
			return fmt.Errorf("wait for BPF programs: %w", err)
		}
	}
}

// hurry lets this thread go before others, as far as it may: programs that live for a moment do not wait. It returns what ends that.
func hurry() (end func()) {
	const most = -20
	before, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // of the thread
	if err != nil || unix.Setpriority(unix.PRIO_PROCESS, 0, most) != nil {
		return func() {}
	}
	return func() { unix.Setpriority(unix.PRIO_PROCESS, 0, 20-before) } // the system call returns 20 less the priority
}

// end tells what there still is to tell, and what was lost at last.
func (w *Watcher) end(tell func(Change)) error {
	w.reading.Wait()
	if err := w.look(); err != nil { // for the ends of programs that were there as long as they were read
		return err
	}
	w.reading.Wait()
	for _, c := range w.settled(math.MaxUint64) {
		tell(c)
	}
	if err := w.tellUnseen(math.MaxUint64, tell); err != nil {
		return err
	}
	for _, r := range w.rings {
		w.lost += r.untold()
	}
	if w.lost > 0 {
		tell(Change{Event: LostSome, Time: time.Now(), Records: w.lost})
	}
	return nil
}

// timeout is how long to wait at most.
func (w *Watcher) timeout() time.Duration {
	switch {
	case len(w.pending) > 0:
		return settle
	case len(w.history.unseen.gaps) > 0:
		return late
	}
	return forever
}

// spinning is how long the rings are looked at without a pause after a record. Who loads a program for a moment often loads another
// one at once, and waking this thread takes longer than such a program is there.
const spinning = time.Millisecond

// mostPending is how many records wait at most to be told until there is a pause.
const mostPending = 1024

// spin waits for the next record in that way. It returns whether there is one. With a single CPU it would only be in the way.
func (w *Watcher) spin() bool {
	if runtime.NumCPU() == 1 {
		return false
	}
	for time.Since(w.spun) < spinning {
		for _, r := range w.rings {
			if r.Pending() {
				return true
			}
		}
	}
	return false
}

// tellUnseen tells of programs that were left out of the sequence of IDs at a time, in ns since boot, or before: of those that are
// there still, what they are.
func (w *Watcher) tellUnseen(since uint64, tell func(Change)) error {
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
		tell(Change{Event: Unseen, Time: at, ID: g.first, LastID: g.last})
		for _, id := range alive {
			if id < g.first || id > g.last {
				continue
			}
			if p, err := w.reader.Read(id); err == nil { // or it has gone
				tell(w.history.found(p, w.user(p.UID), mapsOf(p)))
			}
		}
	}
	return nil
}

// changeCPUs watches CPUs that have come, and ends it for those that have gone. Their rings do not come back with them.
func (w *Watcher) changeCPUs(awake *waker) error {
	for {
		change, ok := awake.change()
		if !ok {
			return nil
		}
		if err := w.look(); err != nil { // for the last records of a CPU that has gone
			return err
		}
		gone := func(r *ring) bool { return r.cpu == change.CPU || change.Number == 0 } // some messages were lost: it may be any
		for _, r := range w.rings {
			if gone(r) {
				w.lost += r.untold()
				if err := r.close(); err != nil {
					return fmt.Errorf("end watching CPU %d: %w", r.cpu, err)
				}
			}
		}
		w.rings = slices.DeleteFunc(w.rings, gone)
		var err error
		switch {
		case change.Number == 0:
			err = w.openRings()
		case change.Online:
			err = w.openRing(change.CPU)
		}
		if err != nil {
			return err
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

// look reads the records that there are, and opens the programs of loads. They are read by another goroutine: opening takes a
// microsecond, reading fifty, and by then the next one may have come and gone.
func (w *Watcher) look() error {
	for _, r := range w.rings {
		for {
			record, more, err := r.Next()
			if err != nil {
				return err
			}
			if !more {
				break
			}
			if err := w.see(r, record); err != nil {
				return err
			}
		}
	}
	return nil
}

// see keeps a record, and opens the program of a load.
func (w *Watcher) see(of *ring, r perfevent.Record) error {
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
			w.spun = time.Now()
		}
	case perfevent.RecordLost:
		l, err := r.Lost()
		if err != nil {
			return err
		}
		s.trailer, s.lost = l.Trailer, l.Records
		of.lost += l.Records
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

// settled are the changes up to a time, in ns since boot, as far as they have been read.
func (w *Watcher) settled(horizon uint64) []Change {
	slices.SortStableFunc(w.pending, func(a, b *seen) int { return cmp.Compare(a.trailer.Time, b.trailer.Time) })
	var changes []Change
	n := 0
	for ; n < len(w.pending) && w.pending[n].trailer.Time <= horizon && !w.pending[n].unread.Load(); n++ {
		if c, ok := w.history.add(w.pending[n]); ok {
			changes = append(changes, c)
		}
	}
	w.pending = slices.Delete(w.pending, 0, n)
	return changes
}

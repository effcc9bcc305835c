package bpfprog

import (
	"sync"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
)

// Loads opens each BPF program as soon as it is loaded (Linux 5.1), which keeps it loaded until it is read.
type Loads struct {
	rings   *rings
	unread  chan loaded
	reading sync.WaitGroup
}

// loaded is a program that was loaded, or the error of opening it.
type loaded struct {
	program Handle
	err     error
}

// loadsRing is the size of a ring in bytes. A load takes 80.
const loadsRing = 64 << 10

// WatchLoads calls read for each program that is loaded from now on, with the program or with the error of opening it (fs.ErrNotExist if
// it was unloaded already), and then closes the program. It makes one call of read at a time. It calls lost with the number of loads and
// unloads that found no room in a ring, one call at a time as well.
func WatchLoads(read func(Handle, error), lost func(records uint64)) (*Loads, error) {
	l := &Loads{unread: make(chan loaded, mostOpen)}
	see := func(r perfevent.Record) error {
		switch r.Type {
		case perfevent.RecordLost:
			l, err := r.Lost()
			if err != nil {
				return err
			}
			lost(l.Records)
		case perfevent.RecordBPFEvent:
			e, err := r.BPFEvent()
			if err != nil {
				return err
			}
			if e.Type == perfevent.BPFLoad {
				program, err := Open(e.ID)
				l.unread <- loaded{program, err}
			}
		}
		return nil
	}
	l.reading.Go(func() { // before the rings are open, because they wait when unread is full
		for o := range l.unread {
			read(o.program, o.err)
			if o.err == nil {
				o.program.Close()
			}
		}
	})
	var err error
	if l.rings, err = openRings(perfdata.AttrBPFEvent, loadsRing, see, func() bool { return false }); err != nil {
		l.end()
		return nil, err
	}
	return l, nil
}

// Join starts to watch a CPU that has come online.
func (l *Loads) Join(cpu int) error {
	return l.rings.follow(target.CPUChange{Number: 1, CPU: cpu, Online: true})
}

// Close stops watching, after the programs that were loaded before have been read. It returns the first error of reading the rings.
func (l *Loads) Close() error {
	l.rings.stop(l.rings.all)
	err := l.rings.err
	l.rings.close()
	l.end()
	return err
}

// end waits until all programs have been read. No ring may be open.
func (l *Loads) end() {
	close(l.unread)
	l.reading.Wait()
}

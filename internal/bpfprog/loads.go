package bpfprog

import (
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
)

// Loads opens each BPF program as soon as it is loaded (Linux 5.1).
type Loads struct{ rings *rings }

// loadsRing is the size of a ring in bytes. A load takes 80.
const loadsRing = 64 << 10

// WatchLoads calls opened for each program that is loaded from now on, with the program or with the error of opening it (fs.ErrNotExist if
// it was unloaded already). It calls lost with the number of loads and unloads that found no room in a ring. It makes one call at a time.
func WatchLoads(opened func(Handle, error), lost func(records uint64)) (*Loads, error) {
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
				opened(Open(e.ID))
			}
		}
		return nil
	}
	rings, err := openRings(perfdata.AttrBPFEvent, loadsRing, see, func() bool { return false })
	if err != nil {
		return nil, err
	}
	return &Loads{rings}, nil
}

// Join starts to watch a CPU that has come online.
func (l *Loads) Join(cpu int) error {
	return l.rings.follow(target.CPUChange{Number: 1, CPU: cpu, Online: true})
}

// Close stops watching, after it has opened the programs that were loaded before. It returns the first error of reading the rings.
func (l *Loads) Close() error {
	l.rings.stop(l.rings.all)
	err := l.rings.err
	l.rings.close()
	return err
}

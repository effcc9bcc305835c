package bpfprog

import (
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
)

// Loads opens each BPF program when it is loaded. Linux 5.1.
type Loads struct{ rings *rings }

// loadsRing is the size of a ring in bytes: a load takes 80.
const loadsRing = 64 << 10

// WatchLoads calls opened for each program that is loaded from now on, with the program or the reason why it could not be opened
// (fs.ErrNotExist if it was gone already), and lost for loads and unloads that found no room in a ring. It makes one call at a time.
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
	return &Loads{rings}, err
}

// Join watches a CPU that has come online, too.
func (l *Loads) Join(cpu int) error {
	return l.rings.follow(target.CPUChange{Number: 1, CPU: cpu, Online: true})
}

// Close ends watching. Programs that were loaded before it are opened first. It returns the first error that kept one from being seen.
func (l *Loads) Close() error {
	l.rings.stop(l.rings.all)
	err := l.rings.err
	l.rings.close()
	return err
}

package bpfprog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"time"
)

// Listing is a list of programs with what belongs to them.
type Listing struct {
	Window  time.Duration // in which they were observed; 0 if they were not
	Entries []*Entry
	Missing []*NoMatchError // items that selected nothing
}

// Entry is a program of a Listing.
type Entry struct {
	*Program
	User     string // name of the user who loaded it; the number if there is no name for it
	Maps     []Map
	Attached []Attachment
	Holders  []Holder
	Use      *Use // nil if it was not observed, or was unloaded meanwhile
}

// Use is what a program did while it was observed. The run time has a part of the measurement's own: the clock is read twice a run.
type Use struct {
	Stats
	CPUs float64 `json:"cpus"` // how many it kept busy on average
}

// List lists the programs that are selected. With an interval it lets the kernel count the runs of all programs for so long, through
// a descriptor, so that this ends with the process (BPF_ENABLE_STATS, Linux 5.8).
func List(s Selector, interval time.Duration, functions bool) (*Listing, error) {
	r, err := NewReader(Detail{Functions: functions})
	if err != nil {
		return nil, err
	}
	scan := startScan()
	all, err := r.all()
	if err != nil {
		return nil, err
	}
	l := new(Listing)
	selected, missing := s.Select(all, Machine{})
	entries := make([]Entry, len(selected))
	for i, p := range selected {
		entries[i].Program = p
		l.Entries = append(l.Entries, &entries[i])
	}
	l.Missing = missing
	if len(l.Entries) == 0 {
		return l, nil
	}
	if interval > 0 {
		if err := l.observe(r, interval); err != nil {
			return nil, err
		}
	}
	return l, l.complete(r, all, <-scan)
}

// scan is what was found of open files.
type scan struct {
	holding
	err error
}

// startScan looks at the open files of other processes while something else is read: it takes the longest.
func startScan() <-chan scan {
	done := make(chan scan, 1)
	go func() {
		// Not its ID in its own PID namespace: /proc can be of another one.
		self, err := os.Readlink("/proc/self")
		if err != nil {
			done <- scan{err: fmt.Errorf("look for the processes that hold BPF programs: %w", err)}
			return
		}
		pid, _ := strconv.Atoi(self) // as procfs names processes
		h, err := holders("/proc", pid)
		done <- scan{h, err}
	}()
	return done
}

// complete adds what the programs themselves do not tell.
func (l *Listing) complete(r *Reader, all []*Program, open scan) error {
	if open.err != nil {
		return open.err
	}
	maps, err := readMaps(all)
	if err != nil {
		return err
	}
	attached, err := r.attachments(all, maps)
	if err != nil {
		return err
	}
	unlinked{attached, all}.addPerf(open.perf)
	users := make(map[uint32]string)
	for _, e := range l.Entries {
		e.Attached = attached[e.ID]
		if e.Holders, e.Memlock = open.of(e.ID); e.Memlock == 0 {
			if err := e.readMemlock(r); err != nil {
				return err
			}
		}
		for _, id := range e.MapIDs {
			if m, there := maps[id]; there {
				e.Maps = append(e.Maps, m.named())
			}
		}
		if users[e.UID] == "" {
			users[e.UID] = userName(e.UID)
		}
		e.User = users[e.UID]
	}
	return nil
}

// readMemlock reads the memory of a program that no other process has a descriptor of: those spare opening a file of procfs again.
func (e *Entry) readMemlock(r *Reader) (err error) {
	e.Memlock, err = r.memlock(e.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func userName(uid uint32) string {
	number := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}

// observe lets the kernel count runs for the interval.
func (l *Listing) observe(r *Reader, interval time.Duration) error {
	counting, err := enableStats()
	if err != nil {
		return err
	}
	defer counting.Close()
	start := time.Now()
	if err := l.readStats(r); err != nil {
		return err
	}
	before := make(map[uint32]Stats)
	for _, e := range l.Entries {
		before[e.ID] = e.Stats
	}
	time.Sleep(interval - time.Since(start))
	l.Window = time.Since(start)
	if err := l.readStats(r); err != nil {
		return err
	}
	for _, e := range l.Entries {
		if e.Use == nil {
			continue
		}
		e.Use.Stats = e.Stats.since(before[e.ID])
		e.Use.CPUs = float64(e.Use.RunTime) / float64(l.Window)
	}
	return nil
}

// readStats brings the statistics of all programs up to date. Those that are no more have no Use.
func (l *Listing) readStats(r *Reader) error {
	for _, e := range l.Entries {
		stats, err := r.stats(e.ID)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			e.Use = nil
		case err != nil:
			return err
		default:
			e.Stats, e.Use = stats, new(Use)
		}
	}
	return nil
}

func (s Stats) since(before Stats) Stats {
	return Stats{s.Runs - before.Runs, s.RunTime - before.RunTime, s.Missed - before.Missed}
}

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

// Listing lists programs with their maps, attachments and holders.
type Listing struct {
	Window  time.Duration // time of observation; 0 without observation
	Entries []*Entry
	Missing []*NoMatchError // for each item of the selector that selected nothing
}

// Entry is a program of a Listing.
type Entry struct {
	*Program
	User     string // name of the user who loaded it, or the UID if it has no name
	Maps     []Map
	Attached []Attachment
	Holders  []Holder
	Use      *Use // nil without observation, or if it was unloaded during the observation
}

// Use is what a program did while it was observed. The run time includes part of the cost of measuring it: the kernel reads the clock twice
// per run.
type Use struct {
	Stats
	CPUs float64 `json:"cpus"` // average number of CPUs that it kept busy
}

// List returns the selected programs. If interval is not 0, the kernel counts the runs of all programs for that time. A descriptor enables
// that, so counting ends with the process (BPF_ENABLE_STATS, Linux 5.8).
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

// scan is the result of scanning open files.
type scan struct {
	holding
	err error
}

// startScan scans the open files of other processes in the background, because that takes longer than anything else that List reads.
func startScan() <-chan scan {
	done := make(chan scan, 1)
	go func() {
		// Not os.Getpid: /proc may belong to another PID namespace.
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

// complete adds what the programs' own info does not have: attachments, holders, memory, names of maps and users.
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

// readMemlock reads the memory of a program of which no other process has a descriptor. For the others the scan has read it from procfs
// already.
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

// observe makes the kernel count runs for the interval.
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

// readStats updates the statistics of all programs. It sets Use to nil for programs that were unloaded.
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

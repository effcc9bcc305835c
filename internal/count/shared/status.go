package shared

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/count/shared/upstream"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// Status describes the sessions of a machine and what they share, at one moment.
type Status struct {
	Events        []EventStatus   `json:"events"`         // shared events
	Sessions      []SessionStatus `json:"sessions"`       // the oldest first
	Ended         int             `json:"ended_sessions"` // killed sessions that have not been swept yet
	Lost          Lost            `json:"lost"`           // what the BPF programs missed
	Tables        []Table         `json:"tables"`         // the shared tables
	Cost          *Cost           `json:"cost"`           // nil without sessions
	OtherVersions []string        `json:"other_versions"` // pins of bperf versions that cannot share with this one
}

// EventStatus describes a shared event.
type EventStatus struct {
	Name     string    `json:"name"`                        // as the first session that counted it wrote it
	Filter   string    `json:"filter,omitempty"`            // filter of a tracepoint; empty without one
	User     bool      `json:"user"`                        // counts in user mode
	Kernel   bool      `json:"kernel"`                      // counts in the kernel
	Since    time.Time `json:"since"`                       // when it was opened
	CPUs     string    `json:"cpus"`                        // list of the CPUs that have a perf event for it
	Leader   uint32    `json:"leader_link,omitempty"`       // ID of the link of the leader that counts it instead, in upstream perf's layout
	Sessions int       `json:"sessions"`                    // number of sessions that count it
	Apart    bool      `json:"perf_counts_apart,omitempty"` // sessions of upstream perf count it with a counter of their own
}

// SessionStatus describes a live session.
type SessionStatus struct {
	PID     int       `json:"pid"`     // as the session sees itself
	Command []string  `json:"command"` // its arguments
	Target  string    `json:"target"`  // who is measured
	Events  []string  `json:"events"`  // names of its events
	Since   time.Time `json:"since"`   // when it began
}

// Table has the number of used elements and the size of one of the shared tables.
type Table struct {
	Name string `json:"name"`
	Used int    `json:"used"` // used elements
	Room int    `json:"room"` // elements that there is room for
}

// Lost counts the failures of the BPF programs, since the first of the present sessions began.
type Lost struct {
	Readings uint64 `json:"readings"` // readings of an event that failed
	Tasks    uint64 `json:"tasks"`    // children for which there was no room
	Sums     uint64 `json:"sums"`     // differences for which there was no sum
	Cgroups  uint64 `json:"cgroups"`  // searches that ended below the root, from a cgroup that is too deep
	Runs     uint64 `json:"runs"`     // runs of the BPF programs that the kernel skipped, because the program was already running there
	Switches uint64 `json:"switches"` // switches to counted tasks that the kernel did not show: what the tasks did then is missing
}

// String lists the losses. It returns "" if there are none.
func (l Lost) String() string {
	var parts []string
	for _, p := range []struct {
		n    uint64
		what string
	}{
		{l.Readings, "readings of events"},
		{l.Tasks, "children, as there was no room for more tasks"},
		{l.Sums, "differences, as there was no sum to add them to"},
		{l.Cgroups, "searches for the counts of cgroups that are too deep"},
		{l.Runs, "runs of BPF programs, as the kernel left them out"},
		{l.Switches, "context switches to tasks that are counted, as the kernel did not show them"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, "; ")
}

// Examine returns the status of the sessions in a directory, and measures their cost for a window of time. It creates and changes nothing.
// It is no error if there are no sessions, even without bpffs.
func Examine(where Where, window time.Duration) (*Status, error) {
	s, programs, err := readStatus(where)
	if err != nil {
		return nil, fmt.Errorf("look at the shared counters: %w", err)
	}
	if len(s.Sessions) == 0 {
		return s, programs.close()
	}
	o, err := programs.observe()
	if err == nil {
		time.Sleep(window)
		s.Cost, err = o.End()
	}
	if err != nil {
		return nil, fmt.Errorf("observe the BPF programs of shared counters: %w", err)
	}
	return s, nil
}

// readStatus reads everything but the cost, and opens the programs for measuring that.
func readStatus(where Where) (*Status, programs, error) {
	s := &Status{Events: []EventStatus{}, Sessions: []SessionStatus{}, Tables: []Table{}, OtherVersions: []string{}}
	_, err := os.Stat(where.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w%s", err, permission(err))
	}
	dir, err := openDirectory(where.Dir) // would create the directory if it did not exist
	if err != nil {
		return nil, nil, err
	}
	defer dir.close()
	unlock, err := dir.lock(lookOnly)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	if s.OtherVersions, err = dir.others(); err != nil {
		return nil, nil, err
	}
	known, err := dir.load()
	var o *objects
	if err == nil {
		o, err = connect(known, nil)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w%s", err, permission(err))
	}
	defer o.close()
	o.openLinks()
	if err := s.read(o, where.AttrMap); err != nil {
		return nil, nil, err
	}
	programs, err := openPrograms(o)
	return s, programs, err
}

// others returns the pins of other layouts.
func (d *directory) others() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	others := []string{}
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, "counters-") && name != filepath.Base(d.pin()) {
			others = append(others, name)
		}
	}
	return others, nil
}

// read sets the status from the tables.
func (s *Status) read(o *objects, attrMap string) error {
	b, err := openBook(o)
	if err != nil {
		return err
	}
	slots, err := readSlots(o)
	if err != nil {
		return err
	}
	live, err := s.readSessions(b.sessions, slots)
	if err != nil {
		return err
	}
	apart, err := slots.countedApart(attrMap)
	if err != nil {
		return err
	}
	for i := range slots.table {
		if slot := &slots.table[i]; slot.used() {
			e := slot.status()
			e.Sessions, e.Apart = counting(live, i), apart[i]
			s.Events = append(s.Events, e)
		}
	}
	if s.Lost, err = readLost(o); err != nil {
		return err
	}
	tasks := 0
	if err := eachElement(o.maps[countersMapTasks], func(uint64, uint32) error { tasks++; return nil }); err != nil {
		return fmt.Errorf("read the table of tasks: %w", err)
	}
	s.Tables = []Table{
		{"events", len(s.Events), maxEvents},
		{"sessions", len(s.Sessions) + s.Ended, maxSessions},
		{"nodes", b.nodes.used(), maxNodes - 1},
		{"tasks", tasks, int(o.maps[countersMapTasks].MaxEntries())},
		{"cgroups", int(b.state.Cgroups), int(o.maps[countersMapCgroups].MaxEntries())},
	}
	return nil
}

// readSessions sets the status of the sessions. It returns the live ones.
func (s *Status) readSessions(all []countersSession, slots *slots) (live []countersSession, err error) {
	for _, of := range all {
		if of.Token == 0 {
			continue
		}
		if !tokenLives(of.Token) {
			s.Ended++
			continue
		}
		d, err := describe(of.Token)
		if errors.Is(err, fs.ErrNotExist) { // it ended at this moment
			s.Ended++
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read what a session says of itself: %w%s", err, permission(err))
		}
		live = append(live, of)
		s.Sessions = append(s.Sessions, SessionStatus{
			PID: d.PID, Command: d.Command, Target: d.Target, Events: slots.names(of.Events), Since: realtime(of.Since)})
	}
	slices.SortStableFunc(s.Sessions, func(a, b SessionStatus) int { return a.Since.Compare(b.Since) })
	return live, nil
}

// names returns the names of a set of events.
func (s *slots) names(events uint64) []string {
	names := []string{}
	for i := range s.table {
		if events>>i&1 != 0 {
			names = append(names, text(s.table[i].Name[:]))
		}
	}
	return names
}

// status returns the status of a slot's event, without Sessions and Apart.
func (s *countersSlot) status() EventStatus {
	attr := s.attr()
	var cpus []int
	for cpu := range maxCPUs {
		if s.has(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return EventStatus{
		Name: text(s.Name[:]), Filter: text(s.Filter[:]),
		User: !attr.Has(perfdata.AttrExcludeUser), Kernel: !attr.Has(perfdata.AttrExcludeKernel),
		Since: realtime(s.Since), CPUs: procfs.FormatCPUList(cpus), Leader: s.Leader,
	}
}

// realtime converts ns of CLOCK_REALTIME to a time.
func realtime(ns uint64) time.Time { return time.Unix(0, int64(ns)) }

// counting returns the number of sessions that count the event of a slot.
func counting(sessions []countersSession, slot int) (n int) {
	for _, s := range sessions {
		n += int(s.Events >> slot & 1)
	}
	return n
}

// used returns the number of nodes that are in use or resting.
func (n nodes) used() (used int) {
	for id := range n {
		if n[id].Session != 0 || n[id].Retired != 0 {
			used++
		}
	}
	return used
}

// readLost returns the losses on all CPUs together. The keys are enum lost of counters.bpf.c.
func readLost(o *objects) (l Lost, err error) {
	for key, sum := range []*uint64{&l.Readings, &l.Tasks, &l.Sums, &l.Cgroups, &l.Switches} {
		var cpus []uint64
		if err := o.maps[countersMapLost].Lookup(uint32(key), &cpus); err != nil {
			return l, fmt.Errorf("read what was lost: %w", err)
		}
		for _, n := range cpus {
			*sum += n
		}
	}
	all, err := openPrograms(o)
	if err != nil {
		return l, err
	}
	l.Runs, err = all.missed()
	return l, errors.Join(err, all.close())
}

// sub returns the losses since an earlier moment.
func (l Lost) sub(before Lost) Lost {
	return Lost{
		l.Readings - before.Readings, l.Tasks - before.Tasks, l.Sums - before.Sums, l.Cgroups - before.Cgroups,
		l.Runs - before.Runs, l.Switches - before.Switches,
	}
}

// ApartRemedy is the message that explains how to share an event that sessions of upstream perf count with a counter of their own.
const ApartRemedy = "to share it with perf, start the first session of bperf that counts it with --bpf-attr-map " + upstream.DefaultPath +
	", or set stat.bpf-attr-map in perf's configuration for good"

// Sharers describes the sessions that count an event.
type Sharers struct {
	Sessions int  // their number, including this one; 0 if the event is not supported
	Apart    bool // sessions of upstream perf count it with a counter of their own
}

// Sharers returns the sharers of each event of the list.
func (c *Counter) Sharers() ([]Sharers, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	unlock, err := c.dir.lock(lookOnly)
	if err != nil {
		return nil, err
	}
	defer unlock()
	b, err := openBook(c.o)
	if err != nil {
		return nil, err
	}
	live := slices.DeleteFunc(b.sessions, func(s countersSession) bool { return s.Token == 0 || !tokenLives(s.Token) })
	slots, err := readSlots(c.o)
	if err != nil {
		return nil, err
	}
	apart, err := slots.countedApart(c.where.AttrMap)
	if err != nil {
		return nil, err
	}
	all := make([]Sharers, len(c.events))
	for i, e := range c.events {
		if e.err == nil {
			all[i] = Sharers{counting(live, e.slot), apart[e.slot]}
		}
	}
	return all, nil
}

// Lost returns the losses of all sessions since the counter was opened.
func (c *Counter) Lost() (Lost, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lost, err := readLost(c.o)
	return lost.sub(c.lost), err
}

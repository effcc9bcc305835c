package direct

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
)

// Open opens the events of a list for a target, disabled. Tool events and those with the modifier b
// are for other engines and have no cells here. What this machine cannot count is no error but said by Err,
// and so is an event that may not be counted while others may; an *accessError is returned when none
// may.
//
// As perf does, it counts in user mode only what a user without privileges may not count in the
// kernel, if the user left the choice: then the event's Attr says so, and its Name ends in u.
// Events that happen in the kernel alone, like context-switches, would always be 0 and are refused.
//
// Threads that ended are left out, unless all have ended. CPUs of the target may go offline and come online: they are counted while
// they are online, except for the moment until the kernel has reported that they came. Where its reports are refused (a socket of
// NETLINK_KOBJECT_UEVENT), CPUs that come online are not counted. Each place of an event takes a file descriptor; the limit is raised
// as far as possible.
func Open(list event.List, t target.Target, o count.Options) (*Counter, error) {
	p := newOpener(os.DirFS("/"), t, o)
	if len(t.Threads) > 0 {
		if err := p.open(list); err != nil {
			return nil, err
		}
		return p.counter(), nil
	}
	uevents, refused := target.ListenForCPUs()
	if err := p.openOnCPUs(list); err != nil {
		return nil, errors.Join(err, uevents.Close())
	}
	c := p.counter()
	c.uevents = uevents
	if refused == nil {
		go c.followCPUs(uevents)
	}
	return c, nil
}

// openOnCPUs opens a list on the CPUs of the target and makes places for those that may join it.
func (p *opener) openOnCPUs(list event.List) error {
	if p.options.LaterCPUs {
		offline, err := procfs.OfflineCPUs()
		if err != nil {
			return err
		}
		all := p.target
		all.CPUs = slices.Sorted(slices.Values(slices.Concat(all.CPUs, offline)))
		p.places = allPlaces(all)
	}
	return p.open(list)
}

func newOpener(root fs.FS, t target.Target, o count.Options) *opener {
	return &opener{root: root, target: t, options: o, places: allPlaces(t), clocks: make(map[place]*perfevent.Event), ended: make([]bool, len(t.Threads)),
		hasPMU: sync.OnceValue(func() bool { return hasPMU(root) }),
		topology: sync.OnceValues(func() (target.Topology, error) {
			sys, err := fs.Sub(root, "sys")
			if err != nil {
				return nil, err
			}
			return target.ReadTopology(sys)
		})}
}

// opener is the state of opening.
type opener struct {
	root    fs.FS
	target  target.Target
	options count.Options
	places  []place
	members []*member // of all groups
	groups  [][]*member

	lastGroup int // the highest number of a group
	cgroups   []*os.File
	clocks    map[place]*perfevent.Event // see openClocks
	ended     []bool                     // by thread

	hasPMU   func() bool
	topology func() (target.Topology, error)
}

// member is an event of a group while it is opened.
type member struct {
	event *event.Event
	group int   // groups that are opened together have the same number
	alone bool  // the only event of its group
	cpus  []int // nil for all of the target

	fds []*perfevent.Event // by place, nil where it is not open
	err error              // why it is not counted
}

func (p *opener) open(list event.List) (err error) {
	defer func() {
		p.closeCgroups()
		if err != nil {
			p.closeAll()
		}
	}()
	if err := p.openCgroups(); err != nil {
		return err
	}
	groups := make([][]*member, len(list))
	p.lastGroup = len(list) - 1
	for i, g := range list {
		for _, e := range g.Events {
			m := &member{event: e, group: i, alone: len(g.Events) == 1, fds: make([]*perfevent.Event, len(p.places))}
			groups[i] = append(groups[i], m)
			p.members = append(p.members, m)
			if err := p.plan(m); err != nil {
				return err
			}
		}
	}
	p.groups = groups
	const few = 64 // there is always room for as many
	if n := p.planned(); n > few {
		perfevent.ReserveFiles(n)
	}
	for _, round := range p.rounds() {
		if err := onCPU(p.places[round[0]].cpu, len(round)*len(p.members), func() error {
			return p.openRound(list, round)
		}); err != nil {
			return err
		}
	}
	return p.verdict()
}

// rounds are the places (indexes) that are opened one after the other: those of one CPU, or all threads.
func (p *opener) rounds() [][]int {
	byCPU := make(map[int][]int)
	var cpus []int
	for i, at := range p.places {
		if byCPU[at.cpu] == nil {
			cpus = append(cpus, at.cpu)
		}
		byCPU[at.cpu] = append(byCPU[at.cpu], i)
	}
	rounds := make([][]int, len(cpus))
	for i, cpu := range cpus {
		rounds[i] = byCPU[cpu]
	}
	return rounds
}

// openRound opens all groups in some of the places.
func (p *opener) openRound(list event.List, round []int) error {
	var full *perfevent.LimitError
	if err := p.openClocks(round); errors.As(err, &full) {
		return p.tooManyFiles(full)
	}
	for i, g := range list {
		if len(p.groups[i]) > 1 && p.groups[i][0].alone { // was split in an earlier round
			if err := p.openAlone(p.groups[i], round); err != nil {
				return err
			}
			continue
		}
		err := p.openGroup(p.groups[i], round)
		if errors.Is(err, errSchedule) && g.Weak {
			p.splitGroup(p.groups[i])
			err = p.openAlone(p.groups[i], p.everywhere())
		}
		if err != nil && !errors.Is(err, errSchedule) {
			return err
		}
	}
	return nil
}

// everywhere is all places.
func (p *opener) everywhere() []int {
	all := make([]int, len(p.places))
	for i := range all {
		all[i] = i
	}
	return all
}

// openAlone opens the events of a group that was split.
func (p *opener) openAlone(group []*member, round []int) error {
	for _, m := range group {
		if err := p.openGroup([]*member{m}, round); err != nil {
			return err
		}
	}
	return nil
}

// plan decides where an event is to be opened.
func (p *opener) plan(m *member) (err error) {
	m.cpus, err = selectCPUs(m.event, p.target, p.topology)
	var unsupported *count.Unsupported
	if errors.As(err, &unsupported) {
		m.err = unsupported
		return nil
	}
	return err
}

func (m *member) ours() bool { return m.event.Tool == event.ToolNone && !m.event.BPF && m.err == nil }

func (m *member) wants(at place) bool {
	return m.cpus == nil || slices.Contains(m.cpus, at.cpu)
}

// errSchedule is the outcome of opening a group that the PMU refuses though it takes its events one
// by one.
var errSchedule = errors.New("the events do not fit in a group")

// openGroup opens the events of one group in some of the places, in each behind the first that is open
// there. It returns errSchedule when a member was left out for the sake of the group.
func (p *opener) openGroup(group []*member, round []int) error {
	var result error
	for i, m := range group {
		if !m.ours() {
			continue
		}
		err := p.openMember(m, group[:i], round)
		switch {
		case errors.Is(err, errSchedule):
			result = errSchedule
		case err != nil:
			return err
		}
	}
	return result
}

// leader is the first of some members that is open in a place, or nil.
func leader(members []*member, place int) *perfevent.Event {
	for _, m := range members {
		if m.fds[place] != nil {
			return m.fds[place]
		}
	}
	return nil
}

// splitGroup makes a group of each member.
func (p *opener) splitGroup(group []*member) {
	for _, m := range group {
		m.close()
		m.alone, m.group = true, p.lastGroup+1
		p.lastGroup++
		var unsupported *count.Unsupported
		if errors.As(m.err, &unsupported) && errors.Is(unsupported.Err, errSchedule) {
			m.err = nil
		}
	}
}

// openMember opens an event in some of its places, behind the members before it. An event that cannot
// be counted in one is not counted in any, and gets its err.
func (p *opener) openMember(m *member, before []*member, round []int) error {
	for _, i := range round {
		at := p.places[i]
		if m.fds[i] != nil || !m.wants(at) || at.thread != count.None && p.ended[at.thread] {
			continue
		}
		leads := leader(before, i)
		fd, err := p.openAt(m, at, leads)
		if fd != nil {
			m.fds[i] = fd
			if err := m.event.SetFilter(fd); err != nil {
				return err
			}
			continue
		}
		if p.where(at).Gone(err) {
			if at.thread != count.None {
				p.ended[at.thread] = true
			}
			continue
		}
		switch err {
		case syscall.EACCES, syscall.EPERM:
			if restricted := m.event.InUserMode(); restricted != nil {
				*m.event = *restricted
				m.close()
				return p.openMember(m, before, p.everywhere())
			}
		case syscall.EINVAL:
			if leads != nil && p.fitsAlone(m, at) {
				m.close()
				m.err = unscheduled(m.event, before[0].event.Name)
				return errSchedule
			}
		}
		m.close()
		m.err, err = p.explain(m.event, at, err)
		return err
	}
	return nil
}

// openAt opens an event in a place.
func (p *opener) openAt(m *member, at place, leader *perfevent.Event) (*perfevent.Event, error) {
	attr, where := p.attr(m, leader == nil), p.where(at)
	where.Leader = leader
	return perfevent.Open(&attr, where)
}

func (p *opener) where(at place) perfevent.Where {
	switch {
	case at.thread != count.None:
		return perfevent.Where{Thread: p.target.Threads[at.thread].TID, CPU: perfevent.AnyCPU}
	case at.cgroup != count.None:
		return perfevent.Where{Cgroup: int(p.cgroups[at.cgroup].Fd()), UseCgroup: true, CPU: at.cpu}
	default:
		return perfevent.Where{Thread: perfevent.AnyThread, CPU: at.cpu}
	}
}

// attr completes an event's attributes. Members of a group count whenever their leader does, so
// only leaders are disabled, and start on exec. Periods are for sampling.
//
// On CPUs nothing starts on exec, but arm64 leaves a disabled leader out when it checks whether the group
// fits on the counters, unless it has that flag.
func (p *opener) attr(m *member, leads bool) perfdata.Attr {
	attr := m.event.Attr
	attr.SamplePeriod = 0
	attr.Flags &^= perfdata.AttrFreq
	attr.ReadFormat = perfevent.ReadFormatTimes
	if !m.alone {
		attr.ReadFormat |= perfdata.ReadGroup
	}
	if leads {
		attr.Flags |= perfdata.AttrDisabled
		if p.options.EnableOnExec || len(p.target.Threads) == 0 {
			attr.Flags |= perfdata.AttrEnableOnExec
		}
	}
	if p.options.Inherit && len(p.target.Threads) > 0 {
		attr.Flags |= perfdata.AttrInherit
	}
	if p.options.AllUser {
		attr.Flags |= perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV
	}
	if p.options.AllKernel {
		attr.Flags |= perfdata.AttrExcludeUser
	}
	return attr
}

// fitsAlone reports whether an event that a group refused can be opened outside of it.
func (p *opener) fitsAlone(m *member, at place) bool {
	fd, err := p.openAt(m, at, nil)
	if err != nil {
		return false
	}
	fd.Close()
	return true
}

func (p *opener) openCgroups() error {
	for _, cgroup := range p.target.Cgroups {
		dir, err := os.Open(cgroup.Path)
		if err != nil {
			return fmt.Errorf("cgroup %s: %w", cgroup.Name, err)
		}
		p.cgroups = append(p.cgroups, dir)
	}
	return nil
}

// openClocks keeps an event that counts nothing running for each cgroup on each CPU. Without one, Linux
// 6.12 to 7.2 (at least) do not start a cgroup's time when its first event is enabled: until the CPU
// switches to a task of another cgroup, times are 0, or begin when that cgroup was last counted.
// Where it cannot be opened, neither can the events, which tell why.
func (p *opener) openClocks(round []int) error {
	if len(p.target.Cgroups) == 0 {
		return nil
	}
	dummy := perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwareDummy}
	for _, i := range round {
		clock, err := perfevent.Open(&dummy, p.where(p.places[i]))
		if clock == nil {
			return err
		}
		if old := p.clocks[p.places[i]]; old != nil { // its CPU went offline
			old.Close()
		}
		p.clocks[p.places[i]] = clock
	}
	return nil
}

func (p *opener) closeCgroups() {
	for _, dir := range p.cgroups {
		dir.Close()
	}
	p.cgroups = nil
}

// openSet opens a set again, after its CPU was offline.
func (p *opener) openSet(s *set) error {
	if err := p.openClocks([]int{slices.Index(p.places, s.place)}); err != nil {
		return err
	}
	var events []*perfevent.Event
	for _, m := range s.members {
		var leader *perfevent.Event
		if len(events) > 0 {
			leader = events[0]
		}
		fd, err := p.openAt(m, s.place, leader)
		if fd != nil {
			events = append(events, fd)
			err = m.event.SetFilter(fd)
		}
		if err != nil {
			for _, e := range events {
				e.Close()
			}
			return err
		}
	}
	s.events = events
	return nil
}

func (m *member) close() {
	for i, fd := range m.fds {
		if fd != nil {
			fd.Close()
			m.fds[i] = nil
		}
	}
}

func (p *opener) closeAll() {
	for _, clock := range p.clocks {
		clock.Close()
	}
	for _, m := range p.members {
		m.close()
	}
}

// planned returns the number of file descriptors that all events take.
func (p *opener) planned() (n int) {
	if len(p.target.Cgroups) > 0 {
		n = len(p.places) // clocks
	}
	for _, m := range p.members {
		for _, at := range p.places {
			if m.ours() && m.wants(at) {
				n++
			}
		}
	}
	return n
}

// verdict is an error when nothing can be counted for reasons that are not the events'.
func (p *opener) verdict() error {
	if len(p.ended) > 0 && !slices.Contains(p.ended, false) {
		return goneError(p.target)
	}
	var denied error
	for _, m := range p.members {
		var access *accessError
		switch {
		case errors.As(m.err, &access):
			if denied == nil {
				denied = m.err
			}
		case m.ours():
			return nil
		}
	}
	return denied
}

// counter puts what is open together.
func (p *opener) counter() *Counter {
	c := &Counter{opener: p, errs: make([]error, len(p.members)), joined: make(map[int]bool),
		cells: make([]count.Cell, 0, len(p.members)*len(p.places))}
	sets := make([]int, (p.lastGroup+1)*len(p.places)) // by group and place: the index in c.sets, and one more
	c.sets = make([]set, 0, len(sets))
	largest := 0
	for i, m := range p.members {
		c.errs[i] = m.err
		if !m.ours() {
			continue
		}
		for j, fd := range m.fds {
			at := p.places[j]
			if fd == nil && (at.cpu == count.None || !m.wants(at)) { // the thread has ended, or it is not counted there
				continue
			}
			index := &sets[m.group*len(p.places)+j]
			if *index == 0 {
				c.sets = append(c.sets, set{place: at, pinned: m.event.Attr.Has(perfdata.AttrPinned), group: !m.alone})
				*index = len(c.sets)
			}
			s := &c.sets[*index-1]
			s.members = append(s.members, m)
			if fd != nil {
				s.events = append(s.events, fd)
			}
			s.cells = append(s.cells, len(c.cells))
			largest = max(largest, len(s.cells))
			c.cells = append(c.cells, count.Cell{Event: i, CPU: at.cpu, Thread: at.thread, Cgroup: at.cgroup, Program: count.None})
		}
	}
	c.group = make([]perfevent.Reading, largest)
	for i := range c.sets {
		c.sets[i].dropPart()
	}
	slices.SortStableFunc(c.sets, func(a, b set) int { return cmp.Compare(a.cpu, b.cpu) })
	return c
}

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

// Open opens the events of a list for a target, disabled. It skips tool events and events with the modifier b,
// which other engines count. Err returns the error of an event that this machine cannot count, or that the user may not count.
// Open returns an *accessError if the user may count none of the events.
//
// If the user may not count an event in the kernel and did not choose a mode, Open restricts the event to user mode, as perf does:
// it changes the event's Attr and adds u to its Name. Events that happen only in the kernel, like context-switches, would
// always be 0, so they get an error.
//
// Open skips threads that have ended, unless all have. CPUs of the target may go offline and come online. Each counts while it is
// online, except until the kernel reports that it came online. If the kernel refuses these reports (a socket of
// NETLINK_KOBJECT_UEVENT), CPUs that come online do not count. Each event takes one file descriptor per scope; Open raises the limit
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

// openOnCPUs opens a list on the CPUs of the target. With LaterCPUs it also makes scopes for offline CPUs.
func (p *opener) openOnCPUs(list event.List) error {
	if p.options.LaterCPUs {
		offline, err := procfs.OfflineCPUs()
		if err != nil {
			return err
		}
		all := p.target
		all.CPUs = slices.Sorted(slices.Values(slices.Concat(all.CPUs, offline)))
		p.scopes = allScopes(all)
	}
	return p.open(list)
}

func newOpener(root fs.FS, t target.Target, o count.Options) *opener {
	return &opener{root: root, target: t, options: o, scopes: allScopes(t), ended: make([]bool, len(t.Threads)),
		hasPMU: sync.OnceValue(func() bool { return hasPMU(root) }),
		topology: sync.OnceValues(func() (target.Topology, error) {
			sys, err := fs.Sub(root, "sys")
			if err != nil {
				return nil, err
			}
			return target.ReadTopology(sys)
		})}
}

// opener has the state that Open and followCPUs need to open perf events.
type opener struct {
	root    fs.FS
	target  target.Target
	options count.Options
	scopes  []scope
	members []*member // of all groups
	groups  [][]*member

	lastGroup int // the highest number of a group
	cgroups   []*os.File
	clocks    []*perfevent.Event // by scope of cgroups; see openClocks
	ended     []bool             // by thread of the target

	hasPMU   func() bool
	topology func() (target.Topology, error)
}

// member is one event of the list in its group.
type member struct {
	event *event.Event
	group int   // members of one group have the same number
	alone bool  // the only event of its group
	cpus  []int // nil for all of the target

	fds []*perfevent.Event // by scope; nil in scopes where it is not open
	err error              // why it is not counted
}

func (p *opener) open(list event.List) (err error) {
	defer func() {
		p.closeCgroups()
		if err != nil {
			p.closeAll()
		}
	}()
	p.clocks = make([]*perfevent.Event, len(p.scopes))
	groups := make([][]*member, len(list))
	p.lastGroup = len(list) - 1
	for i, g := range list {
		for _, e := range g.Events {
			m := &member{event: e, group: i, alone: len(g.Events) == 1, fds: make([]*perfevent.Event, len(p.scopes))}
			groups[i] = append(groups[i], m)
			p.members = append(p.members, m)
			if err := p.plan(m); err != nil {
				return err
			}
		}
	}
	p.groups = groups
	planned := p.planned()
	perfevent.ReserveFiles(len(p.target.Cgroups) + planned)
	if err := p.openCgroups(); err != nil {
		return err
	}
	if planned >= manySets {
		_ = p.eachRound(len(p.members), p.openPart) // openRound meets what is an error again
	}
	for _, round := range p.rounds() {
		if err := onCPU(p.scopes[round[0]].cpu, len(round)*len(p.members), func() error {
			return p.openRound(list, round)
		}); err != nil {
			return err
		}
	}
	return p.verdict()
}

// rounds returns the indexes of the scopes in rounds: one round for each CPU, or one for all threads. open opens them one after the other.
func (p *opener) rounds() [][]int {
	byCPU := make(map[int][]int)
	var cpus []int
	for i, at := range p.scopes {
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

// eachRound calls f for the scopes of each round, of all rounds at once. f touches this number of events of each scope.
func (p *opener) eachRound(events int, f func(scopes []int) error) error {
	parts := p.rounds()
	if len(p.target.Threads) > 0 {
		parts = slices.Collect(slices.Chunk(parts[0], manySets))
	}
	return together(parts, func(part []int) error {
		return onCPU(p.scopes[part[0]].cpu, len(part)*events, func() error { return f(part) })
	})
}

// openPart opens the events of all groups in some scopes up to the first error. What that means for other scopes, openRound finds out.
func (p *opener) openPart(scopes []int) error {
	if err := p.openClocks(scopes); err != nil {
		return err
	}
	for _, group := range p.groups {
		for n, m := range group {
			if !m.ours() {
				continue
			}
			for _, i := range scopes {
				if !m.wants(p.scopes[i]) {
					continue
				}
				if err := p.openIn(m, i, leader(group[:n], i)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// openRound opens all groups in the scopes of a round, except what is open.
func (p *opener) openRound(list event.List, round []int) error {
	var full *perfevent.LimitError
	if err := p.openClocks(round); errors.As(err, &full) {
		return p.tooManyFiles(full)
	}
	for i, g := range list {
		if len(p.groups[i]) > 1 && p.groups[i][0].alone { // an earlier round has split it
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

// everywhere returns the indexes of all scopes.
func (p *opener) everywhere() []int {
	all := make([]int, len(p.scopes))
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

// plan sets the CPUs on which an event is opened.
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

func (m *member) wants(at scope) bool {
	return m.cpus == nil || slices.Contains(m.cpus, at.cpu)
}

// errSchedule means that the PMU refuses a group but accepts its events one by one.
var errSchedule = errors.New("the events do not fit in a group")

// openGroup opens the events of one group in the scopes of a round. In each scope, the first open event is the leader.
// openGroup returns errSchedule if a member does not fit in the group.
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

// leader returns the first of members that is open in a scope (an index), or nil.
func leader(members []*member, at int) *perfevent.Event {
	for _, m := range members {
		if m.fds[at] != nil {
			return m.fds[at]
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

// openMember opens an event in the scopes of a round. In each scope its leader is the first open member of before. If
// one scope fails, openMember closes the event in all scopes and sets its err.
func (p *opener) openMember(m *member, before []*member, round []int) error {
	for _, i := range round {
		at := p.scopes[i]
		if m.fds[i] != nil || !m.wants(at) || at.thread != count.None && p.ended[at.thread] {
			continue
		}
		leads := leader(before, i)
		err := p.openIn(m, i, leads)
		if err == nil {
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

// openIn opens an event, with its filter, in a scope (an index).
func (p *opener) openIn(m *member, at int, leader *perfevent.Event) error {
	fd, err := p.openAt(m, p.scopes[at], leader)
	if err != nil {
		return err
	}
	if err := m.event.SetFilter(fd); err != nil {
		fd.Close()
		return err
	}
	m.fds[at] = fd
	return nil
}

// openAt opens an event in a scope. It is a leader itself if leader is nil.
func (p *opener) openAt(m *member, at scope, leader *perfevent.Event) (*perfevent.Event, error) {
	attr, where := p.attr(m, leader == nil), p.where(at)
	where.Leader = leader
	return perfevent.Open(&attr, where)
}

func (p *opener) where(at scope) perfevent.Where {
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
// only leaders are disabled, and start on exec. It clears the period, which is for sampling.
//
// On CPUs nothing starts on exec, but the flag is still needed: without it, arm64 ignores a disabled leader when it checks
// whether the group fits on the counters.
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

// fitsAlone reports whether an event that does not fit in a group can be opened alone.
func (p *opener) fitsAlone(m *member, at scope) bool {
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

// openClocks opens an enabled dummy event for each cgroup on each CPU of these scopes, where none is open. Without one, Linux
// 6.12 to 7.2 (at least) do not start a cgroup's time when its first event is enabled: until the CPU
// switches to a task of another cgroup, times are 0, or begin when that cgroup was last counted.
// If a dummy event cannot be opened, neither can the events, and their error gives the reason.
func (p *opener) openClocks(scopes []int) error {
	if len(p.target.Cgroups) == 0 {
		return nil
	}
	dummy := perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwareDummy}
	for _, i := range scopes {
		if p.clocks[i] != nil {
			continue
		}
		clock, err := perfevent.Open(&dummy, p.where(p.scopes[i]))
		if err != nil {
			return err
		}
		p.clocks[i] = clock
	}
	return nil
}

// closeClocks calls closeEvent for all clocks, those of all CPUs at once.
func (p *opener) closeClocks(closeEvent func(*perfevent.Event)) {
	if len(p.target.Cgroups) == 0 {
		return
	}
	_ = p.eachRound(1, func(scopes []int) error {
		for _, i := range scopes {
			if clock := p.clocks[i]; clock != nil {
				closeEvent(clock)
			}
		}
		return nil
	})
}

func (p *opener) closeCgroups() {
	for _, dir := range p.cgroups {
		dir.Close()
	}
	p.cgroups = nil
}

// openSet opens the events of a set whose CPU was offline.
func (p *opener) openSet(s *set) error {
	at := slices.Index(p.scopes, s.scope)
	if clock := p.clocks[at]; clock != nil { // its CPU was offline
		clock.Close()
		p.clocks[at] = nil
	}
	if err := p.openClocks([]int{at}); err != nil {
		return err
	}
	var events []*perfevent.Event
	for _, m := range s.members {
		var leader *perfevent.Event
		if len(events) > 0 {
			leader = events[0]
		}
		fd, err := p.openAt(m, s.scope, leader)
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
	p.closeClocks(func(clock *perfevent.Event) { clock.Close() })
	for _, m := range p.members {
		m.close()
	}
}

// planned returns the number of file descriptors that all events need.
func (p *opener) planned() (n int) {
	if len(p.target.Cgroups) > 0 {
		n = len(p.scopes) // clocks
	}
	for _, m := range p.members {
		for _, at := range p.scopes {
			if m.ours() && m.wants(at) {
				n++
			}
		}
	}
	return n
}

// verdict returns an error if all threads have ended, or if no event is open and at least one was refused for lack of permission.
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

// counter returns the Counter for all open events.
func (p *opener) counter() *Counter {
	c := &Counter{opener: p, fresh: !p.options.EnableOnExec, errs: make([]error, len(p.members)), joined: make(map[int]bool),
		cells: make([]count.Cell, 0, len(p.members)*len(p.scopes))}
	sets := make([]int, (p.lastGroup+1)*len(p.scopes)) // by group and scope: 1 + the index in c.sets, or 0
	c.sets = make([]set, 0, len(sets))
	for i, m := range p.members {
		c.errs[i] = m.err
		if !m.ours() {
			continue
		}
		for j, fd := range m.fds {
			at := p.scopes[j]
			if fd == nil && (at.cpu == count.None || !m.wants(at)) { // the thread has ended, or the event does not count on this CPU
				continue
			}
			index := &sets[m.group*len(p.scopes)+j]
			if *index == 0 {
				c.sets = append(c.sets, set{scope: at, pinned: m.event.Attr.Has(perfdata.AttrPinned), group: !m.alone})
				*index = len(c.sets)
			}
			s := &c.sets[*index-1]
			s.members = append(s.members, m)
			if fd != nil {
				s.events = append(s.events, fd)
			}
			s.cells = append(s.cells, len(c.cells))
			c.cells = append(c.cells, count.Cell{Event: i, CPU: at.cpu, Thread: at.thread, Cgroup: at.cgroup, Program: count.None})
		}
	}
	readings := make([]perfevent.Reading, len(c.cells))
	for i := range c.sets {
		s := &c.sets[i]
		s.dropPart()
		s.readings, readings = readings[:len(s.cells)], readings[len(s.cells):]
	}
	slices.SortStableFunc(c.sets, func(a, b set) int { return cmp.Compare(a.cpu, b.cpu) })
	c.shares = sharesOf(c.sets)
	return c
}

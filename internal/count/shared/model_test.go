package shared

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bperf/bperf/test/require"
)

// TestAnyOrder opens and ends sessions in any order while tasks fork, execute and end. Unlike TestChains it runs on a model
// of the kernel, in which the birth of a child takes time, and tasks act between any two steps of a session.
func TestAnyOrder(t *testing.T) {
	require.NoKernel(t)
	const seeds, steps = 600, 100
	all := make([]int, steps)
	for i := range all {
		all[i] = i
	}
	seen := make(map[string]int)
	for seed := range uint64(seeds) {
		m := runModel(seed, all, false)
		if m.wrong != nil {
			m = shorten(seed, all)
			t.Fatalf("seed %d: %v\n%s", seed, m.wrong, strings.Join(m.trace[max(len(m.trace)-40, 0):], "\n"))
		}
		for what, n := range m.seen {
			seen[what] += n
		}
	}
	for _, what := range []string{ // cases that the model must reach
		"number taken after it was cleared", "number taken below the same parent", "born with the number of an ended session",
		"counted through forward", "task swept to the node above", "task swept to none", "cgroup swept", "node moved",
		"executed", "heir of others", "work",
	} {
		if seen[what] < 20 {
			t.Errorf("%s: %d times in %d seeds", what, seen[what], seeds)
		}
	}
}

// shorten leaves out what a run does not need to fail.
func shorten(seed uint64, steps []int) *model {
	alone := runModel(seed, steps, true).wrong != nil
	for before := len(steps) + 1; len(steps) < before; {
		before = len(steps)
		for i := len(steps) - 1; i >= 0; i-- {
			if without := slices.Concat(steps[:i], steps[i+1:]); runModel(seed, without, alone).wrong != nil {
				steps = without
			}
		}
	}
	return runModel(seed, steps, alone)
}

const (
	modelEvents = 3
	modelUnits  = 4 // of a session at most
)

// modelGroups are the cgroups above each cgroup, the nearest first.
var modelGroups = [][]int{{}, {0}, {1, 0}, {1, 0}, {2, 1, 0}, {0}}

// model has tasks in cgroups, and the kernel's tables. Its methods do with them what the BPF programs of counters.bpf.c do.
type model struct {
	rand     *rand.Rand
	now      time.Duration
	table    nodes
	sums     map[sumOf]uint64 // existing sums
	cgroups  map[int]uint32
	tasks    []*modelTask
	births   []*birth
	sessions []*modelSession // live ones
	alone    bool            // nothing happens while a session comes or goes
	names    int

	trace []string
	wrong error
	seen  map[string]int
}

// sumOf is an event of a node or of a unit.
type sumOf struct {
	of    uint32
	event int
}

type modelTask struct {
	name    int
	group   int
	node    uint32 // in the map tasks; 0 if it is not there
	ended   bool
	counted map[*modelSession]uint32 // the units that should count it
	waits   map[*modelSession]uint32 // the units that should count it after it executes a command
}

// birth is a child whose heir has been looked up, but that is not in the map yet.
type birth struct {
	*modelTask
	node  uint32
	since time.Duration
}

type modelSession struct {
	session
	name            int
	inherit, onExec bool
	groups          []int // the cgroups that are its units, or nil
	base, want      map[sumOf]uint64
}

// runModel runs some steps. A step depends on the seed, its number and the state of the model.
func runModel(seed uint64, steps []int, alone bool) *model {
	m := &model{
		alone: alone, now: time.Hour, table: nodes{{}},
		sums: make(map[sumOf]uint64), cgroups: make(map[int]uint32), seen: make(map[string]int),
	}
	source := rand.NewPCG(seed, 0)
	m.rand = rand.New(source)
	for group := range 4 {
		m.addTask(group)
	}
	for _, step := range steps {
		source.Seed(seed, uint64(step)+1)
		m.pass(time.Duration(m.rand.IntN(4)) * rest / 4)
		if m.act(); m.wrong != nil {
			return m
		}
	}
	m.end()
	return m
}

func (m *model) logf(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf("%v: ", m.now-time.Hour)+fmt.Sprintf(format, args...))
}

// errorf keeps the first error.
func (m *model) errorf(format string, args ...any) {
	if m.wrong == nil {
		m.wrong = fmt.Errorf(format, args...)
		m.logf("%v. Nodes: %s", m.wrong, describeNodes(m.table))
	}
}

func (m *model) addTask(group int) *modelTask {
	m.names++
	t := &modelTask{name: m.names, group: group, counted: make(map[*modelSession]uint32), waits: make(map[*modelSession]uint32)}
	m.tasks = append(m.tasks, t)
	return t
}

// pass lets time pass. No birth takes longer than rest.
func (m *model) pass(d time.Duration) {
	m.now += d
	for len(m.births) > 0 && m.now-m.births[0].since > rest {
		m.finishBirth(0)
	}
}

// act lets a session or a task do something.
func (m *model) act() {
	switch n := m.rand.IntN(100); {
	case n < 18 && len(m.sessions) < 8:
		m.open()
	case n < 25 && len(m.sessions) > 0:
		m.close(m.rand.IntN(len(m.sessions)))
	case n < 31 && len(m.sessions) > 0:
		i := m.rand.IntN(len(m.sessions))
		m.logf("session %d is killed", m.sessions[i].name)
		m.sessions = slices.Delete(m.sessions, i, i+1)
	case n < 34:
		m.logf("a session that counts the system comes")
		m.sweep()
		m.check()
	case n < 38:
		for _, s := range m.sessions {
			m.read(s)
		}
	default:
		m.live(true)
	}
}

// meanwhile lets something happen between two steps of a session.
func (m *model) meanwhile(execs bool) {
	if !m.alone {
		m.live(execs)
	}
}

// live lets a task do something, or a child be born.
func (m *model) live(execs bool) {
	t := m.tasks[m.rand.IntN(len(m.tasks))]
	switch n := m.rand.IntN(100); {
	case n < 25 && len(m.tasks)+len(m.births) < 8:
		m.fork(t)
	case n < 40 && len(m.births) > 0:
		m.finishBirth(m.rand.IntN(len(m.births)))
	case n < 55:
		if execs {
			m.exec(t)
		}
	case n < 60 && len(m.tasks) > 1:
		m.logf("task %d ends", t.name)
		t.ended = true
		m.tasks = slices.DeleteFunc(m.tasks, func(of *modelTask) bool { return of == t })
	case n < 68:
		t.group = m.rand.IntN(len(modelGroups))
		m.logf("task %d moves to cgroup %d", t.name, t.group)
	default:
		m.work(t, m.rand.IntN(modelEvents))
	}
}

// whoIs is who_is of the BPF programs.
func (m *model) whoIs(id uint32) uint32 {
	if to := m.table[id].Forward; to != 0 {
		m.seen["counted through forward"]++
		return to
	}
	return id
}

// fork is the program on_newtask, up to where it has found the heir.
func (m *model) fork(t *modelTask) {
	child := m.addTask(t.group)
	m.tasks = m.tasks[:len(m.tasks)-1]
	for s, unit := range t.counted {
		if s.inherit {
			child.counted[s] = unit
		}
	}
	for s, unit := range t.waits {
		if s.inherit {
			child.waits[s] = unit
		}
	}
	b := &birth{modelTask: child, since: m.now}
	if t.node != 0 {
		who := m.whoIs(t.node)
		if b.node = m.table[who].Heir; b.node != 0 && b.node != who {
			m.seen["heir of others"]++
		}
	}
	m.logf("task %d in node %d forks task %d, for node %d", t.name, t.node, child.name, b.node)
	m.births = append(m.births, b)
}

func (m *model) finishBirth(i int) {
	b := m.births[i]
	m.births = slices.Delete(m.births, i, i+1)
	b.modelTask.node = b.node
	m.tasks = append(m.tasks, b.modelTask)
	if b.node != 0 && m.table[b.node].Session == 0 {
		m.seen["born with the number of an ended session"]++
	}
	m.logf("task %d is born, in node %d", b.name, b.node)
}

// exec is the program on_rename.
func (m *model) exec(t *modelTask) {
	maps.Copy(t.counted, t.waits)
	clear(t.waits)
	to := m.table[t.node].OnExec
	if to == 0 {
		return
	}
	t.node = m.whoIs(to)
	m.seen["executed"]++
	m.logf("task %d executes, now in node %d", t.name, t.node)
}

// work counts an event once for a task.
func (m *model) work(t *modelTask, event int) {
	m.seen["work"]++
	m.logf("task %d in node %d and cgroup %d counts event %d", t.name, t.node, t.group, event)
	m.add(t.node, event)
	m.add(m.groupNode(t.group), event)
	for _, s := range m.sessions {
		if s.events>>event&1 == 0 {
			continue
		}
		if unit, ok := t.counted[s]; ok {
			s.want[sumOf{unit, event}]++
		}
		for unit, group := range s.groups {
			if group == t.group || slices.Contains(modelGroups[t.group], group) {
				s.want[sumOf{uint32(unit), event}]++
			}
		}
	}
}

// add adds to the sum of a node.
func (m *model) add(id uint32, event int) {
	if id == 0 {
		return
	}
	at := sumOf{m.whoIs(id), event}
	if m.table[at.of].Events>>event&1 == 0 {
		return
	}
	if _, ok := m.sums[at]; !ok {
		m.errorf("node %d has no sum for event %d", at.of, event)
	}
	m.sums[at]++
}

// groupNode is find_group_node.
func (m *model) groupNode(group int) uint32 {
	if id, ok := m.cgroups[group]; ok {
		return id
	}
	for _, above := range modelGroups[group] {
		if id, ok := m.cgroups[above]; ok {
			return id
		}
	}
	return 0
}

func (m *model) events() map[uint32]uint64 {
	events := make(map[uint32]uint64)
	for _, s := range m.sessions {
		events[s.number] = s.events
	}
	return events
}

// write is book.write.
func (m *model) write(n nodes) {
	for id := range n {
		made := uint64(0)
		if id < len(m.table) {
			made = m.table[id].Events
		}
		for event := range modelEvents {
			at := sumOf{uint32(id), event}
			if _, ok := m.sums[at]; !ok && n[id].Events&^made>>event&1 != 0 {
				m.sums[at] = 0
			}
		}
	}
	m.table = slices.Clone(n)
}

// sweep is book.sweep. It returns the table, some of which is not written yet.
func (m *model) sweep() nodes {
	n := slices.Clone(m.table)
	n.settle(m.events(), m.now)
	sameSession := func(a, b countersNode) bool { return a.Session == b.Session }
	if slices.EqualFunc(n, m.table, sameSession) && !slices.Equal(n, m.table) {
		m.errorf("no session has ended, but now the nodes are %s", describeNodes(n))
	}
	if !n.resting() {
		return n
	}
	m.write(n)
	tasks, ids := slices.Clone(m.tasks), []uint32(nil)
	for _, t := range tasks {
		ids = append(ids, t.node)
	}
	for i, t := range tasks {
		m.meanwhile(true)
		if t.ended || t.node != ids[i] || ids[i] == 0 || n[ids[i]].Session != 0 {
			continue
		}
		if t.node = n[ids[i]].Forward; t.node != 0 {
			m.seen["task swept to the node above"]++
		} else {
			m.seen["task swept to none"]++
		}
		m.logf("task %d is swept from node %d to %d", t.name, ids[i], t.node)
	}
	for group := range modelGroups {
		m.meanwhile(true)
		id, ok := m.cgroups[group]
		if !ok {
			continue
		}
		to := n.live(id)
		if to != id {
			m.seen["cgroup swept"]++
		}
		if m.cgroups[group] = to; to == 0 || n[to].Cgroup != uint64(group)+1 {
			delete(m.cgroups, group)
		}
	}
	m.meanwhile(true)
	for id := range n {
		if n[id].Session != 0 || n[id].Retired == 0 || n[id].Forward != 0 {
			continue
		}
		for event := range modelEvents {
			delete(m.sums, sumOf{uint32(id), event})
		}
	}
	m.meanwhile(true)
	n.clear(m.now)
	for id := range n {
		if n[id] == (countersNode{}) && m.table[id].Retired != 0 {
			m.checkRested(uint32(id))
		}
	}
	return n
}

// open starts a session.
func (m *model) open() {
	n := m.sweep()
	m.names++
	s := &modelSession{name: m.names, base: make(map[sumOf]uint64), want: make(map[sumOf]uint64)}
	s.number = 1
	for slices.ContainsFunc(m.sessions, func(of *modelSession) bool { return of.number == s.number }) {
		s.number++
	}
	s.events = 1 + m.rand.Uint64N(1<<modelEvents-1)
	if m.rand.IntN(4) == 0 {
		m.claimCgroups(s, &n)
	} else {
		m.claimTasks(s, &n)
	}
	s.base = m.counts(s)
	clear(s.want)
	m.check()
}

// claimTasks is book.claimTasks, which writes the table.
func (m *model) claimTasks(s *modelSession, n *nodes) {
	s.inherit, s.onExec = m.rand.IntN(2) == 0, m.rand.IntN(4) == 0
	perThread := m.rand.IntN(3) == 0
	tasks := slices.Clone(m.tasks)
	m.rand.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	tasks = tasks[:1+m.rand.IntN(min(len(tasks), 4))]
	m.logf("session %d (number %d) counts events %#b of %s, inherit %v, on exec %v, per thread %v",
		s.name, s.number, s.events, taskNames(tasks), s.inherit, s.onExec, perThread)
	before := slices.Clone(*n)
	type origin struct{ above, unit uint32 }
	made := make(map[origin]uint32)
	claims, units := make([]uint32, len(tasks)), make([]uint32, len(tasks))
	for i, t := range tasks {
		m.meanwhile(false)
		from := origin{above: n.live(t.node)}
		if perThread {
			from.unit = uint32(i)
		}
		units[i] = from.unit
		if made[from] == 0 {
			id, err := n.addTasks(s.session, from.unit, from.above, s.inherit, s.onExec, m.now)
			if err != nil {
				m.errorf("%v", err)
				return
			}
			made[from] = id
		}
		claims[i] = made[from]
	}
	m.begin(s, before, *n)
	for i, t := range tasks {
		m.meanwhile(false)
		if t.ended {
			continue
		}
		t.node = claims[i]
		if s.onExec {
			t.waits[s] = units[i]
		} else {
			t.counted[s] = units[i]
		}
	}
}

func taskNames(tasks []*modelTask) string {
	names := []string{"tasks"}
	for _, t := range tasks {
		names = append(names, fmt.Sprintf("%d (node %d)", t.name, t.node))
	}
	return strings.Join(names, " ")
}

// begin makes a session live and writes its nodes.
func (m *model) begin(s *modelSession, before, n nodes) {
	m.checkTaken(before, n)
	m.sessions = append(m.sessions, s)
	n.settle(m.events(), m.now)
	m.write(n)
}

// claimCgroups is book.claimCgroups.
func (m *model) claimCgroups(s *modelSession, n *nodes) {
	s.groups = m.rand.Perm(len(modelGroups))[:1+m.rand.IntN(3)]
	m.logf("session %d (number %d) counts events %#b of cgroups %v", s.name, s.number, s.events, s.groups)
	tops, before := maps.Clone(m.cgroups), slices.Clone(*n)
	for unit, group := range s.groups {
		top, counted := tops[group]
		parent := top
		for i := 0; !counted && i < len(modelGroups[group]) && parent == 0; i++ {
			parent = tops[modelGroups[group][i]]
		}
		id, err := n.add(countersNode{Session: s.number, Unit: uint32(unit), Parent: parent, Cgroup: uint64(group) + 1}, m.now)
		if err != nil {
			m.errorf("%v", err)
			return
		}
		tops[group] = id
		added := slices.Clone(*n)
		if counted {
			n.move(top, id, func(of uint64) bool { return of != uint64(group)+1 })
		} else {
			n.move(parent, id, func(of uint64) bool { return slices.Contains(modelGroups[of-1], group) })
		}
		if !slices.Equal(added, *n) {
			m.seen["node moved"]++
		}
	}
	m.begin(s, before, *n)
	m.meanwhile(true)
	m.cgroups = tops
}

// close checks the counts of a session and ends it.
func (m *model) close(i int) {
	s := m.sessions[i]
	m.read(s)
	m.sessions = slices.Delete(m.sessions, i, i+1)
	m.logf("session %d ends", s.name)
	m.sweep()
	m.check()
}

// counts returns the sums of a session's units.
func (m *model) counts(s *modelSession) map[sumOf]uint64 {
	counts := make(map[sumOf]uint64)
	for id, units := range m.table.units(s.session) {
		for _, unit := range units {
			for event := range modelEvents {
				if s.events>>event&1 != 0 {
					counts[sumOf{unit, event}] += m.sums[sumOf{id, event}]
				}
			}
		}
	}
	return counts
}

// read checks the counts of a session.
func (m *model) read(s *modelSession) {
	counts := m.counts(s)
	for at := range counts {
		if at.of >= modelUnits {
			m.errorf("session %d has a unit %d", s.name, at.of)
		}
	}
	for unit := range uint32(modelUnits) {
		for event := range modelEvents {
			at := sumOf{unit, event}
			if got := counts[at] - s.base[at]; got != s.want[at] {
				m.errorf("session %d counted %d of event %d for unit %d, want %d", s.name, int64(got), event, unit, s.want[at])
			}
		}
	}
}

// check checks the table after a sweep.
func (m *model) check() {
	for id, node := range m.table {
		events, steps := uint64(0), 0
		for above := uint32(id); above != 0; above = m.table[above].Parent {
			if steps++; steps > len(m.table) {
				m.errorf("node %d is below itself", id)
				return
			}
			if s := m.withNumber(m.table[above].Session); s != nil && m.table[above].Unit != armed {
				events |= s.events
			}
		}
		if node.Session == 0 {
			events = 0
		}
		if node.Events != events {
			m.errorf("node %d counts events %#b, want %#b", id, node.Events, events)
		}
	}
	for _, s := range m.sessions {
		for _, t := range m.tasks {
			m.checkUnits(s, fmt.Sprintf("task %d", t.name), t.node, unitsOf(t.counted, s))
		}
		for _, b := range m.births {
			m.checkUnits(s, fmt.Sprintf("unborn task %d", b.name), b.node, unitsOf(b.counted, s))
		}
		for group := range modelGroups {
			var want []uint32
			for unit, of := range s.groups {
				if of == group || slices.Contains(modelGroups[group], of) {
					want = append(want, uint32(unit))
				}
			}
			m.checkUnits(s, fmt.Sprintf("cgroup %d", group), m.groupNode(group), want)
		}
	}
}

func (m *model) withNumber(number uint32) *modelSession {
	for _, s := range m.sessions {
		if s.number == number {
			return s
		}
	}
	return nil
}

func unitsOf(counted map[*modelSession]uint32, s *modelSession) []uint32 {
	if unit, ok := counted[s]; ok {
		return []uint32{unit}
	}
	return nil
}

// checkUnits checks that a node counts for exactly these units of a session; want is sorted.
func (m *model) checkUnits(s *modelSession, what string, id uint32, want []uint32) {
	var got []uint32
	for above := m.whoIs(id); above != 0; above = m.table[above].Parent {
		if node := &m.table[above]; node.Session == s.number && node.Unit != armed {
			got = append(got, node.Unit)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		m.errorf("session %d counts %s (node %d) as units %v, want %v", s.name, what, id, got, want)
	}
}

// checkTaken checks the nodes that a new session uses, before they are written.
func (m *model) checkTaken(before, after nodes) {
	for id := range after {
		var old, kept countersNode
		if id < len(before) {
			old, kept = before[id], m.table[id]
		}
		switch {
		case old.Session != 0:
			if now := after[id]; now.Session != old.Session || now.Unit != old.Unit || now.Cgroup != old.Cgroup {
				m.errorf("node %d of the session number %d was taken: %s", id, old.Session, describeNodes(after))
			}
		case after[id].Session != 0 && kept.Retired != 0:
			if old == (countersNode{}) {
				m.seen["number taken after it was cleared"]++
			} else {
				m.seen["number taken below the same parent"]++
			}
			above := after[id].Parent
			for above != old.Parent && above != 0 {
				above = after[above].Parent
			}
			if above != old.Parent {
				m.errorf("node %d, whose sum is also node %d's, was taken for one below node %d", id, old.Parent, after[id].Parent)
			}
			m.checkRested(uint32(id))
		}
	}
}

// checkRested checks that no task, birth or cgroup can have a number.
func (m *model) checkRested(id uint32) {
	if rested := m.now - time.Duration(m.table[id].Retired); rested <= rest {
		m.errorf("number %d has rested for %v only", id, rested)
	}
	for _, t := range m.tasks {
		if t.node == id {
			m.errorf("number %d is to be used anew, but task %d has it", id, t.name)
		}
	}
	for _, b := range m.births {
		if b.node == id {
			m.errorf("number %d is to be used anew, but task %d will be born with it", id, b.name)
		}
	}
	for group, of := range m.cgroups {
		if of == id {
			m.errorf("number %d is to be used anew, but cgroup %d has it", id, group)
		}
	}
}

// end ends all sessions and checks that nothing is left.
func (m *model) end() {
	for len(m.sessions) > 0 {
		m.close(m.rand.IntN(len(m.sessions)))
	}
	m.sweep() // sessions that were killed
	m.pass(2 * rest)
	left := m.sweep()
	if left = slices.DeleteFunc(left, func(n countersNode) bool { return n == countersNode{} }); len(left) > 0 {
		m.errorf("nodes are left: %s", describeNodes(left))
	}
	if len(m.sums)+len(m.cgroups) > 0 {
		m.errorf("sums %v and cgroups %v are left", m.sums, m.cgroups)
	}
	for _, t := range m.tasks {
		if t.node != 0 {
			m.errorf("task %d is left in node %d", t.name, t.node)
		}
	}
}

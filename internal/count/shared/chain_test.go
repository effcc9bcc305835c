package shared

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/target"
	loop "github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// TestChains opens, closes and kills sessions in any order, on the same and on overlapping targets, while
// the targets work, fork and move. Each session must have counted exactly what its target did in its time.
func TestChains(t *testing.T) {
	require.Tracefs(t)
	seeds := uint64(4)
	switch {
	case require.Long():
		seeds = 8
	case require.IsGuest():
		seeds = 1 // each takes seconds in an emulated guest
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for w.step = range 120 {
				w.act()
			}
			w.end()
		})
	}
}

// world is a set of tasks and of sessions that count them, with what each should have counted.
type world struct {
	t    *testing.T
	rand *rand.Rand
	dir  string
	step int

	programs []work
	tasks    []*task
	groups   []string // cgroups, relative to the first, which is ""
	root     string   // directory of the first cgroup
	name     string   // name of the first cgroup

	sessions []*modelled
	hosts    []*host
}

// work is a program, with the total number of its calls of getppid.
type work struct {
	file  string
	calls uint64
}

// task is a thread of a puppet.
type task struct {
	puppet *puppet
	thread int
	tid    int
	group  *string // the puppet's
}

// modelled is a session with what it should count.
type modelled struct {
	*Counter
	what    string
	groups  []string      // the cgroups that are its units, or nil
	unit    map[*task]int // unit of each task that it counts, or nil
	inherit bool
	enabled bool
	want    []uint64 // by unit
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 0)), dir: bpffs(t)}
	for _, p := range []loop.Program{
		{Times: 70}, {Times: 11, Tasks: 3}, {Times: 13, Tasks: 3, Threads: true},
	} {
		p.Body = loop.GetPPID
		w.programs = append(w.programs, work{p.Write(t), p.Times * uint64(1+p.Tasks)})
	}
	w.name, w.root = cgroup(t, "")
	w.groups = []string{""}
	t.Cleanup(w.tearDown)
	for _, below := range []string{"/a", "/a/b", "/a/b/c", "/d"} {
		w.makeGroup(below)
	}
	w.adopt(startPuppet(t), "")
	return w
}

func (w *world) makeGroup(below string) {
	check(w.t, os.Mkdir(w.root+below, 0o755))
	w.groups = append(w.groups, below)
}

// tearDown ends all tasks and removes all cgroups but the first.
func (w *world) tearDown() {
	for _, of := range slices.Backward(w.tasks) {
		of.puppet.end()
	}
	for _, below := range slices.Backward(w.groups[1:]) {
		removeCgroup(w.t, w.root+below)
	}
}

// adopt moves a new puppet to a cgroup, starts threads in it, and returns its tasks.
func (w *world) adopt(p *puppet, group string) []*task {
	join(w.t, w.root+group, p.pid)
	added := []*task{{p, 0, p.pid, &group}}
	for thread := range 2 {
		added = append(added, &task{p, thread + 1, p.thread(), &group})
	}
	w.tasks = append(w.tasks, added...)
	return added
}

func pick[T any](w *world, of []T) T { return of[w.rand.IntN(len(of))] }

// act does one random step.
func (w *world) act() {
	switch n := w.rand.IntN(100); {
	case n < 15 && len(w.sessions) < 12:
		w.open()
	case n < 25 && len(w.sessions) > 0:
		w.toggle(pick(w, w.sessions))
	case n < 35 && len(w.sessions) > 0:
		w.close(w.rand.IntN(len(w.sessions)))
	case n < 40 && len(w.hosts) < 2:
		h := startHost(w.t, w.dir)
		for range 1 + w.rand.IntN(3) {
			s, o, _ := w.choose()
			h.start(getppid, s, o)
		}
		w.hosts = append(w.hosts, h)
	case n < 45 && len(w.hosts) > 0:
		i := w.rand.IntN(len(w.hosts))
		w.hosts[i].kill()
		w.hosts = slices.Delete(w.hosts, i, i+1)
	case n < 48 && len(w.tasks) < 15:
		w.fork(pick(w, w.tasks))
	case n < 52:
		w.move(pick(w, w.tasks))
	case n < 54 && len(w.groups) < 12:
		w.makeGroup(fmt.Sprintf("%s/%d", pick(w, w.groups), w.step))
	case n < 70:
		at, program := pick(w, w.tasks), pick(w, w.programs)
		at.puppet.run(at.thread, program.file)
		w.count(at, program.calls, true)
	default:
		at, times := pick(w, w.tasks), 1+w.rand.Uint64N(1000)
		at.puppet.call(at.thread, times)
		w.count(at, times, false)
	}
}

// choose chooses a target and options for a session.
func (w *world) choose() (s target.Spec, o Options, m *modelled) {
	m = &modelled{unit: make(map[*task]int)}
	o = Options{Options: count.Options{Inherit: w.rand.IntN(2) == 0}}
	tasks := slices.Clone(w.tasks)
	w.rand.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	tasks = tasks[:1+w.rand.IntN(min(len(tasks), 3))]
	slices.SortFunc(tasks, func(a, b *task) int { return a.tid - b.tid }) // as units are
	switch w.rand.IntN(5) {
	case 0, 1:
		for _, of := range tasks {
			if slices.Contains(s.PIDs, of.puppet.pid) {
				continue
			}
			s.PIDs = append(s.PIDs, of.puppet.pid)
			for _, other := range w.tasks {
				if other.puppet == of.puppet {
					m.unit[other] = 0
				}
			}
		}
	case 2:
		for _, of := range tasks {
			s.TIDs = append(s.TIDs, of.tid)
			m.unit[of] = 0
		}
	case 3:
		o.PerThread = true
		for unit, of := range tasks {
			s.TIDs = append(s.TIDs, of.tid)
			m.unit[of] = unit
		}
	default:
		o.Inherit, m.unit, s.System = false, nil, true
		m.groups = slices.Clone(w.groups)
		w.rand.Shuffle(len(m.groups), func(i, j int) { m.groups[i], m.groups[j] = m.groups[j], m.groups[i] })
		m.groups = m.groups[:1+w.rand.IntN(3)]
		for _, g := range m.groups {
			s.Cgroups = append(s.Cgroups, w.name+g)
		}
	}
	m.inherit = o.Inherit
	m.want = make([]uint64, max(len(tasks), len(m.groups)))
	m.what = fmt.Sprintf("session of step %d on %+v with %+v", w.step, s, o)
	return s, o, m
}

func (w *world) open() {
	s, o, m := w.choose()
	m.Counter = open(w.t, w.dir, getppid, s, o)
	w.sessions = append(w.sessions, m)
	if w.rand.IntN(3) > 0 {
		w.toggle(m)
	}
}

func (w *world) toggle(m *modelled) {
	if m.enabled {
		check(w.t, m.Disable())
	} else {
		check(w.t, m.Enable())
	}
	m.enabled = !m.enabled
}

func (w *world) close(i int) {
	m := w.sessions[i]
	w.sessions = slices.Delete(w.sessions, i, i+1)
	cells, err := m.Read(nil)
	check(w.t, err)
	got := make([]uint64, len(m.want))
	for _, c := range cells {
		got[max(c.Thread, c.Cgroup, 0)] += c.Value
	}
	if !slices.Equal(got, m.want) {
		wrong(w.t, m.Counter, "step %d: %s counted %d, want %d", w.step, m.what, got, m.want)
	}
	check(w.t, m.Close())
}

// count adds the calls of a task, or of a child of it that has ended since, to what the sessions should count.
func (w *world) count(by *task, calls uint64, child bool) {
	for _, m := range w.sessions {
		if !m.enabled {
			continue
		}
		for unit, g := range m.groups {
			if *by.group == g || strings.HasPrefix(*by.group, g+"/") {
				m.want[unit] += calls
			}
		}
		if unit, counted := m.unit[by]; counted && (!child || m.inherit) {
			m.want[unit] += calls
		}
	}
}

// fork lets a task start another puppet.
func (w *world) fork(parent *task) {
	children := w.adopt(parent.puppet.puppet(parent.thread), *parent.group)
	for _, m := range w.sessions {
		if unit, counted := m.unit[parent]; counted && m.inherit {
			for _, c := range children {
				m.unit[c] = unit
			}
		}
	}
}

// move moves a task's process to another cgroup.
func (w *world) move(of *task) {
	*of.group = pick(w, w.groups)
	join(w.t, filepath.Join(w.root, *of.group), of.puppet.pid)
}

// end closes all sessions.
func (w *world) end() {
	for len(w.sessions) > 0 {
		w.close(w.rand.IntN(len(w.sessions)))
	}
	for _, h := range w.hosts {
		h.kill()
	}
}

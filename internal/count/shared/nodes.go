package shared

import (
	"errors"
	"fmt"
	"time"
)

// The sizes of the tables; the BPF programs have the same.
const (
	maxEvents   = 64
	bankEvents  = 8
	maxNodes    = 16384
	maxSessions = 1024
)

// armed is the unit of nodes that count nothing for their session yet: their tasks are to execute a command.
const armed = ^uint32(0)

// nodes is the table of who is counted. Its index is a node's number; the first is none.
//
// A node is a set of tasks, or a cgroup, that the same sessions count: the one that made it and those of its
// parent. So a session that counts what others count already moves it to a node of its own, below
// theirs, and whatever is counted is added to one node, whose sum all of them read. A session's count is the sum over
// its nodes and all nodes below them.
//
// When a session has ended, the tasks of its nodes move to the parents, which keep the sums (forward), or
// to none. A number is used anew only when it has rested, as a child that is being born may still get it.
type nodes []countersNode

// session is what the table needs to know of a session.
type session struct {
	slot   uint32 // plus 1, as in a node
	events uint64
}

// live is the nearest of a node and those above it whose session lives; 0 if there is none.
func (n nodes) live(id uint32) uint32 {
	for id != 0 && n[id].Session == 0 {
		id = n[id].Parent
	}
	return id
}

// settle brings the table in order: events has the sessions that live, and what each counts. It reports whether sessions
// have ended whose tasks and sums are to be swept.
func (n nodes) settle(events map[uint32]uint64, now time.Duration) (ended bool) {
	for id := range n {
		node := &n[id]
		if node.Session == 0 {
			continue
		}
		if _, lives := events[node.Session]; !lives {
			node.Session, node.Retired = 0, uint64(now)
			ended = true
		}
	}
	parents := make([]uint32, len(n)) // while they can still be found
	for id := range n {
		parents[id] = n.live(n[id].Parent)
	}
	for id := range n {
		node := &n[id]
		node.Parent = parents[id]
		if n[node.OnExec].Session == 0 { // tasks can execute something before they are swept
			node.OnExec = parents[node.OnExec]
		}
		if node.Session == 0 {
			node.Forward, node.Heir = node.Parent, 0
			continue
		}
		if n[node.Heir].Session == 0 {
			node.Heir = parents[node.Heir]
		}
	}
	done := make([]bool, len(n))
	for id := range n {
		n.settleEvents(uint32(id), events, done)
	}
	return ended
}

// settleEvents fills in what a node counts, after those above it.
func (n nodes) settleEvents(id uint32, events map[uint32]uint64, done []bool) {
	node := &n[id]
	if done[id] {
		return
	}
	done[id] = true
	node.Events = 0
	if node.Parent != 0 {
		n.settleEvents(node.Parent, events, done)
		node.Events = n[node.Parent].Events
	}
	switch {
	case node.Session == 0:
		node.Events = 0
	case node.Unit != armed:
		node.Events |= events[node.Session]
	}
}

// rest is how long a number is not used after its session has ended: longer than it takes to be born.
const rest = time.Second

// free is whether a node can be used for tasks or a cgroup below parent. That of an ended session keeps its sum there.
func (n nodes) free(id uint32, parent uint32, now time.Duration) bool {
	node := &n[id]
	if node.Session != 0 {
		return false
	}
	if node.Retired == 0 {
		return true
	}
	return node.Parent == parent && now-time.Duration(node.Retired) > rest
}

// resting reports whether there are nodes whose tasks may have to be swept again.
func (n nodes) resting() bool {
	for id := range n {
		if n[id].Session == 0 && n[id].Retired != 0 {
			return true
		}
	}
	return false
}

// clear frees the numbers of those that have rested and whose sums nobody reads. It is called after a sweep.
func (n nodes) clear(now time.Duration) {
	for id := range n {
		if node := &n[id]; node.Session == 0 && node.Retired != 0 && node.Forward == 0 && now-time.Duration(node.Retired) > rest {
			*node = countersNode{}
		}
	}
}

var errNoNodes = errors.New("no room is left")

// add makes a node for a session.
func (n *nodes) add(node countersNode, now time.Duration) (uint32, error) {
	for id := 1; id < maxNodes; id++ {
		if id == len(*n) {
			*n = append(*n, countersNode{})
		}
		if n.free(uint32(id), node.Parent, now) {
			(*n)[id] = node
			return uint32(id), nil
		}
	}
	return 0, fmt.Errorf("%w: all sessions together can count %d sets of tasks and cgroups", errNoNodes, maxNodes-1)
}

// addTasks makes the node for those tasks of a unit of a session that were in the node above, which may be 0.
func (n *nodes) addTasks(s session, unit, above uint32, inherit, onExec bool, now time.Duration) (uint32, error) {
	a := adder{nodes: n, session: s, unit: unit, inherit: inherit, now: now, made: make(map[adding]uint32)}
	return a.add(adding{above, onExec})
}

// adder makes the nodes of a unit: for its tasks, their children, and what they become when they execute something.
type adder struct {
	nodes   *nodes
	session session
	unit    uint32
	inherit bool
	now     time.Duration
	made    map[adding]uint32
}

// adding is the tasks of a node above that are counted as well, or are to be once they execute something.
type adding struct {
	above uint32
	armed bool
}

func (a *adder) add(which adding) (uint32, error) {
	if id, ok := a.made[which]; ok {
		return id, nil
	}
	var above countersNode
	if which.above != 0 {
		above = (*a.nodes)[which.above]
	}
	node := countersNode{Session: a.session.slot, Unit: a.unit, Parent: which.above}
	if which.armed {
		node.Unit = armed
	}
	id, err := a.nodes.add(node, a.now)
	if err != nil {
		return 0, err
	}
	a.made[which] = id
	heir, exec := above.Heir, above.OnExec
	if a.inherit {
		if heir, err = a.add(adding{above.Heir, which.armed}); err != nil {
			return 0, err
		}
	}
	if which.armed || exec != 0 { // for sessions above
		if exec == 0 {
			exec = which.above
		}
		if exec, err = a.add(adding{exec, false}); err != nil {
			return 0, err
		}
	}
	(*a.nodes)[id].Heir, (*a.nodes)[id].OnExec = heir, exec
	return id, nil
}

// units tells for each node which units of a session count it.
func (n nodes) units(s session) map[uint32][]uint32 {
	units := make(map[uint32][]uint32)
	for id := range n {
		for above := uint32(id); above != 0; above = n[above].Parent {
			if node := &n[above]; node.Session == s.slot && node.Unit != armed {
				units[uint32(id)] = append(units[uint32(id)], node.Unit)
			}
		}
	}
	return units
}

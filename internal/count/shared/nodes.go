package shared

import (
	"errors"
	"fmt"
	"time"
)

// The sizes of the tables, as in counters.bpf.c.
const (
	maxEvents   = 64
	bankEvents  = 8
	maxNodes    = 16384
	maxSessions = 1024
)

// armed is the unit of nodes that count nothing for their session until their tasks execute a command.
const armed = ^uint32(0)

// nodes is the table of nodes. Its index is a node's number; the first element is unused.
//
// A node is a set of tasks, or a cgroup, that the same sessions count: the session that made it and those of its
// parent. If other sessions already count a task, a new session moves it to a node of its own, below
// theirs. Each count is added to one node, whose sum all of them read. A session's count is the sum over
// its nodes and all nodes below them.
//
// When a session has ended, the tasks of its nodes move to the parents (forward), or to no node. If a node has a parent, its sums
// stay, because the sessions above read them. A number is reused only after it has rested: a child that is being born may still get it.
type nodes []countersNode

// session is a session in the tables.
type session struct {
	number uint32 // its index in the table of sessions plus 1, as in a node
	events uint64 // slots of its events, one bit each
}

// live returns the node itself, or the nearest node above it, whose session lives; 0 if there is none.
func (n nodes) live(id uint32) uint32 {
	for id != 0 && n[id].Session == 0 {
		id = n[id].Parent
	}
	return id
}

// settle updates the table for the sessions in events, which has all live sessions with their events. Nodes of sessions that have ended
// rest afterwards: the caller must sweep their tasks and sums.
func (n nodes) settle(events map[uint32]uint64, now time.Duration) {
	for id := range n {
		node := &n[id]
		if node.Session == 0 {
			continue
		}
		if _, lives := events[node.Session]; !lives {
			node.Session, node.Retired = 0, uint64(now)
		}
	}
	parents := make([]uint32, len(n)) // computed before the loop below changes Parent
	for id := range n {
		parents[id] = n.live(n[id].Parent)
	}
	for id := range n {
		node := &n[id]
		node.Parent = parents[id]
		if n[node.OnExec].Session == 0 { // tasks can execute a command before they are swept
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
}

// settleEvents sets the events of a node, after those of the nodes above it.
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

// rest is the time before a number is reused after its session has ended. The birth of a child takes less.
const rest = time.Second

// free reports whether the number of a node can be used for a new node below parent. The number of an ended session keeps its sums for
// its parent, so it needs the same parent.
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

// resting reports whether there are nodes of ended sessions, whose tasks may need another sweep.
func (n nodes) resting() bool {
	for id := range n {
		if n[id].Session == 0 && n[id].Retired != 0 {
			return true
		}
	}
	return false
}

// clear frees the numbers of nodes that have rested and whose sums no session reads. The caller sweeps first.
func (n nodes) clear(now time.Duration) {
	for id := range n {
		if node := &n[id]; node.Session == 0 && node.Retired != 0 && node.Forward == 0 && now-time.Duration(node.Retired) > rest {
			*node = countersNode{}
		}
	}
}

var errNoNodes = errors.New("no room is left")

// add adds a node and returns its number.
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

// addTasks makes the node for the tasks of a session's unit that were in the node above (0 for none), and returns its number.
func (n *nodes) addTasks(s session, unit, above uint32, inherit, onExec bool, now time.Duration) (uint32, error) {
	a := adder{nodes: n, session: s, unit: unit, inherit: inherit, now: now, made: make(map[adding]uint32)}
	return a.add(adding{above, onExec})
}

// adder makes the nodes of a unit: for its tasks, for their children, and for both after they execute a command.
type adder struct {
	nodes   *nodes
	session session
	unit    uint32
	inherit bool
	now     time.Duration
	made    map[adding]uint32
}

// adding identifies a node that an adder makes: for the tasks of the node above, armed or not.
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
	node := countersNode{Session: a.session.number, Unit: a.unit, Parent: which.above}
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
	if which.armed || exec != 0 { // exec != 0: sessions above wait for a command
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

// units returns for each node the units of a session that count it.
func (n nodes) units(s session) map[uint32][]uint32 {
	units := make(map[uint32][]uint32)
	for id := range n {
		for above := uint32(id); above != 0; above = n[above].Parent {
			if node := &n[above]; node.Session == s.number && node.Unit != armed {
				units[uint32(id)] = append(units[uint32(id)], node.Unit)
			}
		}
	}
	return units
}

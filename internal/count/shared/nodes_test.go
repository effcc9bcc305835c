package shared

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bperf/bperf/test/require"
)

// describeNodes returns a description of the nodes in use, separated by commas: the number, the session and
// the unit of each, and its other fields that are not 0 by name.
func describeNodes(n nodes) string {
	var parts []string
	for id, node := range n {
		if node == (countersNode{}) {
			continue
		}
		unit := fmt.Sprint(node.Unit)
		if node.Unit == armed {
			unit = "armed"
		}
		part := fmt.Sprintf("%d: %d.%s", id, node.Session, unit)
		for _, field := range []struct {
			name  string
			value uint64
		}{
			{"below", uint64(node.Parent)}, {"events", node.Events}, {"heir", uint64(node.Heir)}, {"exec", uint64(node.OnExec)},
			{"forward", uint64(node.Forward)}, {"cgroup", node.Cgroup}, {"retired", node.Retired},
		} {
			if field.value != 0 {
				part += fmt.Sprintf(" %s %d", field.name, field.value)
			}
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

func expectNodes(t *testing.T, got nodes, want string) {
	t.Helper()
	if got := describeNodes(got); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAddTasks(t *testing.T) {
	require.NoKernel(t)
	counting := nodes{0: {}, 1: {Session: 1}}            // does not count children
	inheriting := nodes{0: {}, 1: {Session: 1, Heir: 1}} // counts children
	mixed := nodes{0: {}, 1: {Session: 1, Heir: 1}, 2: {Session: 2, Parent: 1, Heir: 1}}
	waits := nodes{0: {}, 1: {Session: 1, Unit: armed, Heir: 1, OnExec: 2}, 2: {Session: 1, Heir: 2}}
	newest := nodes{0: {}, 1: {Session: 1}, 2: {Session: 2, Parent: 1, Heir: 3}, 3: {Session: 2, Heir: 3}}
	for name, tt := range map[string]struct {
		before  nodes
		unit    uint32
		above   uint32
		inherit bool
		onExec  bool
		id      uint32
		want    string // the new nodes
	}{
		"first":           {before: nodes{{}}, id: 1, want: "1: 9.0"},
		"of a later unit": {before: nodes{{}}, unit: 7, id: 1, want: "1: 9.7"},
		"inherit":         {before: nodes{{}}, unit: 7, inherit: true, id: 1, want: "1: 9.7 heir 1"},
		"beside others":   {before: inheriting, inherit: true, id: 2, want: "2: 9.0 heir 2"},
		"on exec":         {before: nodes{{}}, unit: 7, onExec: true, id: 1, want: "1: 9.armed exec 2, 2: 9.7"},
		"on exec, inherit": {before: nodes{{}}, inherit: true, onExec: true,
			id: 1, want: "1: 9.armed heir 1 exec 2, 2: 9.0 heir 2"},
		"neither inherits": {before: counting, above: 1, id: 2, want: "2: 9.0 below 1"},
		"both inherit":     {before: inheriting, above: 1, inherit: true, id: 2, want: "2: 9.0 below 1 heir 2"},
		"above inherits":   {before: inheriting, above: 1, id: 2, want: "2: 9.0 below 1 heir 1"},
		"inherit below who does not": {before: counting, above: 1, inherit: true,
			id: 2, want: "2: 9.0 below 1 heir 3, 3: 9.0 heir 3"},
		"below another heir": {before: mixed, above: 2, id: 3, want: "3: 9.0 below 2 heir 1"},
		"inherit below another heir": {before: mixed, above: 2, inherit: true,
			id: 3, want: "3: 9.0 below 2 heir 4, 4: 9.0 below 1 heir 4"},
		"below who has a newer heir": {before: newest, above: 2, id: 4, want: "4: 9.0 below 2 heir 3"},
		"inherit below a newer heir": {before: newest, above: 2, unit: 5, inherit: true,
			id: 4, want: "4: 9.5 below 2 heir 5, 5: 9.5 below 3 heir 5"},
		"of the heirs themselves": {before: newest, above: 3, inherit: true, id: 4, want: "4: 9.0 below 3 heir 4"},
		"on exec below who counts": {before: counting, above: 1, onExec: true,
			id: 2, want: "2: 9.armed below 1 exec 3, 3: 9.0 below 1"},
		"on exec, both inherit": {before: inheriting, above: 1, inherit: true, onExec: true,
			id: 2, want: "2: 9.armed below 1 heir 2 exec 3, 3: 9.0 below 1 heir 3"},
		"inherit on exec below who does not": {before: counting, above: 1, inherit: true, onExec: true, id: 2,
			want: "2: 9.armed below 1 heir 3 exec 5, 3: 9.armed heir 3 exec 4, 4: 9.0 heir 4, 5: 9.0 below 1 heir 4"},
		"on exec below who inherits": {before: inheriting, above: 1, onExec: true, id: 2,
			want: "2: 9.armed below 1 heir 1 exec 3, 3: 9.0 below 1 heir 1"},
		"below who waits": {before: waits, above: 1, inherit: true, id: 3,
			want: "3: 9.0 below 1 heir 3 exec 4, 4: 9.0 below 2 heir 4"},
		"on exec below who waits": {before: waits, above: 1, onExec: true, id: 3,
			want: "3: 9.armed below 1 heir 1 exec 4, 4: 9.0 below 2 heir 2"},
		"a number that was never given": {before: nodes{0: {}, 1: {}, 2: {Session: 1}}, inherit: true, id: 1, want: "1: 9.0 heir 1"},
		"one that has rested": {before: nodes{0: {}, 1: {Session: 1}, 2: {Parent: 1, Forward: 1, Retired: 1}}, above: 1, id: 2,
			want: "2: 9.0 below 1"},
		"one whose sum others read": {before: nodes{0: {}, 1: {Session: 1}, 2: {Parent: 1, Forward: 1, Retired: 1}},
			id: 3, want: "3: 9.0"},
	} {
		t.Run(name, func(t *testing.T) {
			n := slices.Clone(tt.before)
			id, err := n.addTasks(session{number: 9}, tt.unit, tt.above, tt.inherit, tt.onExec, time.Hour)
			if id != tt.id || err != nil {
				t.Errorf("got node %d, %v, want %d", id, err, tt.id)
			}
			added := make(nodes, len(n))
			for id := range n {
				if id >= len(tt.before) || n[id] != tt.before[id] {
					added[id] = n[id]
				}
			}
			expectNodes(t, added, tt.want)
		})
	}
}

func TestSettle(t *testing.T) {
	require.NoKernel(t)
	const now = 5 * time.Nanosecond
	// Three sessions that count the same tasks, with their children.
	chain := nodes{{}, {Session: 1, Heir: 1}, {Session: 2, Parent: 1, Heir: 2}, {Session: 3, Parent: 2, Heir: 3}}
	// The second of these sessions counts no children.
	mixed := nodes{{}, {Session: 1, Heir: 1}, {Session: 2, Parent: 1, Heir: 1},
		{Session: 3, Parent: 2, Heir: 4}, {Session: 3, Parent: 1, Heir: 4}}
	waiting := nodes{{}, {Session: 1, Heir: 1}, {Session: 2, Parent: 1, Heir: 2}, {Session: 2, Unit: armed, Parent: 1, Heir: 3, OnExec: 2}}
	// The parents have higher numbers, and two nodes have one.
	backward := nodes{{}, {Session: 3, Parent: 2, Unit: 1}, {Session: 2, Parent: 4}, {Session: 3, Parent: 2}, {Session: 1}}
	const (
		one   = "1: 1.0 events 1 heir 1"
		two   = "2: 2.0 below 1 events 3 heir 2"
		three = "3: 3.0 below 2 events 7 heir 3"
	)
	for name, tt := range map[string]struct {
		before nodes
		live   []uint32 // session s counts event s-1
		want   string
	}{
		"nothing":  {before: nodes{{}}},
		"all live": {before: chain, live: []uint32{1, 2, 3}, want: one + ", " + two + ", " + three},
		"the first ends": {chain, []uint32{2, 3},
			"1: 0.0 retired 5, 2: 2.0 events 2 heir 2, 3: 3.0 below 2 events 6 heir 3"},
		"the second ends":   {chain, []uint32{1, 3}, one + ", 2: 0.0 below 1 forward 1 retired 5, 3: 3.0 below 1 events 5 heir 3"},
		"the last ends":     {chain, []uint32{1, 2}, one + ", " + two + ", 3: 0.0 below 2 forward 2 retired 5"},
		"the first two end": {chain, []uint32{3}, "1: 0.0 retired 5, 2: 0.0 retired 5, 3: 3.0 events 4 heir 3"},
		"the last two end":  {chain, []uint32{1}, one + ", 2: 0.0 below 1 forward 1 retired 5, 3: 0.0 below 1 forward 1 retired 5"},
		"the middle one left": {chain, []uint32{2},
			"1: 0.0 retired 5, 2: 2.0 events 2 heir 2, 3: 0.0 below 2 forward 2 retired 5"},
		"all end": {chain, nil, "1: 0.0 retired 5, 2: 0.0 retired 5, 3: 0.0 retired 5"},
		"who inherits ends": {mixed, []uint32{2, 3},
			"1: 0.0 retired 5, 2: 2.0 events 2, 3: 3.0 below 2 events 6 heir 4, 4: 3.0 events 4 heir 4"},
		"who does not inherit ends": {mixed, []uint32{1, 3},
			one + ", 2: 0.0 below 1 forward 1 retired 5, 3: 3.0 below 1 events 5 heir 4, 4: 3.0 below 1 events 5 heir 4"},
		"who has another heir ends": {mixed, []uint32{1, 2},
			one + ", 2: 2.0 below 1 events 3 heir 1, 3: 0.0 below 2 forward 2 retired 5, 4: 0.0 below 1 forward 1 retired 5"},
		"heir moves up twice": {
			before: nodes{{}, {Session: 1, Heir: 1}, {Session: 2, Parent: 1, Heir: 2}, {Session: 3, Parent: 2, Heir: 2}},
			live:   []uint32{1, 3},
			want:   one + ", 2: 0.0 below 1 forward 1 retired 5, 3: 3.0 below 1 events 5 heir 1"},
		"armed":           {before: waiting, live: []uint32{1, 2}, want: one + ", " + two + ", 3: 2.armed below 1 events 1 heir 3 exec 2"},
		"above armed end": {waiting, []uint32{2}, "1: 0.0 retired 5, 2: 2.0 events 2 heir 2, 3: 2.armed heir 3 exec 2"},
		"armed end": {waiting, []uint32{1},
			one + ", 2: 0.0 below 1 forward 1 retired 5, 3: 0.armed below 1 exec 1 forward 1 retired 5"},
		"parents after children": {before: backward, live: []uint32{1, 2, 3},
			want: "1: 3.1 below 2 events 7, 2: 2.0 below 4 events 3, 3: 3.0 below 2 events 7, 4: 1.0 events 1"},
		"a parent after children ends": {backward, []uint32{1, 3},
			"1: 3.1 below 4 events 5, 2: 0.0 below 4 forward 4 retired 5, 3: 3.0 below 4 events 5, 4: 1.0 events 1"},
		"ended before": {before: nodes{{}, {Session: 1}, {Parent: 1, Forward: 1, Retired: 2}}, live: []uint32{1},
			want: "1: 1.0 events 1, 2: 0.0 below 1 forward 1 retired 2"},
		"above those that ended before": {nodes{{}, {Session: 2}, {Session: 1, Parent: 1}, {Parent: 2, Forward: 2, Retired: 2}},
			[]uint32{2},
			"1: 2.0 events 2, 2: 0.0 below 1 forward 1 retired 5, 3: 0.0 below 1 forward 1 retired 2"},
		"nobody left above those": {nodes{{}, {Session: 1}, {Parent: 1, Forward: 1, Retired: 2}}, nil,
			"1: 0.0 retired 5, 2: 0.0 retired 2"},
		"cgroups": {nodes{{}, {Session: 1, Cgroup: 70}, {Session: 2, Parent: 1, Cgroup: 71}, {Session: 3, Parent: 2, Cgroup: 71}},
			[]uint32{1, 3},
			"1: 1.0 events 1 cgroup 70, 2: 0.0 below 1 forward 1 cgroup 71 retired 5, 3: 3.0 below 1 events 5 cgroup 71"},
	} {
		t.Run(name, func(t *testing.T) {
			n := slices.Clone(tt.before)
			events := make(map[uint32]uint64)
			for _, s := range tt.live {
				events[s] = 1 << (s - 1)
			}
			n.settle(events, now)
			expectNodes(t, n, tt.want)
			n.settle(events, now+1) // no session ends again
			expectNodes(t, n, tt.want)
		})
	}
}

func TestLiveNode(t *testing.T) {
	require.NoKernel(t)
	n := nodes{{}, {Session: 1}, {Parent: 1}, {Parent: 2}, {Session: 2, Parent: 3}, {Parent: 4}, {}, {Parent: 6}}
	for id, want := range []uint32{0, 1, 1, 1, 4, 4, 0, 0} {
		if got := n.live(uint32(id)); got != want {
			t.Errorf("nearest to %d that lives: got %d, want %d", id, got, want)
		}
	}
}

// TestNumbers has nodes that ended at 10 s, and checks whether their numbers can be reused after some time.
func TestNumbers(t *testing.T) {
	require.NoKernel(t)
	const retired = 10 * time.Second
	ended := func(parent uint32) countersNode {
		return countersNode{Parent: parent, Forward: parent, Retired: uint64(retired)}
	}
	for name, tt := range map[string]struct {
		node             countersNode
		after            time.Duration
		free, freeBelow1 bool
		clear            bool
		resting          bool
	}{
		"never used":               {free: true, freeBelow1: true},
		"in use":                   {node: countersNode{Session: 1}, after: time.Hour},
		"just ended":               {node: ended(0), resting: true},
		"ended below, just":        {node: ended(1), resting: true},
		"not rested":               {node: ended(0), after: rest, resting: true},
		"ended below, not rested":  {node: ended(1), after: rest, resting: true},
		"rested":                   {node: ended(0), after: rest + 1, free: true, clear: true, resting: true},
		"ended below, rested":      {node: ended(1), after: rest + 1, freeBelow1: true, resting: true},
		"ended below another node": {node: ended(2), after: time.Hour, resting: true},
		"before it ended":          {node: ended(0), after: -time.Hour, resting: true}, // the clock was set back
	} {
		t.Run(name, func(t *testing.T) {
			n, now := nodes{1: {Session: 1}, 2: {Session: 2}, 3: tt.node}, retired+tt.after
			if got := n.free(3, 0, now); got != tt.free {
				t.Errorf("free: got %v, want %v", got, tt.free)
			}
			if got := n.free(3, 1, now); got != tt.freeBelow1 {
				t.Errorf("free below 1: got %v, want %v", got, tt.freeBelow1)
			}
			if got := n.resting(); got != tt.resting {
				t.Errorf("resting: got %v, want %v", got, tt.resting)
			}
			n.clear(now)
			want := tt.node
			if tt.clear {
				want = countersNode{}
			}
			if n[3] != want || n[1].Session != 1 || n[2].Session != 2 {
				t.Errorf("cleared: got %s", describeNodes(n))
			}
		})
	}
}

func TestUnits(t *testing.T) {
	require.NoKernel(t)
	n := nodes{{}, {Session: 1}, {Session: 2, Unit: 4, Parent: 1}, {Session: 2, Unit: 6, Parent: 2}, {Parent: 3, Forward: 3, Retired: 1},
		{Session: 2, Unit: armed, Parent: 1}, {Session: 3, Parent: 5}, {Session: 2}}
	for number, want := range []map[uint32][]uint32{
		1: {1: {0}, 2: {0}, 3: {0}, 4: {0}, 5: {0}, 6: {0}},
		2: {2: {4}, 3: {6, 4}, 4: {6, 4}, 7: {0}},
		3: {6: {0}},
		4: {},
	} {
		if number == 0 {
			continue
		}
		if got := n.units(session{number: uint32(number)}); !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("session %d: got %v, want %v", number, got, want)
		}
	}
}

func TestMoveNodes(t *testing.T) {
	require.NoKernel(t)
	before := nodes{{}, {Session: 1, Cgroup: 70}, {Session: 2, Cgroup: 71, Parent: 1}, {Session: 3, Cgroup: 72, Parent: 1},
		{Cgroup: 71, Parent: 1}, {Session: 4, Parent: 1}, {Session: 4, Cgroup: 71, Parent: 2}, {Session: 5, Cgroup: 71, Parent: 1}, {Session: 6, Cgroup: 71}}
	for name, tt := range map[string]struct {
		from, to uint32
		cgroup   uint64
		want     map[uint32]uint32 // parents that change
	}{
		"tasks":            {from: 1, to: 7, cgroup: 0},
		"selected":         {from: 1, to: 7, cgroup: 71, want: map[uint32]uint32{2: 7}},
		"others":           {from: 1, to: 7, cgroup: 72, want: map[uint32]uint32{3: 7}},
		"none":             {from: 1, to: 7, cgroup: 73},
		"from the top":     {from: 0, to: 7, cgroup: 71, want: map[uint32]uint32{8: 7}},
		"not below itself": {from: 2, to: 6, cgroup: 71},
	} {
		t.Run(name, func(t *testing.T) {
			n, want := slices.Clone(before), slices.Clone(before)
			n.move(tt.from, tt.to, func(of uint64) bool { return of == tt.cgroup })
			for id, parent := range tt.want {
				want[id].Parent = parent
			}
			expectNodes(t, n, describeNodes(want))
		})
	}
}

func TestNoNodesLeft(t *testing.T) {
	require.NoKernel(t)
	s := session{number: 9}
	full := func(free ...int) nodes {
		n := make(nodes, maxNodes)
		for id := 1; id < maxNodes; id++ {
			n[id].Session = 1
		}
		for _, id := range free {
			n[id].Session = 0
		}
		return n
	}
	const want = "no room is left: all sessions together can count 16383 sets of tasks and cgroups"
	n := full()
	if id, err := n.add(countersNode{Session: 9}, 0); id != 0 || !errors.Is(err, errNoNodes) || err.Error() != want {
		t.Errorf("add to a full table: got %d, %v, want %s", id, err, want)
	}
	for name, tt := range map[string]struct {
		free            []int
		above           uint32
		inherit, onExec bool
		want            uint32 // 0 for an error
	}{
		"none":                    {},
		"the last":                {free: []int{maxNodes - 1}, want: maxNodes - 1},
		"one, two for heirs":      {free: []int{2}, above: 1, inherit: true},
		"two for heirs":           {free: []int{2, 3}, above: 1, inherit: true, want: 2},
		"one, two for exec":       {free: []int{2}, onExec: true},
		"two for exec":            {free: []int{2, 3}, onExec: true, want: 2},
		"two for exec, inherit":   {free: []int{2, 3}, above: 1, inherit: true, onExec: true},
		"four for both":           {free: []int{2, 3, 4, 5}, above: 1, inherit: true, onExec: true, want: 2},
		"three, four for both":    {free: []int{2, 3, 4}, above: 1, inherit: true, onExec: true},
		"one is enough below 1":   {free: []int{2}, above: 1, want: 2},
		"one is enough for heirs": {free: []int{2}, inherit: true, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			n := full(tt.free...)
			id, err := n.addTasks(s, 0, tt.above, tt.inherit, tt.onExec, 0)
			if id != tt.want || (err != nil) != (tt.want == 0) || err != nil && !errors.Is(err, errNoNodes) {
				t.Errorf("got %d, %v, want %d", id, err, tt.want)
			}
			if len(n) != maxNodes {
				t.Errorf("the table has %d nodes, want %d", len(n), maxNodes)
			}
		})
	}
}

package main

import "fmt"

// limits prints the limits and counts those that are missed.
type limits struct{ missed int }

// atMost prints a limit and the figure that must not be above it.
func (l *limits) atMost(what string, figure, limit float64) {
	l.print(what, "at most", figure, limit, figure <= limit)
}

func (l *limits) atLeast(what string, figure, limit float64) {
	l.print(what, "at least", figure, limit, figure >= limit)
}

func (l *limits) print(what, bound string, figure, limit float64, kept bool) {
	verdict := "ok"
	if !kept {
		verdict = "MISSED"
		l.missed++
	}
	fmt.Printf("%-84s%10.2f, %s %-10.2f%s\n", what, figure, bound, limit, verdict)
}

// costs checks the limits of the sessions' costs.
func (l *limits) costs(bare float64, table costTable) {
	for _, ev := range []events{oneEvent, fourEvents} {
		n := "1 event"
		if ev == fourEvents {
			n = "4 events"
		}
		dearest := 0.0
		for _, c := range table[subject{system, shared, ev}] {
			dearest = max(dearest, c.added)
		}
		l.atMost(n+", system-wide, shared, any number: % of a bare round trip", 100*dearest/bare, 2)

		ours, theirs := subject{oneOfTwo, shared, ev}, subject{oneOfTwo, upstream, ev}
		l.atMost(n+", one of the two, shared: cost of 64 sessions / of 1", table.ofMost(ours).added/table.ofOne(ours).added, 1.05)
		l.atMost(n+", one of the two: cost of 1 shared / of upstream's", table.ofOne(ours).added/table.ofOne(theirs).added, 1)

		ours, theirs = subject{asleep, shared, ev}, subject{asleep, upstream, ev}
		l.atMost(n+", a third, asleep: cost of 1 shared / of upstream's", table.ofOne(ours).added/table.ofOne(theirs).added, 0.25)
	}
}

// running checks the limits of multiplexing.
func (l *limits) running(table costTable) {
	for _, t := range []target{system, oneOfTwo} {
		least, _ := table.ofMost(subject{t, shared, fourEvents}).running()
		l.atLeast(fmt.Sprintf("4 events, %s, 64 shared: %% running", t), least, 100)
	}
}

// starts checks the limits of starting sessions.
func (l *limits) starts(table map[subject]starts) {
	for _, t := range []target{system, oneOfTwo} {
		r := table[subject{t, shared, fourEvents}]
		l.atMost(fmt.Sprintf("64 shared sessions, %s: CPU time of a start at once / one by one", t), r.ratio(), 1.5)
		l.atMost(fmt.Sprintf("64 shared sessions, %s: that failed to start, either way", t), float64(r.started-r.counting()), 0)
	}
}

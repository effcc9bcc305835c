package main

import (
	"fmt"
	"time"
)

// starters is the number of sessions to start.
const starters = 64

// starts is the cost of starting the sessions, until all of them count.
type starts struct {
	apart, together time.Duration // CPU time; apart: each starts when the previous one counts; together: all start at once
	outcome                       // of the sessions of both ways
}

func (s starts) ratio() float64 { return s.together.Seconds() / s.apart.Seconds() }

// measureStarts prints the table of the costs of starting sessions.
func (l *lab) measureStarts() (map[subject]starts, error) {
	c, err := openClock()
	if err != nil {
		return nil, err
	}
	defer c.close()
	fmt.Printf("Start: CPU time until %d sessions count, -e %s\n\n%-26s%18s%18s%10s%15s\n",
		starters, fourEvents, "", "one by one, ms", "at once, ms", "ratio", "did not count")
	table := map[subject]starts{}
	for _, t := range []target{system, oneOfTwo} {
		for _, e := range []engine{direct, shared} {
			s := subject{t, e, fourEvents}
			r, err := l.measureStart(c, s)
			if err != nil {
				return nil, err
			}
			table[s] = r
			fmt.Printf("%-16s%-10s%18.1f%18.1f%10.2f%15d\n", t, e,
				r.apart.Seconds()*1e3, r.together.Seconds()*1e3, r.ratio(), r.started-r.counting())
			if r.failure != nil {
				fmt.Println("  a session failed:", r.failure)
			}
		}
	}
	fmt.Println()
	return table, nil
}

func (l *lab) measureStart(c clock, s subject) (r starts, err error) {
	for _, way := range []struct {
		took     *time.Duration
		together bool
	}{{&r.apart, false}, {&r.together, true}} {
		before, err := c.read()
		if err != nil {
			return r, err
		}
		f, err := l.startCounting(s, way.together)
		if err != nil {
			return r, err
		}
		after, err := c.read()
		if err != nil {
			return r, err
		}
		*way.took = after - before
		if _, err := l.pair.play(1); err != nil { // gives the sessions something to count
			return r, err
		}
		f.end(&r.outcome)
	}
	return r, nil
}

// startCounting starts sessions and returns when all that can count do count. The others have no counts when they end.
func (l *lab) startCounting(s subject, together bool) (fleet, error) {
	f := make(fleet, starters)
	for i := range f {
		var err error
		if f[i], err = l.startSession(s); err != nil {
			return nil, err
		}
		f[i].send("ping")
		if !together {
			f[i].await()
		}
	}
	if together {
		for _, one := range f {
			one.await()
		}
	}
	return f, nil
}

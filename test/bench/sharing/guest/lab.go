package main

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// lab is what is measured, and with what.
type lab struct {
	dir     string // for files
	pair    *pair
	sleeper *player
	bare    float64 // instructions of a round trip that nobody counts
}

func newLab(dir string) (*lab, error) {
	p, err := startPair(dir)
	if err != nil {
		return nil, err
	}
	s, err := startPlayer(dir, "sleeper", pong())
	if err != nil {
		return nil, err
	}
	l := &lab{dir: dir, pair: p, sleeper: s}
	settle()
	l.bare, err = l.play()
	return l, err
}

// settle waits for the kernel to have done what it puts off: switching tasks costs more for a second after the last
// counter of a task is gone (perf_sched_delayed in kernel/events/core.c). Under -icount waiting takes no time.
func settle() { time.Sleep(3 * time.Second) }

// Round trips. Some are made before those that are measured, for what the kernel does first; and these take so long that
// the clock's ticks, every 4 ms, are as many each time.
const (
	firstTrips    = 2000
	measuredTrips = 8000
)

// play returns what a round trip costs now.
func (l *lab) play() (instructions float64, err error) {
	if _, err := l.pair.play(firstTrips); err != nil {
		return 0, err
	}
	return l.pair.play(measuredTrips)
}

// deviation is by how many percent the bare round trip now differs from what it was.
func (l *lab) deviation() (float64, error) {
	settle()
	again, err := l.play()
	return 100 * math.Abs(again-l.bare) / l.bare, err
}

// subject is what sessions do.
type subject struct {
	target target
	engine engine
	events events
}

// events are what -e takes.
type events string

const (
	oneEvent   events = "instructions"
	fourEvents events = "cycles,instructions,cycles:k,instructions:k"
)

// target is whom sessions count.
type target string

const (
	system   target = "system-wide"
	oneOfTwo target = "one of the two"
	asleep   target = "a third, asleep"
)

func (l *lab) flags(t target) []string {
	switch t {
	case oneOfTwo:
		return []string{"-p", strconv.Itoa(l.pair.ping.pid())}
	case asleep:
		return []string{"-p", strconv.Itoa(l.sleeper.pid())}
	default:
		return []string{"-a"}
	}
}

// startSession starts a session.
func (l *lab) startSession(s subject, flags ...string) (*session, error) {
	return startSession(l.dir, s.engine, slices.Concat([]string{"-e", string(s.events)}, l.flags(s.target), flags)...)
}

// startFleet starts sessions that do not count yet. Those that cannot are in the outcome.
func (l *lab) startFleet(s subject, n int) (f fleet, o outcome, err error) {
	settle()
	started := make(fleet, n)
	for i := range started {
		if started[i], err = l.startSession(s, s.engine.wait()...); err != nil {
			return nil, o, err
		}
	}
	for _, one := range started {
		if err := one.command("ping"); err != nil {
			o.add(nil, err)
			continue
		}
		f = append(f, one)
	}
	return f, o, nil
}

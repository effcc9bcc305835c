package main

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// lab has the processes that sessions count.
type lab struct {
	dir     string // directory for files
	pair    *pair
	sleeper *player
	bare    float64 // instructions of a round trip while no session counts
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

// settle waits for deferred work of the kernel. Context switches cost more for a second after a task's last counter is closed
// (perf_sched_delayed in kernel/events/core.c). Under -icount waiting takes no time.
func settle() { time.Sleep(3 * time.Second) }

// Numbers of round trips. The first trips are not measured, because the kernel does initial work in them. The measured trips take long
// enough that the number of clock ticks, one every 4 ms, is the same each time.
const (
	firstTrips    = 2000
	measuredTrips = 8000
)

// play returns the current cost of a round trip.
func (l *lab) play() (instructions float64, err error) {
	if _, err := l.pair.play(firstTrips); err != nil {
		return 0, err
	}
	return l.pair.play(measuredTrips)
}

// deviation returns the difference between the current cost of a bare round trip and l.bare, in percent.
func (l *lab) deviation() (float64, error) {
	settle()
	again, err := l.play()
	return 100 * math.Abs(again-l.bare) / l.bare, err
}

// subject describes sessions: what they count, and how.
type subject struct {
	target target
	engine engine
	events events
}

// events is an argument of -e.
type events string

const (
	oneEvent   events = "instructions"
	fourEvents events = "cycles,instructions,cycles:k,instructions:k"
)

// target is the target that sessions count.
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

// startSession starts a session of a subject.
func (l *lab) startSession(s subject, flags ...string) (*session, error) {
	return startSession(l.dir, s.engine, slices.Concat([]string{"-e", string(s.events)}, l.flags(s.target), flags)...)
}

// startFleet starts n sessions that do not count yet. Sessions that fail to start are in the outcome.
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

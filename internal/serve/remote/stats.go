package remote

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bperf/bperf/internal/kernel"
)

// Stats are the numbers of a server of sessions since it was made.
type Stats struct {
	Longest time.Duration // the limits of a session: its time,
	Bytes   int64         // and the bytes that it sends

	Running []Running                   // the oldest first
	Started map[string]uint64           // sessions by command
	Ended   map[string][Outcomes]uint64 // sessions by command and Outcome
	Refused uint64                      // requests for what no session does, and those that came when the server had stopped
	CPUTime time.Duration               // user and system, of sessions that run and that have ended
}

// Running is a session that runs.
type Running struct {
	Client  string // its address and what it has proved to be; text of others
	Command string
	Args    string // the beginning of them; text of others
	Begin   time.Time
	Sent    int64 // bytes
}

// Outcome is how a session ended.
type Outcome int

// The outcomes.
const (
	Succeeded Outcome = iota // with exit status 0
	Failed                   // with another one
	Limited                  // the node ended it: at a limit, or because the node ends
	Gone                     // the client went away
)

var outcomes = [...]string{"succeeded", "failed", "ended_by_node", "client_gone"}

// Outcomes is the number of outcomes.
const Outcomes = len(outcomes)

// String returns the outcome as a label.
func (o Outcome) String() string { return outcomes[o] }

// outcome returns how a session ended.
func (e *End) outcome() Outcome {
	switch {
	case e.Reason == errGone.Error():
		return Gone
	case e.Reason != "":
		return Limited
	case e.Status != 0:
		return Failed
	}
	return Succeeded
}

// tally counts sessions. Its commands are those of a fixed list. The server's mutex guards it, except refused.
type tally struct {
	started map[string]uint64
	ended   map[string][Outcomes]uint64
	cpuTime time.Duration // of sessions that have ended
	refused atomic.Uint64
}

func newTally() *tally {
	t := &tally{started: make(map[string]uint64), ended: make(map[string][Outcomes]uint64)}
	for command := range commands() {
		t.started[command], t.ended[command] = 0, [Outcomes]uint64{}
	}
	return t
}

// end counts a session that has ended.
func (t *tally) end(command string, o Outcome, cpuTime time.Duration) {
	all := t.ended[command]
	all[o]++
	t.ended[command] = all
	t.cpuTime += cpuTime
}

// Stats returns the numbers up to now.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := Stats{Longest: s.config.Longest, Bytes: s.config.Bytes, Started: make(map[string]uint64), Ended: make(map[string][Outcomes]uint64),
		Refused: s.tally.refused.Load(), CPUTime: s.tally.cpuTime}
	for command, n := range s.tally.started {
		all.Started[command], all.Ended[command] = n, s.tally.ended[command]
	}
	for one := range s.sessions {
		all.CPUTime += one.use.measure()
		all.Running = append(all.Running, Running{one.client, one.request.Command, one.request.shown(), one.begin, one.sent.Load()})
	}
	slices.SortFunc(all.Running, func(a, b Running) int { return cmp.Or(a.Begin.Compare(b.Begin), strings.Compare(a.Client, b.Client)) })
	return all
}

// shown returns the arguments as a text of limited length.
func (r *Request) shown() string {
	args := strings.Join(r.Args, " ")
	return args[:min(len(args), maxLoggedArg)]
}

// use is the CPU time of a session's process. It never falls.
type use struct {
	pid   atomic.Int64 // 0 while there is no process, or it may have been waited for
	known atomic.Int64 // the last that is known, in ns
}

// measure returns the CPU time up to now.
func (u *use) measure() time.Duration {
	if pid := u.pid.Load(); pid != 0 {
		t, err := kernel.ProcessCPUTime(int(pid))
		if err == nil && u.pid.Load() == pid { // otherwise the process may be another one
			u.raise(t)
		}
	}
	return time.Duration(u.known.Load())
}

func (u *use) raise(t time.Duration) {
	for {
		known := u.known.Load()
		if int64(t) <= known || u.known.CompareAndSwap(known, int64(t)) {
			return
		}
	}
}

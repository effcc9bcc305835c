// Package sample takes profiles whose samples are counted in the kernel: a BPF program of type perf_event runs on the overflow of a perf event, in
// place of a record in its ring (bpf/sample.bpf.c). What leaves the kernel are sums, each with what its samples have in common, and
// records of tasks, memory and BPF programs. They make a recording as perf has it, which is never written to a file, but followed as it comes
// (package replay): so code has the names that it had at that time, also if it has been unmapped or unloaded since.
//
// It needs Linux 5.15, and root or CAP_BPF and CAP_PERFMON.
package sample

import (
	"fmt"
	"sync"
	"time"

	"github.com/bperf/bperf/internal/perfdata"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/internal/replay"
)

// Config is what is sampled, and how.
type Config struct {
	Record  record.Config // events, target, rate, duration; what is recorded of each sample is of no matter
	By      Keys
	Keep    profile.Keys   // that the profile has
	Replay  replay.Options // where symbols are
	Entries uint32         // that the maps have room for at first; 0 for what is usual

	Progress func(Progress) // is told each second how it is going; or nil
}

// Progress is how it is going.
type Progress struct {
	Elapsed time.Duration
	Samples uint64
	Lost    uint64  // samples that found no room
	Sums    uint64  // that are in the kernel
	Stacks  uint64  // the same
	CPU     float64 // the share of one CPU that this process has used since the last time
}

// Result is how it ended.
type Result struct {
	record.Result
	Profile *profile.Profile // nil if there was an error
	Stats   replay.Stats
	Totals  Totals
}

// session is a profile that is taken.
type session struct {
	cfg     Config
	counter *counter

	mu       sync.Mutex // guards what follows
	began    time.Time  // of the generation that is filled
	interval uint32
	raw      []byte
	counted  []uint64 // by the events themselves
	places   []uint64 // in which they were open
	missing  uint64   // samples that had found no room when sums were read the last time
	enough   uint64   // entries that would have been enough for the maps
}

// interval is how long sums stay in the kernel at most.
const interval = 10 * time.Second

// soon is how long maps should last.
const soon = 2 * time.Second

// Run takes a profile.
func Run(cfg Config) (Result, error) {
	events := len(cfg.Record.Events.Events())
	s := &session{cfg: cfg, began: time.Now(), counted: make([]uint64, events), places: make([]uint64, events)}
	var err error
	if s.counter, err = newCounter(settings{Keys: cfg.By, kernel: !cfg.Record.AllUser, user: !cfg.Record.AllKernel, noIdle: cfg.Record.NoIdle,
		events: events, entries: cfg.Entries, eager: !cfg.Record.Target.System && cfg.Record.Target.CPUs == nil}); err != nil {
		return Result{}, err
	}
	defer func() { _ = s.counter.Close() }() // all was read
	return s.run()
}

func (s *session) run() (result Result, err error) {
	q := newQueue()
	cfg := s.recording(q)
	var follower sync.WaitGroup
	var followErr error
	follower.Go(func() { result.Profile, result.Stats, followErr = s.follow(q) })
	stop := s.report()
	began := time.Now()
	recorded, err := record.Run(cfg)
	took := time.Since(began)
	stop()
	q.end(err)
	follower.Wait()
	result.Result = recorded
	if err == nil {
		err = followErr
	}
	if err != nil {
		result.Profile = nil
		return result, err
	}
	if result.Totals, err = s.totals(); err != nil {
		return result, err
	}
	result.Profile.Info.Duration, result.Profile.Info.Start = took, began
	result.Totals.addTo(&result.Profile.Losses)
	return result, nil
}

// monotonic is the clock of the times in sums, CLOCK_MONOTONIC of include/uapi/linux/time.h.
const monotonic = 1

// recording is what is recorded: sums.
func (s *session) recording(q *queue) record.Config {
	cfg := s.cfg.Record
	clock := int32(monotonic)
	cfg.ClockID, cfg.Stream, cfg.NoBuildIDs = &clock, q, true
	cfg.SampleCPU, cfg.Time = true, true
	cfg.Cgroups = s.cfg.By.Cgroup
	cfg.Callchain = record.CallchainNone
	cfg.Sums = &record.Sums{Stack: s.cfg.By.Stack, Attach: s.attach, Due: s.due, Read: s.read, Counted: s.count}
	if s.counter.tables != nil {
		cfg.Sums.Task, cfg.Sums.Settled = s.counter.tables.Record, s.counter.tables.Update
	}
	return cfg
}

func (s *session) attach(event int, fd *perfevent.Event) error {
	if err := fd.SetBPF(s.counter.program(event)); err != nil {
		return fmt.Errorf("the kernel takes no BPF program on this event: %w", err)
	}
	return nil
}

// due reports whether sums are to be read: some time has gone by, or a map is half full.
func (s *session) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	full, err := s.counter.full()
	return err == nil && full || time.Since(s.began) >= interval
}

func (s *session) read(end bool, write func(*record.Sum) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	full, err := s.counter.full()
	if err != nil {
		return err
	}
	grow := full && !end && time.Since(s.began) < soon
	if err := s.measure(); err != nil {
		return err
	}
	s.began = time.Now()
	return s.counter.swap(grow, func(e *entry) error { return write(s.sum(e)) })
}

// measure finds out how much room would be enough: half of a map is used when it is read, and what found no room has to be there, too.
func (s *session) measure() error {
	sums, stacks, err := s.counter.fills()
	if err != nil {
		return err
	}
	all, err := s.counter.counts()
	if err != nil {
		return err
	}
	missing := uint64(0)
	for _, c := range all {
		missing += c.NoSum + c.NoStack
	}
	more := missing - s.missing
	s.missing = missing
	for s.enough < 2*(max(sums, stacks)+more) {
		s.enough = max(1024, 2*s.enough)
	}
	return nil
}

// sum is an entry in the words of a recording.
func (s *session) sum(e *entry) *record.Sum {
	by := s.cfg.By
	sum := &record.Sum{Event: int(e.Event), Time: e.First, PID: -1, TID: -1, CPU: -1, Cgroup: e.Cgroup, IP: e.Ip, Kernel: e.stack.kernel, User: e.stack.user,
		Value: e.sampleSum.Value}
	if by.PID {
		sum.PID, sum.TID = int32(e.Pid), int32(e.Pid)
	}
	if by.TID {
		sum.TID = int32(e.Tid)
	}
	if by.CPU {
		sum.CPU = int32(e.Cpu)
	}
	if by.Stack && sum.IP == 0 {
		sum.IP = innermost(e.stack)
	}
	told := replay.Sum{Count: e.Count, Interval: s.interval}
	if by.Comm {
		told.Comm = text(e.Comm[:])
	}
	if by.Priority {
		told.Tags = append(told.Tags, replay.SumTag{Key: "priority", Value: fmt.Sprint(e.Priority)})
	}
	if by.State {
		told.Tags = append(told.Tags, replay.SumTag{Key: "state", Value: state(e.State)})
	}
	s.raw = told.Append(s.raw[:0])
	sum.Raw = s.raw
	return sum
}

func innermost(s stack) uint64 {
	switch {
	case len(s.kernel) > 0:
		return s.kernel[0]
	case len(s.user) > 0:
		return s.user[0]
	}
	return 0
}

// text is a string that ends with the first 0.
func text(b []int8) string {
	var s []byte
	for _, c := range b {
		if c == 0 {
			break
		}
		s = append(s, byte(c))
	}
	return string(s)
}

// states are the letters of a thread's state, from bit 0 on: task_state_index in include/linux/sched.h.
const states = "SDTtXZPI"

func state(bits uint32) string {
	for i, letter := range states {
		if bits&(1<<i) != 0 {
			return string(letter)
		}
	}
	return "R"
}

// count takes what an event has counted itself in one place.
func (s *session) count(event int, value uint64) {
	s.counted[event] += value
	s.places[event]++
}

// follow makes a profile of what is recorded, as it comes.
func (s *session) follow(q *queue) (*profile.Profile, replay.Stats, error) {
	reader, err := perfdata.NewPipeReader(q)
	if err != nil {
		return nil, replay.Stats{}, err
	}
	defer func() { _ = reader.Close() }() // it is only read
	options := s.cfg.Replay
	options.Sums = true
	r := replay.New(reader, options)
	p, err := r.Profile(s.cfg.Keep)
	return p, r.Stats(), err
}

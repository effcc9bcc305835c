// Package sample takes profiles whose samples are counted in the kernel. A BPF program of type perf_event runs on the overflow of a perf event, and
// no record is written to the event's ring (bpf/sample.bpf.c).
//
// Only sums leave the kernel. A sum stands for all samples with the same subject, which has the fields that Keys selects (thread, CPU and others),
// and the same stack. The innermost frame of a stack is in the sum. Its callers are a chain, which bperf reads once and which sums refer to by its
// ID. Sums and chains are in maps of two generations: programs fill one of them while bperf reads the other one.
//
// Package record records everything else (tasks, mappings and BPF programs) as a stream of perf.data that is never written to a file. A replay
// follows the stream as it comes, and inserts the sums between its records by time. So code gets the name that it had at that time, even if it was
// unmapped or unloaded later.
//
// The package needs Linux 5.15, and root or CAP_BPF and CAP_PERFMON.
package sample

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf/asm"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/userstack"
	"github.com/bperf/bperf/perfdata"
)

// Config configures a profile.
type Config struct {
	Record    record.Config // events, target, rate, duration; options for the fields of samples are ignored
	By        Keys
	Keep      profile.Keys   // keys of the profile
	Replay    replay.Options // where to find symbols
	Ranges    []Range        // only samples whose instruction pointer is in one of these; nil for all
	Programs  []Range        // only samples with an instruction pointer or a caller in one of these; nil for all
	Functions []string       // only samples in one of these, in addition to Ranges; nil for all
	Entries   uint32         // initial size of the maps; 0 for the default

	// Patience is the time between two looks for processes that have just begun and were sampled. Their user stacks may be cut before the
	// second one, because looking and reading their files takes CPU time. 0 for a short time, and for whole stacks after one look.
	Patience time.Duration

	Every time.Duration                // take a profile for each interval of this length; 0 for a single profile
	Each  func(*profile.Profile) error // gets each of these profiles when it is complete

	// Following gets the replay of the recording before the first call of Each, which may call its method DSO. It may be nil.
	Following func(*replay.Replay)

	// CgroupPath returns the path of a cgroup by its ID, or "". With it, bperf records no paths of cgroups, and keeps none. nil for the recorded
	// paths. Calls come from one goroutine.
	CgroupPath func(id uint64) string

	OffCPU bool // measure how long threads are blocked, as a separate event
	Wall   bool // like OffCPU, but as part of the first event, whose values must be times in ns

	Progress func(Progress) // is called each second; or nil
}

// Progress is the state of a running profile.
type Progress struct {
	Elapsed time.Duration
	Samples uint64
	Lost    uint64  // samples that found no room
	Sums    uint64  // sums in the kernel
	Stacks  uint64  // chains in the kernel
	CPU     float64 // number of CPUs that this process has used since the last call
}

// Result is a profile and the outcome of taking it.
type Result struct {
	record.Result
	Profile *profile.Profile // nil after an error, and with Config.Every
	Stats   replay.Stats
	Totals  Totals
}

// sampler takes a profile.
type sampler struct {
	cfg     Config
	counter *counter

	settings settings
	maps     programMaps
	detach   func() // detaches the user's programs, before their maps are read for the last time
	prepared bool   // the unwind tables for the start are built

	mu        sync.Mutex // guards the fields below
	began     time.Time  // start of the active generation
	intervals intervals
	sum       replay.Sum // reused by add
	comms     map[[16]int8]string
	sums      *replay.Sums
	counted   []record.OwnCount // per event
	still     still
	room      room
}

// still are the threads that are blocked at the end.
type still struct {
	threads uint64
	time    uint64 // their total time, in ns
}

// room is the room that the maps need.
type room struct {
	missing uint64 // samples without room, when sums were last read
	enough  uint64 // number of entries that would have been enough for the maps
}

// need returns which processes get unwind tables.
func (c *Config) need() userstack.Need {
	switch {
	case !c.Record.Target.System && c.Record.Target.CPUs == nil:
		return userstack.All
	case c.Patience > 0:
		return userstack.SampledTwice
	}
	return userstack.Sampled
}

// interval is the longest time that sums stay in the kernel.
const interval = time.Minute

// soon is the time in which maps should not become full.
const soon = 2 * time.Second

// Run takes a profile, and returns it when the recording has ended. If Config.Record.Done ends it, symbols that are still missing then are not
// looked up.
func Run(cfg Config) (Result, error) {
	if err := cfg.Check(); err != nil {
		return Result{}, err
	}
	if cfg.Record.Allowance == nil {
		cfg.Record.Allowance = allowance.New(allowance.DefaultMemory)
	}
	waits := cfg.measuresWaits()
	if waits && cfg.By.IP { // a thread is blocked in its first frame outside the scheduler
		cfg.By.IP, cfg.By.Stack = false, true
	}
	programs := cfg.Record.Programs
	cfg.Record.Programs = nil // they become a part of the program that counts
	if names := slices.Concat(programs.Outputs(), programs.RingBuffers()); len(names) > 0 {
		return Result{}, fmt.Errorf("there is no file for what programs write through the map %s: record it with bperf record", printable.Text(strings.Join(names, ", ")))
	}
	if err := programs.Load(); err != nil {
		return Result{}, err
	}
	filters, err := takeFilters(&cfg.Record.Events, programs)
	if err != nil {
		return Result{}, err
	}
	events := len(filters)
	s := &sampler{cfg: cfg, began: time.Now(), intervals: intervals{current: bounds{start: time.Now()}}, counted: make([]record.OwnCount, events)}
	s.maps, s.detach = programMaps{all: programs.Profiles()}, programs.Detach
	isSummed := func(e *event.Event) bool { return e.Tracepoint == "" }
	if cfg.Every > 0 && !cfg.OffCPU && len(s.maps.all) == 0 && !slices.ContainsFunc(cfg.Record.Events.Events(), isSummed) {
		return Result{}, errors.New("samples of tracepoints are not added up in the kernel: for a profile of each interval another event is needed, too")
	}
	isTracepoint := func(e *event.Event) bool { return e.Tracepoint != "" }
	if len(cfg.Ranges)+len(cfg.Programs)+len(cfg.Functions) > 0 && slices.ContainsFunc(cfg.Record.Events.Events(), isTracepoint) {
		return Result{}, errors.New("--range and -b do not select samples of tracepoints: bperf does not count these in the kernel")
	}
	by := cfg.By
	if events == 0 && !waits {
		by = Keys{} // all entries come from maps of the user's programs
	}
	var access asm.Instructions
	if cfg.By.hasAccess() && events > 0 {
		if access, err = cfg.By.accessCode(); err != nil {
			return Result{}, err
		}
	}
	s.settings = settings{Keys: by, kernel: !cfg.Record.AllUser, user: !cfg.Record.AllKernel, noIdle: cfg.Record.NoIdle, waits: waits,
		command: cfg.Record.CommandIsTarget(), follows: cfg.Record.SamplesCPUs(),
		events: events, entries: cfg.Entries, every: cfg.Every, ips: cfg.Ranges, programs: cfg.Programs, filters: filters, access: access, allTypes: programs != nil,
		rate:   cfg.Record.Frequency * uint64(events*runtime.NumCPU()),
		tables: cfg.need(), allowance: cfg.Record.Allowance}
	if s.counter, err = newCounter(s.settings); err != nil {
		return Result{}, programs.Explain(err) // the verifier names the function
	}
	defer func() { _ = s.counter.Close() }() // everything has been read
	return s.run()
}

// run makes the recording, and follows it concurrently.
func (s *sampler) run() (result Result, err error) {
	s.sums = &replay.Sums{Stacks: s.cfg.By.Stack || s.maps.hasKey("stack"), Others: s.others()}
	q := newQueue()
	cfg := s.recording(q)
	var follower sync.WaitGroup
	var followErr error
	follower.Go(func() { result.Profile, result.Stats, followErr = s.follow(q) })
	defer s.stopWhenDone()()
	stop := s.report()
	began, steal := time.Now(), stolen()
	recorded, err := record.Run(cfg)
	took := time.Since(began)
	stop()
	q.end(err)
	followed := make(chan struct{})
	go func() { // one more signal skips the symbols that are still missing
		select {
		case <-cfg.Signals:
			cfg.Allowance.Stop()
		case <-followed:
		}
	}()
	follower.Wait()
	close(followed)
	result.Result = recorded
	if err == nil || errors.Is(err, errLeft) {
		err = followErr
	}
	if err != nil {
		result.Profile = nil
		return result, err
	}
	if result.Totals, err = s.totals(); err != nil {
		return result, err
	}
	result.Totals.Samples += recorded.Samples // samples of tracepoints
	result.Totals.NoRoom += recorded.Lost
	result.Totals.Filtered += result.Stats.Outside
	result.Totals.Throttled, result.Totals.Stopped = result.Stats.Throttled, time.Duration(result.Stats.Stopped)
	who := s.cfg.Record.Target
	result.Totals.IdleCPUs = (who.System || who.CPUs != nil) && who.Cgroups == nil && !s.cfg.Record.NoIdle
	if who.System {
		result.Totals.Steal = stolen() - steal
	}
	if result.Profile != nil {
		result.Profile.Info.Duration, result.Profile.Info.Start = took, began
		result.Totals.addTo(&result.Profile.Losses)
		s.maps.mark(result.Profile)
		s.maps.addTo(&result.Profile.Losses)
	}
	return result, nil
}

// stopWhenDone makes session.Spec.Done skip the symbols that are still missing, until the returned function is called.
func (s *sampler) stopWhenDone() (forget func()) {
	ended := make(chan struct{})
	go func() {
		select {
		case <-s.cfg.Record.Done:
			s.cfg.Record.Allowance.Stop()
		case <-ended:
		}
	}()
	return func() { close(ended) }
}

// sumClock is the clock of the times in sums.
const sumClock = perfdata.ClockMonotonic

// recording returns the configuration of the recording.
func (s *sampler) recording(q *queue) record.Config {
	cfg := s.cfg.Record
	clock := int32(sumClock)
	cfg.ClockID, cfg.Stream, cfg.NoBuildIDs = &clock, q, true
	cfg.SampleCPU, cfg.Time = true, true
	cfg.Cgroups = s.cfg.CgroupPath == nil && s.cfg.By.Cgroup || s.maps.hasKey("cgroup")
	if s.cfg.By.Stack {
		cfg.Callchain = record.CallchainFP // for tracepoints
	}
	bits := s.cfg.By.accessValues().SampleType()
	if s.cfg.By.Addr {
		bits |= perfdata.SampleAddr
	}
	if bits != 0 { // PMUs provide these fields only if the sample type has them
		cfg.Events = cfg.Events.Clone()
		for _, e := range cfg.Events.Events() {
			e.Attr.SampleType |= bits
		}
	}
	cfg.Sums = &record.Sums{Stack: s.sums.Stacks, Kernel: s.cfg.measuresWaits() && s.settings.kernel || len(s.maps.all) > 0, Poll: s.poll, Patience: s.cfg.Patience,
		Attach: s.attach, Due: s.due, Read: s.read, Counted: s.count, Follow: s.counter.follow}
	if s.cfg.measuresWaits() {
		cfg.Sums.OffCPU = s.attachWaits
	}
	if s.counter.tables != nil {
		cfg.Sums.Task, cfg.Sums.Settled = s.counter.tables.Record, s.settled
	}
	return cfg
}

// settled builds unwind tables: all of them before sampling starts, later in slices of 100 ms, because the same thread also drains sums.
func (s *sampler) settled() error {
	longest := 100 * time.Millisecond
	if !s.prepared {
		s.prepared, longest = true, 0
		if s.settings.command {
			if err := s.counter.tables.Prepare(s.cfg.Record.Command[0]); err != nil {
				return err
			}
		}
	}
	return s.counter.tables.Update(longest)
}

// settling is the time after an interval in which records of the interval arrive.
const settling = 100 * time.Millisecond

// poll returns the time until the next check of the maps. Intervals end at a check, a check finds processes whose stacks need tables, and the maps must
// not fill up between two checks.
func (s *sampler) poll() time.Duration {
	wait := time.Second
	looks := s.counter.tables != nil && s.settings.tables != userstack.All
	if looks || s.settings.waits || s.settings.entries > 0 || s.settings.rate == 0 || 4*s.settings.rate > uint64(s.settings.sums()) {
		wait = 250 * time.Millisecond
	}
	if s.cfg.Every > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		const late = time.Millisecond // waits have whole milliseconds: the interval is over then
		wait = min(wait, max(0, s.cfg.Every-time.Since(s.intervals.current.start))+late)
		if s.intervals.settle {
			wait = min(wait, settling)
		}
	}
	return wait
}

func (s *sampler) attach(event int, fd *perfevent.Event) error {
	if err := fd.SetBPF(s.counter.program(event)); err != nil {
		return fmt.Errorf("the kernel takes no BPF program on this event: %w", err)
	}
	return nil
}

// due reports whether to read the sums: after a while, at the end of an interval, or if a map is half full.
func (s *sampler) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counter.crowdedRing() && s.counter.readChains() != nil {
		return true // reading the sums fails again, and reports why
	}
	full, err := s.counter.full()
	return err == nil && full || s.intervals.settle || time.Since(s.began) >= interval || s.over()
}

// over reports whether the interval is over.
func (s *sampler) over() bool {
	return s.cfg.Every > 0 && time.Since(s.intervals.current.start) >= s.cfg.Every
}

func (s *sampler) read(end bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	waits := end && s.cfg.measuresWaits()
	if waits {
		if err := s.counter.waits.switches.Detach(); err != nil {
			return err
		}
	}
	full, err := s.counter.full()
	if err != nil {
		return err
	}
	crowded, err := s.counter.crowded()
	if err != nil {
		return err
	}
	grow := full && (crowded || time.Since(s.began) < soon)
	if err := s.measure(); err != nil {
		return err
	}
	s.began, s.intervals.settle = time.Now(), false
	over := s.over() && !end
	if end {
		err = s.counter.finish(s.add)
	} else {
		err = s.counter.swap(grow, s.add)
	}
	if err != nil {
		return err
	}
	if s.counter.tables != nil && !end {
		if err := s.counter.tables.Forget(); err != nil {
			return err
		}
	}
	if end {
		s.detach()
	}
	if end || over {
		if err := s.maps.read(s.intervals.number, end, s.sums); err != nil {
			return err
		}
	}
	if waits {
		return s.readStill()
	}
	if !over {
		return nil
	}
	losses, err := s.losses()
	if err != nil {
		return err
	}
	s.intervals.finish(s.began, losses)
	return s.mark()
}

// mark adds the sum that begins an interval.
func (s *sampler) mark() error {
	now, _, err := kernel.ClockAndWall(sumClock)
	if err != nil {
		return err
	}
	s.sums.Add(&replay.Sum{Time: now, Interval: uint32(s.intervals.number)})
	return nil
}

// measure updates room.enough: a map should be half full when it is read, and samples without room need entries too.
func (s *sampler) measure() error {
	sums, chains, err := s.counter.fills()
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
	more := missing - s.room.missing
	s.room.missing = missing
	for s.room.enough < 2*(max(sums, chains)+more) {
		s.room.enough = max(1024, 2*s.room.enough)
	}
	return nil
}

// add adds the sum of an entry.
func (s *sampler) add(e *entry) error {
	by := s.cfg.By
	of := &e.Subject
	sum := &s.sum
	*sum = replay.Sum{Event: int(of.Event), Time: e.First, PID: -1, TID: -1, CPU: -1, Cgroup: of.Cgroup, IP: e.Ip, Kernel: e.callers.kernel, User: e.callers.user,
		Value: e.sampleSum.Value, Count: e.Count, Interval: uint32(s.intervals.number)}
	if s.cfg.CgroupPath != nil && by.Cgroup {
		sum.CgroupPath = s.cfg.CgroupPath(of.Cgroup)
	}
	if by.PID {
		sum.PID, sum.TID = int32(of.Pid), int32(of.Pid)
	}
	if by.TID {
		sum.TID = int32(of.Tid)
	}
	if by.CPU {
		sum.CPU = int32(of.Cpu)
	}
	if by.Stack && sum.IP == 0 {
		setStack(sum, e.callers)
	}
	if by.Comm {
		sum.Comm = s.comm(of.Comm)
	}
	tag := func(key, value string) { sum.Tags = append(sum.Tags, replay.SumTag{Key: key, Value: value}) }
	if by.Priority {
		tag("priority", fmt.Sprint(of.Priority))
	}
	if by.Addr {
		tag("addr", fmt.Sprintf("%#x", of.Addr))
	}
	wait := s.isWait(e)
	if by.hasAccess() {
		from := of
		if wait {
			from = noAccess()
		}
		sum.Tags = append(sum.Tags, by.accessTags(from)...)
	}
	if wait {
		s.wait(e, sum)
	}
	if by.State {
		letter := state(of.State)
		if s.cfg.Wall && !wait {
			letter = state(0) // running, even if the thread has just begun to wait
		}
		tag("state", letter)
	}
	if s.cfg.Wall {
		where := onCPU
		if wait {
			where = offCPU
		}
		tag(wallTag, where)
	}
	s.sums.Add(sum)
	return nil
}

// setStack sets the stack of a sum.
func setStack(sum *replay.Sum, s stack) {
	ip, callers := s.split()
	sum.IP, sum.Kernel, sum.User = ip, callers.kernel, callers.user
}

// comm returns the name of a thread. It caches names, because most sums have one of a few.
func (s *sampler) comm(name [16]int8) string {
	const most = 4096
	known, ok := s.comms[name]
	if !ok {
		if s.comms == nil || len(s.comms) == most {
			s.comms = make(map[[16]int8]string)
		}
		known = text(name[:])
		s.comms[name] = known
	}
	return known
}

// others returns the events of sums that are not sampled: off-CPU time, and the numbers in the values of maps.
func (s *sampler) others() []*perfdata.Event {
	var all []*perfdata.Event
	add := func(name string, config uint64) {
		all = append(all, &perfdata.Event{Name: name, Attr: perfdata.Attr{Type: perfdata.TypeSoftware, Config: config, SamplePeriod: 1}})
	}
	if s.cfg.OffCPU {
		add(record.OffCPUName, perfdata.SoftwareCPUClock) // a clock, because its unit is ns
	}
	s.maps.first = len(all)
	for _, name := range s.maps.events() {
		add(name, perfdata.SoftwareDummy)
	}
	return all
}

// text returns the characters before the first 0.
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

// states has the letter of each bit of a thread's state, from bit 0: task_state_index in include/linux/sched.h.
const states = "SDTtXZPI"

func state(bits uint32) string {
	for i, letter := range states {
		if bits&(1<<i) != 0 {
			return string(letter)
		}
	}
	return "R"
}

// count stores an event's own count.
func (s *sampler) count(event int, own record.OwnCount) { s.counted[event] = own }

// follow builds the profile from the stream of the recording, as it comes.
func (s *sampler) follow(q *queue) (*profile.Profile, replay.Stats, error) {
	defer q.leave()
	reader, err := perfdata.NewPipeReader(q)
	if err != nil {
		return nil, replay.Stats{}, err
	}
	defer func() { _ = reader.Close() }() // opened for reading only
	defer q.leave()                       // the reader may wait for more
	options := s.cfg.Replay
	options.Sums, options.Functions, options.KernelSymbol, options.Allowance = s.sums, s.cfg.Functions, s.counter.symbol, s.cfg.Record.Allowance
	r := replay.New(reader, options)
	defer r.Close()
	if s.cfg.Following != nil {
		s.cfg.Following(r)
	}
	if s.cfg.Every > 0 {
		err := r.Intervals(s.cfg.Keep, func(p *profile.Profile) error {
			if err := s.complete(p); err != nil {
				return err
			}
			return s.cfg.Each(p)
		})
		return nil, r.Stats(), err
	}
	p, err := r.Profile(s.cfg.Keep)
	return p, r.Stats(), err
}

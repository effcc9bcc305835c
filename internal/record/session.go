package record

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/control"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/record/host"
	"github.com/bperf/bperf/internal/record/snapshot"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/internal/userprog"
	"github.com/bperf/bperf/perfdata"
)

// session is a recording. Two goroutines work on it: the one that calls Run, and the collector, which runs while samples come (see collect).
type session struct {
	// The goroutine of Run sets these before it starts the collector. Then both only read them.
	cfg       Config
	target    target.Target
	cpus      target.CPUChanges
	events    []*opened
	others    []*opened // of events: those of Sums.Others
	tracker   *opened   // of events: asks for the records of tasks and memory
	rings     map[ringKey]*ring
	order     []*ring // in the order in which they were made
	ringSize  int     // bytes
	machine   host.Features
	command   *target.Command // nil without one
	programs  *programs       // nil with Config.NoBPF, or where they may not be seen
	modules   *moduleWatcher  // nil where they may not be seen
	offCPU    *offCPU         // nil without Config.OffCPU
	fromRings *userprog.Rings // maps of type RINGBUF
	later     bool            // what is opened is on a CPU that came online while it is recorded; set with collector.work held

	// The goroutine of Run owns these.
	exited      <-chan target.Status
	enabled     bool
	lostSamples uint64

	// The collector owns these while it runs; before and after that the goroutine of Run owns them.
	out        *output
	tally      *tally
	newest     []byte // of rings that keep what is newest
	builds     *buildIDs
	sumsAt     int64             // bytes that were written when sums were read the last time
	files      map[string]string // of modules, by name; nil until one is loaded
	tasksTold  uint64            // tally.tasks when Sums.Settled was called the last time
	tasksUntil time.Time         // more of them are to be expected
	sum        perfdata.Sample   // the last one that was written, whose place the next one takes

	result Result // the collector owns Wakeups, Drained and LastOutput while it runs
}

// Run records as it is asked for.
func Run(cfg Config) (Result, error) {
	s := &session{cfg: cfg, rings: make(map[ringKey]*ring)}
	if s.cfg.Verbose == nil {
		s.cfg.Verbose = func(string) {}
	}
	if s.cfg.Allowance == nil {
		s.cfg.Allowance = allowance.New(allowance.DefaultMemory)
	}
	defer s.close()
	if err := s.launch(); err != nil {
		return s.result, err
	}
	return s.result, s.record()
}

// close ends what still runs.
func (s *session) close() {
	if s.command != nil {
		s.command.Kill() // does nothing when it has ended
	}
	s.programs.close()
	s.modules.close()
	s.builds.close()
	s.offCPU.close()
	s.fromRings.Close()
	s.cpus.Close()
	s.closeEvents()
}

// launch opens all that is needed, up to where what is recorded can begin.
func (s *session) launch() (err error) {
	if err := s.checkRate(); err != nil {
		return err
	}
	if err := s.plan(); err != nil {
		return err
	}
	if err := s.loadFilters(); err != nil {
		return err
	}
	if err := s.resolve(); err != nil {
		return err
	}
	if s.cpus, err = target.ListenForCPUs(); err != nil {
		s.cfg.Verbose(fmt.Sprintf("CPUs that come online are not told of: %v", err))
	}
	if err := s.open(); err != nil {
		return err
	}
	s.watchModules()
	if !s.cfg.NoBPF && !s.userOnly() {
		if s.programs, err = watchPrograms(); err != nil {
			s.cfg.Verbose(fmt.Sprintf("BPF programs that are loaded from now on are recorded without their code: %v", err))
		}
	}
	proc := "/proc"
	s.builds = newBuildIDs(proc, s.cfg.Allowance)
	s.tally = newTally(s.events[0].attr.SampleType, s.addBuildID)
	if s.cfg.Sums != nil { // nobody sees a header
		s.tally.task, s.machine = s.cfg.Sums.Task, host.System(os.DirFS("/"))
	} else {
		s.machine = host.Machine(os.DirFS("/"))
	}
	s.describe()
	return s.traced()
}

// userOnly reports whether nothing of the kernel is recorded.
func (s *session) userOnly() bool {
	return !slices.ContainsFunc(s.events, func(o *opened) bool {
		return !o.dummy && o.output == "" && !o.attr.Has(perfdata.AttrExcludeKernel) && !(o.offCPU && s.cfg.AllUser)
	})
}

// resolve finds whom to record; a command is started as far as that it waits.
func (s *session) resolve() (err error) {
	if !s.cfg.CommandIsTarget() {
		s.target, err = s.cfg.Target.Resolve()
		if err == nil && len(s.target.Offline) > 0 {
			s.cfg.Notify(fmt.Sprintf("CPUs %s are offline and are not recorded", procfs.FormatCPUList(s.target.Offline)))
		}
	}
	if err != nil || len(s.cfg.Command) == 0 {
		return err
	}
	if s.command, err = target.StartCommand(s.cfg.Command); err != nil {
		return err
	}
	if s.cfg.CommandIsTarget() {
		pid := s.command.PID()
		s.target = target.Target{Threads: []target.Thread{{TID: pid, PID: pid, Comm: s.cfg.Command[0]}}}
	}
	return nil
}

// record writes from here on, until it is over.
func (s *session) record() (err error) {
	s.out, err = s.newOutput()
	if err != nil {
		return err
	}
	err = s.collect()
	if closeErr := s.out.finish(); err == nil {
		err = closeErr
	}
	s.out.fill(&s.result)
	return err
}

// collect writes what was there before, and then what comes.
func (s *session) collect() error {
	waiter, err := perfevent.NewWaiter()
	if err != nil {
		return err
	}
	defer waiter.Close()
	for _, r := range s.order {
		if r.overwritten {
			continue
		}
		if err := waiter.Add(r.owner); err != nil {
			return err
		}
	}
	if err := s.modules.wake(waiter); err != nil {
		return err
	}
	for _, fd := range s.fromRings.FDs() {
		if err := waiter.AddFD(fd); err != nil {
			return err
		}
	}
	if err := s.introduce(); err != nil {
		return err
	}
	c := &collector{session: s, waiter: waiter, done: make(chan error, 1)}
	if err := s.begin(); err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { c.done <- c.run() })
	err = s.wait(c)
	disabled := s.disable()
	c.stop()
	running.Wait()
	if s.command != nil {
		s.endCommand()
	}
	if err == nil {
		err = c.result()
	}
	if err == nil {
		err = disabled
	}
	if err != nil {
		return err
	}
	return s.conclude()
}

// begin starts sampling and the command.
func (s *session) begin() error {
	waits := s.cfg.Delay > 0 || s.cfg.StartDisabled
	switch {
	case waits:
		s.cfg.Notify("Events disabled")
	case s.cfg.CommandIsTarget() && !s.samplesCPUs(): // enabled when it executes
		s.enabled = true
		if err := s.offCPU.enable(true); err != nil {
			return err
		}
	default:
		if err := s.enableAll(); err != nil {
			return err
		}
		s.cfg.Verbose("events are enabled")
	}
	if s.command == nil {
		return nil
	}
	if err := s.command.Exec(); err != nil {
		return err
	}
	s.exited = s.command.Exited()
	return nil
}

func (s *session) enableAll() error {
	s.enabled = true
	return s.enable(true)
}

func (s *session) disable() error {
	if !s.enabled {
		return nil
	}
	s.enabled = false
	return s.enable(false)
}

// wait returns when the recorded time is over.
func (s *session) wait(c *collector) error {
	var ended <-chan struct{}
	if s.command == nil && len(s.target.Threads) > 0 {
		var stop func()
		ended, stop = s.cfg.Target.Watch()
		defer stop()
	}
	over := make(chan struct{})
	defer close(over)
	cpus := s.cpuChanges(over)
	delay, timeout := after(s.cfg.Delay), after(s.cfg.Timeout)
	commands := s.cfg.Control.Commands()
	var rotate <-chan time.Time
	if s.cfg.Switch.Every > 0 {
		t := time.NewTicker(s.cfg.Switch.Every)
		defer t.Stop()
		rotate = t.C
	}
	for {
		select {
		case s.result.Command = <-s.exited:
			s.exited = nil
			return nil
		case s.result.Signal = <-s.cfg.Signals:
			return nil
		case <-timeout:
			s.cfg.Allowance.End()
			return nil
		case <-ended:
			return nil
		case err := <-c.done:
			c.done <- err
			return nil
		case change := <-cpus:
			s.followCPU(change, c.join)
		case <-delay:
			if err := s.enableAll(); err != nil {
				return err
			}
			s.cfg.Notify("Events enabled")
		case <-s.cfg.Switch.Requests:
			c.rotate()
		case <-rotate:
			c.rotate()
		case command, ok := <-commands:
			if !ok {
				commands = nil
				break
			}
			over, err := s.obey(command)
			if over || err != nil {
				return err
			}
		}
	}
}

// after is time.After, but never for no time.
func after(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return time.After(d)
}

// obey does what the control descriptor says.
func (s *session) obey(command control.Command) (over bool, err error) {
	switch command {
	case control.Enable:
		err = s.enableAll()
		s.cfg.Notify("Events enabled")
	case control.Disable:
		err = s.disable()
		s.cfg.Notify("Events disabled")
	case control.Stop:
		over = true
	}
	if err != nil {
		return false, err
	}
	return over, s.cfg.Control.Ack()
}

// endCommand ends a command that still runs: with the signal that the session got, or SIGTERM.
func (s *session) endCommand() {
	if s.exited == nil {
		return
	}
	status, next := s.command.End(cmp.Or(s.result.Signal, os.Signal(syscall.SIGTERM)), s.exited, s.cfg.Signals)
	s.result.Command, s.result.Signal, s.exited = status, cmp.Or(next, s.result.Signal), nil
}

// collector takes records from the rings to the file as they come, in a goroutine of its own.
type collector struct {
	*session
	waiter *perfevent.Waiter
	done   chan error
	work   sync.Mutex // held but for waiting: events may be opened only then

	mu       sync.Mutex
	stopping bool
	rotating bool
}

// idle is how long records stay in the rings at most, so that a file that is looked at, or cut off by a SIGKILL, has all but the last ones.
const idle = time.Second

func (c *collector) run() error {
	for {
		ready, err := c.waiter.Wait(c.patience())
		if err != nil {
			return err
		}
		if ready {
			c.session.result.Wakeups++
		}
		if over, err := c.step(); over || err != nil {
			return err
		}
	}
}

// step takes what is there.
func (c *collector) step() (over bool, err error) {
	c.work.Lock()
	defer c.work.Unlock()
	c.mu.Lock()
	stopping, rotating := c.stopping, c.rotating
	c.rotating = false
	c.mu.Unlock()
	if err := c.drain(); err != nil {
		return false, err
	}
	if stopping {
		return true, c.drainNewest()
	}
	if c.sumsDue() {
		if err := c.tellSums(false); err != nil {
			return false, err
		}
	}
	if rotating || c.cfg.Switch.Size > 0 && c.out.size() >= c.cfg.Switch.Size {
		return false, c.next()
	}
	return false, nil
}

// patience is how long to wait for records.
func (c *collector) patience() time.Duration {
	if c.cfg.Sums != nil && time.Now().Before(c.tasksUntil) {
		return tasksPoll
	}
	if c.cfg.Sums != nil {
		return c.cfg.Sums.Poll
	}
	return idle
}

// next goes on in a new file.
func (c *collector) next() error {
	if err := c.drainNewest(); err != nil {
		return err
	}
	if err := c.tellOffCPU(false); err != nil {
		return err
	}
	if err := c.out.next(); err != nil {
		return err
	}
	return c.introduce()
}

func (c *collector) stop() {
	c.mu.Lock()
	c.stopping = true
	c.mu.Unlock()
	c.waiter.Wake()
}

func (c *collector) rotate() {
	c.mu.Lock()
	c.rotating = true
	c.mu.Unlock()
	c.waiter.Wake()
}

// result is how it ended, after it has.
func (c *collector) result() error { return <-c.done }

// introduce tells of what is there already.
func (s *session) introduce() error {
	if err := s.introduceEvents(); err != nil {
		return err
	}
	before := snapshot.New("/proc", s.tell)
	before.Data, before.Namespaces = s.cfg.data(), s.cfg.Namespaces
	if !s.userOnly() {
		if err := before.Kernel(s.release()); errors.Is(err, snapshot.ErrHidden) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			s.cfg.Notify(err.Error())
		} else if err != nil {
			return err
		}
		if s.programs != nil {
			if err := s.introducePrograms(); err != nil {
				return err
			}
		}
	}
	if s.cfg.Cgroups {
		if err := before.Cgroups(); err != nil {
			return err
		}
	}
	if err := s.introduceProcesses(before); err != nil {
		return err
	}
	s.cfg.Verbose(fmt.Sprintf("%d processes were there", before.Processes))
	if err := s.settled(); err != nil {
		return err
	}
	return s.out.write(0, &perfdata.FinishedInit{})
}

// release is that of the kernel.
func (s *session) release() string {
	text, _ := s.machine[perfdata.FeatureOSRelease].(perfdata.Text)
	return string(text)
}

func (s *session) introduceProcesses(before *snapshot.Snapshot) error {
	switch {
	case s.cfg.CommandIsTarget() && s.out.files == 1: // what it has mapped goes when it executes the command
		pid := int32(s.command.PID())
		return s.tell(0, &perfdata.Comm{PID: pid, TID: pid, Comm: "bperf-exec"})
	case len(s.target.Threads) == 0:
		return before.AllProcesses()
	}
	var pids []int32
	for _, t := range s.target.Threads {
		pids = append(pids, int32(t.PID))
	}
	slices.Sort(pids)
	for _, pid := range slices.Compact(pids) {
		if err := before.Process(pid); err != nil {
			return err
		}
	}
	return nil
}

// addBuildID notes that a process has mapped a file.
func (s *session) addBuildID(name []byte, pid int32) {
	if !s.cfg.NoBuildIDs {
		s.builds.add(name, pid)
	}
}

// tell writes a record of what is there.
func (s *session) tell(misc perfdata.Misc, v perfdata.Value) error {
	switch m := v.(type) {
	case *perfdata.Mmap:
		s.addBuildID([]byte(m.Filename), m.PID)
	case *perfdata.Mmap2:
		if !m.Data {
			s.addBuildID([]byte(m.Filename), m.PID)
		}
	}
	if s.tally.task != nil {
		s.tally.tasks++
		s.tally.task(v)
	}
	return s.out.write(misc, v)
}

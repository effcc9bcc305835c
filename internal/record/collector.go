package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/record/host"
	"github.com/bperf/bperf/internal/record/snapshot"
	"github.com/bperf/bperf/perfdata"
)

// collector moves records from the rings to the output, in its own goroutine. While it runs, that goroutine owns the fields, except those that
// mutexes guard. Before and after, they belong to the goroutine of Run.
type collector struct {
	*sources // opened; work guards what changes while the collector runs
	writer
	builds   *buildIDs
	machine  host.Features
	programs *programs      // nil with Config.NoBPF, or without the privilege to see them
	modules  *moduleWatcher // nil without the privilege to see them
	sums     sumState
	newest   []byte // buffer for drainNewest
	waiter   *perfevent.Waiter
	ended    chan struct{} // is closed when run has returned
	work     sync.Mutex    // held except while the collector waits, so that join opens events only then
	requests requests
}

// requests are what other goroutines want from the collector.
type requests struct {
	sync.Mutex
	stop   bool
	rotate bool
}

// newCollector returns a collector, and starts the watchers whose records come from outside the rings.
func newCollector(s *sources) (*collector, error) {
	c := &collector{sources: s, ended: make(chan struct{})}
	if !c.userOnly() {
		var err error
		if c.modules, err = watchModules(&c.tracker.attr); err != nil {
			c.cfg.Verbose(fmt.Sprintf("Modules that are loaded from now on are not recorded: %v", err))
		}
	}
	if !c.cfg.NoBPF && !c.userOnly() {
		var err error
		if c.programs, err = watchPrograms(); err != nil {
			c.cfg.Verbose(fmt.Sprintf("BPF programs that are loaded from now on are recorded without their code: %v", err))
		}
	}
	c.builds = newBuildIDs("/proc", c.cfg.Allowance)
	mapped := c.builds.add
	if c.cfg.NoBuildIDs {
		mapped = func([]byte, int32) {}
	}
	c.tally = newTally(c.events[0].attr.SampleType, mapped)
	c.tally.buildIDs = c.cfg.MmapBuildID
	c.own = newOwnSamples(c.events)
	if c.unwinder != nil {
		c.unwinder.identify(c.events)
		c.tally.task = c.unwinder.Record
	}
	if c.cfg.Sums != nil { // nobody reads a header of the stream
		c.tally.task, c.machine = c.cfg.Sums.Task, host.System(os.DirFS("/"))
	} else {
		c.machine = host.Machine(os.DirFS("/"))
	}
	return c, c.describe(c.machine)
}

// close stops the watchers. c may be nil.
func (c *collector) close() {
	if c == nil {
		return
	}
	c.programs.close()
	c.modules.close()
	c.builds.close()
}

// listen lets the collector wake when a ring has records.
func (c *collector) listen() (err error) {
	if c.waiter, err = perfevent.NewWaiter(); err != nil {
		return err
	}
	for _, r := range c.order {
		if r.overwritten {
			continue
		}
		if err := c.waiter.Add(r.owner); err != nil {
			return err
		}
	}
	if err := c.modules.wake(c.waiter); err != nil {
		return err
	}
	if err := c.switches.listen(c.waiter); err != nil {
		return err
	}
	for _, fd := range c.fromRings.FDs() {
		if err := c.waiter.AddFD(fd); err != nil {
			return err
		}
	}
	return nil
}

// idle is the longest time that records stay in the rings. So a file that is read during the recording, or cut off by a SIGKILL, has all
// records except the last ones.
const idle = time.Second

func (c *collector) run() error {
	for {
		wait := c.waiter.Wait
		if c.patient() {
			wait = c.waiter.Park
		}
		ready, err := wait(c.patience())
		if err != nil {
			return err
		}
		if ready {
			c.tally.wakeups++
		}
		if over, err := c.step(); over || err != nil {
			return err
		}
	}
}

// step drains the rings and handles requests. It returns true at the end of the recording.
func (c *collector) step() (over bool, err error) {
	c.work.Lock()
	defer c.work.Unlock()
	stopping, rotating := c.requests.take()
	if err := c.drain(); err != nil {
		return false, err
	}
	if stopping {
		return true, c.drainNewest()
	}
	if c.sumsDue() {
		if err := c.writeSums(false); err != nil {
			return false, err
		}
	}
	if limit := c.cfg.MaxSize; limit > 0 && c.out.size() >= limit {
		c.cfg.Notify(fmt.Sprintf("[ %s: the file has reached the size of --max-size: %d bytes ]", c.cfg.Name, limit))
		return true, nil
	}
	occurred, err := c.switches.occurred()
	if err != nil {
		return false, err
	}
	if rotating || occurred || c.cfg.Switch.Size > 0 && c.out.size() >= c.cfg.Switch.Size {
		return false, c.next()
	}
	return false, nil
}

// patience returns the timeout of the wait for records.
func (c *collector) patience() time.Duration {
	if c.cfg.Sums != nil && time.Now().Before(c.sums.pollUntil) {
		return max(c.cfg.Sums.Patience, tasksPoll)
	}
	if c.cfg.Sums != nil {
		return c.cfg.Sums.Poll()
	}
	if c.unwinder != nil {
		return c.unwinder.patience(time.Now())
	}
	return idle
}

// patient reports whether little CPU time matters more than prompt reading.
func (c *collector) patient() bool { return c.cfg.Sums != nil && c.cfg.Sums.Patience > 0 }

// next continues in a new file.
func (c *collector) next() error {
	if err := c.drainNewest(); err != nil {
		return err
	}
	if err := c.writeOffCPU(false); err != nil {
		return err
	}
	task := c.tally.task
	c.tally.task = nil // it knows what is introduced again
	defer func() { c.tally.task = task }()
	if err := c.introduceAtEnd(); err != nil {
		return err
	}
	if err := c.out.next(); err != nil {
		return err
	}
	return c.introduce()
}

// take returns the requests. It clears rotate.
func (r *requests) take() (stop, rotate bool) {
	r.Lock()
	defer r.Unlock()
	rotate, r.rotate = r.rotate, false
	return r.stop, rotate
}

func (c *collector) stop() {
	c.requests.Lock()
	c.requests.stop = true
	c.requests.Unlock()
	c.waiter.Wake()
}

func (c *collector) rotate() {
	c.requests.Lock()
	c.requests.rotate = true
	c.requests.Unlock()
	c.waiter.Wake()
}

// report adds the collector's counts to a result. c may be nil.
func (c *collector) report(r *Result) {
	if c == nil {
		return
	}
	t := c.tally
	r.Samples, r.Throttled, r.Filtered, r.Missed = t.samples, t.throttled, t.filtered, t.missed
	r.Lost = max(t.lost, t.noRoom)
	r.Wakeups, r.Drained = t.wakeups, t.drained
	c.reportUnwound(r)
	if c.out == nil {
		return
	}
	r.Bytes, r.Original, r.Files, r.LastOutput = c.out.bytes, c.out.original, c.out.files, c.out.name
	if len(c.out.kept) > 0 {
		r.LastOutput = c.out.kept[len(c.out.kept)-1]
	}
}

// introduce writes the records of what exists already.
func (c *collector) introduce() error {
	if err := c.introduceEvents(); err != nil {
		return err
	}
	before := c.snapshot()
	if !c.userOnly() {
		if err := before.Kernel(c.release()); errors.Is(err, snapshot.ErrHidden) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			c.cfg.Notify(err.Error())
		} else if err != nil {
			return err
		}
		if c.programs != nil {
			if err := c.introducePrograms(); err != nil {
				return err
			}
		}
	}
	if err := c.introduceCommand(); err != nil {
		return err
	}
	if !c.cfg.Tail {
		if err := c.introduceTasks(before); err != nil {
			return err
		}
	}
	if err := c.learnTasks(); err != nil {
		return err
	}
	if err := c.settled(); err != nil {
		return err
	}
	return c.out.write(0, &perfdata.FinishedInit{})
}

// release returns the kernel's release.
func (c *collector) release() string {
	text, _ := c.machine[perfdata.FeatureOSRelease].(perfdata.Text)
	return string(text)
}

func (c *collector) snapshot() *snapshot.Snapshot {
	s := snapshot.New("/proc", c.emit)
	s.Data, s.Namespaces, s.NoMaps = c.cfg.data(), c.cfg.Namespaces, c.cfg.Existing.NoMaps
	if c.cfg.MmapBuildID {
		s.BuildID = func(name string, pid int32) []byte {
			id, _, _ := c.builds.read(mapped{name, pid})
			return id
		}
	}
	return s
}

// introduceCommand writes the name of the process that is going to execute the command.
func (c *collector) introduceCommand() error {
	if !c.newCommand() {
		return nil
	}
	pid := int32(c.target.Threads[0].PID)
	return c.emit(0, &perfdata.Comm{PID: pid, TID: pid, Comm: "bperf-exec"})
}

// newCommand reports whether the target is a command in the first file. Then the mappings of its process disappear when that executes the command.
func (c *collector) newCommand() bool { return c.cfg.CommandIsTarget() && c.out.files == 1 }

// introduceAtEnd writes the records of tasks at the end of a file, if they belong there.
func (c *collector) introduceAtEnd() error {
	if !c.cfg.Tail {
		return nil
	}
	return c.introduceTasks(c.snapshot())
}

// introduceTasks writes cgroups and processes.
func (c *collector) introduceTasks(s *snapshot.Snapshot) error {
	if c.cfg.Cgroups && !c.cfg.Existing.NoCgroups {
		if err := s.Cgroups(); err != nil {
			return err
		}
	}
	if c.cfg.Existing.NoTasks {
		return nil
	}
	if err := c.introduceProcesses(s); err != nil {
		return err
	}
	c.cfg.Verbose(fmt.Sprintf("%d processes were there", s.Processes))
	return nil
}

func (c *collector) introduceProcesses(before *snapshot.Snapshot) error {
	switch {
	case c.newCommand() && !c.cfg.Tail:
		return nil
	case len(c.target.Threads) == 0:
		return before.AllProcesses()
	}
	var pids []int32
	for _, t := range c.target.Threads {
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

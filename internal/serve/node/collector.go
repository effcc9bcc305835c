package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bperf/bperf/internal/count/process"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/serve/container"
)

const (
	fresh = time.Second // age up to which Read returns the last snapshot
	poll  = time.Second // between looks at which cgroups ran: one that is made and removed between two of them is not known by name
)

// Collector counts from Open to Close. It is safe for concurrent use.
type Collector struct {
	events events
	inside *inside // nil for nothing
	duty   Duty
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu       sync.Mutex       // guards all below
	counter  *process.Counter // nil after Close
	cgroups  *cgroups         // nil if there are no cgroups to count
	noCgroup string           // why
	programs programs
	last     *Snapshot
	failed   error // of the last look in the background; nil if it succeeded
}

// Open begins to count. It fails if the machine lets this process count nothing; an event that it cannot count has a reason in
// the snapshots. It needs what process.Open needs, and CAP_SYS_ADMIN for the statistics of BPF programs.
func Open(config Config) (*Collector, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	machine := event.Host()
	c := &Collector{events: parseEvents(machine, config.Events, refuseBeyond(config.Most)), duty: config.Duty}
	if c.inside, err = newInside(machine, config.Inside, config.Share); err != nil {
		return nil, err
	}
	if c.counter, err = process.Open(c.events.list, process.ByCgroup, process.Options{Dir: config.Share, OffCPU: true, CPUsOnly: config.NoContainers}); err != nil {
		return nil, err
	}
	for i, at := range c.events.at {
		if err := c.counter.Err(i); err != nil {
			c.events.all[at].Reason = err.Error()
		}
	}
	c.programs.ownTime = make(map[string]time.Duration)
	if c.programs.own, err = c.counter.Programs(); err != nil {
		return nil, errors.Join(err, c.counter.Close())
	}
	if config.NoContainers {
		c.noCgroup = GivenUp
	} else if c.cgroups, err = openCgroups(config.Dirs, config.Names, c.counter); err != nil {
		c.noCgroup = err.Error()
	}
	if _, err := c.Read(); err != nil {
		return nil, errors.Join(err, c.counter.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.ended.Go(func() { c.follow(ctx) })
	c.ended.Go(func() { c.measure(ctx) })
	if c.inside != nil {
		c.ended.Go(func() { c.inside.follow(ctx) })
	}
	return c, nil
}

// ErrClosed is the error of Read after Close.
var ErrClosed = errors.New("the collector is closed")

// Read returns the counts up to now, or up to at most a second ago: many readers cost no more than one.
func (c *Collector) Read() (*Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counter == nil {
		return nil, ErrClosed
	}
	now := time.Now()
	if c.last != nil && now.Sub(c.last.Time) < fresh {
		return c.last, nil
	}
	s, err := c.read(now)
	if err != nil {
		return nil, err
	}
	c.last = s
	return s, nil
}

// Container returns the container, or else the unit, that a cgroup belongs to, or false if there is none or it is not known.
func (c *Collector) Container(cgroup uint64) (container.Name, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counter == nil || c.cgroups == nil {
		return container.Name{}, false
	}
	of, known := c.cgroups.find(cgroup)
	if !known || of == nil {
		return container.Name{}, false
	}
	return of.Name, true
}

// Close ends counting. It returns the error of the last look in the background too, if that failed.
func (c *Collector) Close() error {
	c.cancel()
	c.ended.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counter == nil {
		return nil
	}
	err := errors.Join(c.failed, c.counter.Close())
	c.counter, c.last = nil, nil
	if c.inside != nil {
		err = errors.Join(err, c.inside.close())
	}
	return err
}

// follow looks which cgroups ran, so that those that do not exist for long are known by name.
func (c *Collector) follow(ctx context.Context) {
	every := time.NewTicker(poll)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-every.C:
			c.mu.Lock()
			c.failed = c.look(now)
			c.mu.Unlock()
		}
	}
}

// look does not read the counters of CPUs, which would interrupt each of them.
func (c *Collector) look(now time.Time) error {
	if c.cgroups == nil {
		return nil
	}
	sums, err := c.counter.Sums()
	if err == nil {
		err = c.cgroups.update(now, sums)
	}
	return err
}

// read reads everything.
func (c *Collector) read(now time.Time) (*Snapshot, error) {
	r, err := c.counter.Read()
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Time: now, Events: c.events.all, NoContainers: c.noCgroup, Losses: []Loss{
		{"cgroup_switches", r.LostSwitches}, {"cgroup_nanoseconds", uint64(r.LostTime)}, {"offcpu_switches", r.LostOff}}}
	if c.cgroups != nil {
		if err := c.cgroups.update(now, r.Sums); err != nil {
			s.NoContainers = err.Error()
		}
		s.Containers = c.cgroups.containers(&c.events)
		s.Losses = append(s.Losses, c.cgroups.losses()...)
	}
	if s.CPUs, err = c.readCPUs(); err != nil {
		return nil, err
	}
	if err := c.counter.Apart(); err != nil {
		s.NotShared = err.Error()
	}
	s.Programs, s.NoPrograms = c.programs.list(), c.programs.reason()
	if c.inside != nil {
		if err := c.inside.read(s); err != nil {
			return nil, err
		}
	}
	s.Self, err = c.self()
	return s, err
}

// Self returns the cost of this process. It is cheaper than Read.
func (c *Collector) Self() (Self, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.self()
}

// GiveUpInside gives up counting inside BPF programs, or takes it up again within some seconds.
func (c *Collector) GiveUpInside(up bool) error {
	if c.inside == nil {
		return nil
	}
	return c.inside.give(up)
}

// Counted returns the number of events that are counted.
func (c *Collector) Counted() int { return len(c.events.list) }

// Switches reports whether something runs at context switches, to count for containers.
func (c *Collector) Switches() bool { return c.noCgroup != GivenUp }

// self returns the cost of this process.
func (c *Collector) self() (Self, error) {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return Self{}, fmt.Errorf("read the CPU time of this process: %w", err)
	}
	status, err := procfs.ReadStatus(os.DirFS("/proc"), "self")
	if err != nil {
		return Self{}, err
	}
	var bytes [3]uint64
	for i, field := range []string{"VmRSS", "RssAnon", "RssShmem"} { // the last two since Linux 4.5
		kilobytes, err := strconv.ParseUint(strings.TrimSuffix(status.Field(field), " kB"), 10, 64)
		if err != nil {
			return Self{}, fmt.Errorf("read the memory of this process: %s of /proc/self/status: %w", field, err)
		}
		bytes[i] = kilobytes << 10
	}
	s := Self{CPUTime: time.Duration(use.Utime.Nano() + use.Stime.Nano()), Memory: bytes[0], Unfiled: bytes[1] + bytes[2],
		Window: c.programs.window, PerSwitch: c.programs.perSwitch}
	s.Programs = maps.Clone(c.programs.ownTime)
	return s, nil
}

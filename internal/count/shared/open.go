package shared

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/target"
)

// The modes of the lock.
const (
	lookOnly = syscall.LOCK_SH
	alone    = syscall.LOCK_EX
)

// Where selects the sessions to share counters with.
type Where struct {
	Dir     string     // for sessions of bperf: a directory in bpffs, which Open makes; usually Dir
	AttrMap string     // for sessions of upstream perf: their pinned map, usually upstream.DefaultPath; empty to ignore them
	Lead    bool       // start leaders that sessions of upstream perf can follow, and make AttrMap
	Unled   bool       // never use a leader of upstream perf, which counts in its own maps
	Types   *btf.Cache // the kernel's types, if the caller also needs them; nil to decode them
	Target  string     // the target for `bperf counters`; empty for a description of the Target
}

// Options are the options of a Counter.
type Options struct {
	count.Options
	PerThread bool // a separate cell for each thread of the target
}

// Open joins the sessions that share counters, or starts the first one, and counts the events of a list for a target. Counting starts
// with Enable, or with EnableOnExec when the command is executed. Members of a group are shared one by one. As long as nothing is
// multiplexed, which is the purpose of sharing, the counts are the same as those of a group.
//
// Err returns why this machine cannot count an event. Even if it can count none, the session leaves nothing behind.
// Open keeps no descriptors of the target's cgroups.
func Open(where Where, list event.List, t target.Target, o Options) (*Counter, error) {
	c := &Counter{plan: plan{where: where, target: t, options: o, units: len(t.Threads)+len(t.Cgroups) > 0},
		reader: reader{followed: make(followers)}, joined: make(map[int]bool)}
	var err error
	if c.uevents, err = target.ListenForCPUs(); err != nil {
		return nil, err
	}
	if c.dir, err = openDirectory(where.Dir); err != nil {
		return nil, errors.Join(err, c.uevents.Close())
	}
	unlock, err := c.dir.lock(alone)
	if err != nil {
		return nil, errors.Join(err, c.dir.close(), c.uevents.Close())
	}
	defer unlock()
	if err := c.open(list); err != nil {
		return nil, errors.Join(err, c.abandon(), c.uevents.Close())
	}
	c.o.types = nil
	go c.followCPUs(c.uevents)
	return c, nil
}

// abandon removes everything of a session that could not be opened. The caller holds the lock.
func (c *Counter) abandon() error {
	if c.o == nil {
		return c.dir.close()
	}
	return errors.Join(c.leaveLocked(), c.o.close(), c.followed.close(), c.dir.close())
}

func (c *Counter) open(list event.List) error {
	var err error
	if c.cgroupV1, err = target.PerfCgroupsAreV1(); err != nil {
		return err
	}
	if c.cpus, err = c.allCPUs(); err != nil {
		return err
	}
	known, err := c.dir.load()
	if err == nil {
		c.o, err = connect(known, c.where.Types)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if c.o, err = create(c.cgroupV1, c.where.Types); err == nil {
			err = c.dir.store(c.o.ids)
		}
	}
	if err != nil {
		return err
	}
	attached := c.o.openLinks()
	b, err := openBook(c.o)
	if err != nil {
		return err
	}
	if err := b.sweep(); err != nil {
		return err
	}
	if c.token, err = newToken(c.description()); err != nil {
		return err
	}
	if c.session, err = b.enter(c.token); err != nil {
		return err
	}
	if err := c.openEvents(b, list); err != nil {
		return err
	}
	c.cells = c.cellsOf(c.events)
	c.base, c.now = make([]perfevent.Reading, len(c.cells)), make([]perfevent.Reading, len(c.cells))
	switch {
	case len(c.cells) == 0:
		return nil // Err returns the reasons
	case !c.units:
		if err := c.o.closeLinks(); err != nil {
			return err
		}
		c.lost, err = readLost(c.o)
		return err
	case !attached:
		if err := c.attach(b); err != nil {
			return err
		}
	}
	if err := b.claim(c.session, &c.plan); err != nil {
		return err
	}
	online, err := procfs.OnlineCPUs()
	if err != nil {
		return err
	}
	if err := c.followed.run(online); err != nil {
		return err
	}
	if c.lost, err = readLost(c.o); err != nil {
		return err
	}
	c.enabled = c.options.EnableOnExec
	return c.readUnits(c.base)
}

// attach attaches the hooks if no other session counts tasks or cgroups.
func (c *Counter) attach(b *book) error {
	if err := b.reset(); err != nil {
		return err
	}
	if err := c.o.attach(c.cgroupV1); err != nil {
		return err
	}
	return c.dir.store(c.o.ids)
}

// openEvents finds or opens the perf events and enters them in the session.
func (c *Counter) openEvents(b *book, list event.List) error {
	s, err := readSlots(c.o)
	if err != nil {
		return err
	}
	opener := opener{&c.plan, s, c.followed}
	for _, e := range list.Events() {
		counted, err := opener.openEvent(e)
		if err != nil {
			return err
		}
		c.events = append(c.events, counted)
	}
	c.session.events = c.supported()
	if err := b.putSession(c.session); err != nil {
		return err
	}
	return b.settleEvents(s)
}

// leave takes the lock and ends the session.
func (c *Counter) leave() error {
	unlock, err := c.dir.lock(alone)
	if err != nil {
		return err
	}
	defer unlock()
	return c.leaveLocked()
}

func (c *Counter) leaveLocked() error {
	if c.token != nil {
		defer c.token.Close()
	}
	b, err := openBook(c.o)
	if err != nil {
		return err
	}
	if c.o.links == nil {
		if known, err := c.dir.load(); err == nil {
			c.o.ids = known
		}
		c.o.openLinks()
	}
	if c.session.number != 0 {
		err = b.leave(c.session)
	} else {
		err = b.sweep()
	}
	if err == nil && len(b.live) == 0 {
		err = c.dir.remove()
	}
	return err
}

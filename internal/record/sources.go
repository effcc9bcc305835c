package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/count/direct"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/record/chains"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/internal/userprog"
	"github.com/bperf/bperf/perfdata"
)

// sources are the open events of a recording, and their rings.
type sources struct {
	*plan
	target    target.Target
	rings     map[ringKey]*ring
	order     []*ring   // of rings, in the order in which they were opened
	offCPU    *offCPU   // nil without Config.OffCPU
	unwinder  *unwinder // nil if no event is unwound
	switches  switchEvents
	fromRings *userprog.Rings // the user's maps of type RINGBUF
	enabled   bool
	later     bool // events are opened on a CPU that came online during the recording
}

// scope is where an event is opened: on a CPU, for a thread, or for a thread on a CPU.
type scope struct {
	cpu int // perfevent.AnyCPU for all
	tid int // perfevent.AnyThread for all
}

// open opens all events, disabled except for the dummy.
func (s *sources) open() error {
	scopes, err := s.locate(s.target)
	if err != nil {
		return err
	}
	perfevent.ReserveFiles(len(s.events) * len(scopes))
	if err := s.openEverywhere(); err != nil {
		return err
	}
	cpus, err := s.follow()
	if err != nil {
		return err
	}
	for _, o := range s.events {
		if !o.kind.onTarget() {
			continue
		}
		at := scopes
		if s.onCPUs(o) {
			at = cpus
		}
		if err := s.openEvent(o, at); err != nil {
			return err
		}
	}
	if err := s.openOffCPU(); err != nil {
		return err
	}
	if err := s.openOutputs(); err != nil {
		return err
	}
	if err := s.openChains(); err != nil {
		return err
	}
	if err := s.openRings(); err != nil {
		return err
	}
	if err := s.openSwitchEvents(); err != nil {
		return err
	}
	if s.cfg.CommandIsTarget() || len(s.target.Threads) == 0 {
		return s.finishOpening()
	}
	for range 10 { // for threads that were started by threads whose events were not open yet
		again, err := s.cfg.Target.Resolve()
		if err != nil {
			break // all have ended; finishOpening or the recording notices it
		}
		fresh := missing(again, s.target)
		if len(fresh.Threads) == 0 {
			break
		}
		scopes, err := s.locate(fresh)
		if err != nil {
			return err
		}
		for _, o := range s.events {
			if !o.kind.onTarget() || s.onCPUs(o) {
				continue
			}
			if err := s.openEvent(o, scopes); err != nil {
				return err
			}
		}
		if err := s.offCPU.follow(fresh.Threads); err != nil {
			return err
		}
		s.target.Threads = append(s.target.Threads, fresh.Threads...)
	}
	return s.finishOpening()
}

// onCPUs reports whether an event is opened on CPUs although the target is threads.
func (s *sources) onCPUs(o *opened) bool { return s.samplesCPUs() && s.summed(o) }

// follow makes Sums keep only samples of the target if the events are opened on CPUs, and returns the scopes of the CPUs.
func (s *sources) follow() ([]scope, error) {
	if !s.samplesCPUs() {
		return nil, nil
	}
	var pids []int
	for _, t := range s.target.Threads {
		pids = append(pids, t.PID)
	}
	if err := s.cfg.Sums.Follow(pids); err != nil {
		return nil, err
	}
	online, err := procfs.OnlineCPUs()
	if err != nil {
		return nil, err
	}
	return s.locate(target.Target{CPUs: online})
}

// programRecords are the flags that ask for the records of BPF programs.
const programRecords = perfdata.AttrKSymbol | perfdata.AttrBPFEvent

// openEverywhere opens the dummy on all CPUs for the records of all BPF programs that are loaded or unloaded, not just by the target: the target's
// samples may be in programs of other processes. Without the privilege for that, the recording only has the programs that the target loads.
func (s *sources) openEverywhere() error {
	if s.cfg.NoBPF || s.userOnly() || len(s.target.Threads) == 0 && s.cfg.Target.CPUs == nil {
		return nil
	}
	online, err := procfs.OnlineCPUs()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(s.events, func(o *opened) bool { return o.kind.dummy() })
	o := s.events[at]
	attr := o.attr
	attr.Flags &^= tracking | perfdata.AttrInherit | perfdata.AttrDisabled | perfdata.AttrEnableOnExec
	attr.Flags |= programRecords
	for _, cpu := range online {
		at := scope{cpu, perfevent.AnyThread}
		fd, err := perfevent.Open(&attr, perfevent.Where{Thread: at.tid, CPU: at.cpu})
		if err != nil {
			s.cfg.Verbose(fmt.Sprintf("Samples in BPF programs that others load from now on have no names: watch CPU %d: %v", cpu, err))
			break
		}
		if err := s.attach(o, fd, at); err != nil {
			return err
		}
	}
	if len(o.fds) == len(online) {
		s.tracker.attr.Flags &^= programRecords // else there would be two records of each
	} else if o.kind == bpfLoads && len(o.fds) == 0 {
		s.events = slices.Delete(s.events, at, at+1)
	}
	return nil
}

// missing returns a target with the threads of t that has lacks.
func missing(t, has target.Target) target.Target {
	known := make(map[int]bool)
	for _, thread := range has.Threads {
		known[thread.TID] = true
	}
	var fresh target.Target
	for _, thread := range t.Threads {
		if !known[thread.TID] {
			fresh.Threads = append(fresh.Threads, thread)
		}
	}
	return fresh
}

// locate returns the scopes in which the events of a target are opened.
func (s *sources) locate(t target.Target) ([]scope, error) {
	var scopes []scope
	switch {
	case s.cfg.PerThread:
		for _, thread := range t.Threads {
			scopes = append(scopes, scope{perfevent.AnyCPU, thread.TID})
		}
	case len(t.Threads) > 0:
		online, err := procfs.OnlineCPUs()
		if err != nil {
			return nil, err
		}
		for _, cpu := range online {
			for _, thread := range t.Threads {
				scopes = append(scopes, scope{cpu, thread.TID})
			}
		}
	default:
		for _, cpu := range t.CPUs {
			scopes = append(scopes, scope{cpu, perfevent.AnyThread})
		}
	}
	return scopes, nil
}

// openEvent opens an event in some scopes. If the kernel or the CPU refuses it, relax asks for less.
func (s *sources) openEvent(o *opened, scopes []scope) error {
	cgroup := -1
	if o.cgroup != "" {
		dir, err := s.openCgroup(o.cgroup)
		if err != nil {
			return err
		}
		defer dir.Close()
		cgroup = int(dir.Fd())
	}
	for i := 0; i < len(scopes); i++ {
		at := scopes[i]
		if o.event.CPUs != nil && at.cpu != perfevent.AnyCPU && !slices.Contains(o.event.CPUs, at.cpu) {
			continue
		}
		where := perfevent.Where{Thread: at.tid, CPU: at.cpu, Leader: o.leaderAt(at)}
		if cgroup >= 0 {
			where.Cgroup, where.UseCgroup = cgroup, true
		}
		s.prepareSums(o)
		fd, err := perfevent.Open(&o.attr, where)
		switch {
		case err == nil:
			if err := s.attach(o, fd, at); err != nil {
				return err
			}
		case where.Gone(err):
		default:
			if !s.relax(o, err) {
				return s.explain(o, at, err)
			}
			i-- // retry
		}
	}
	return nil
}

// leaderAt returns the leader of the event's group in a scope; nil for leaders.
func (o *opened) leaderAt(at scope) *perfevent.Event {
	if o.leader == o {
		return nil
	}
	for i, scope := range slices.Backward(o.leader.scopes) { // the newest first: a CPU may have come back
		if scope == at {
			return o.leader.fds[i]
		}
	}
	return nil
}

// relax drops a part of an event's attributes after the kernel has refused them. It returns false if there is nothing left to drop.
// Events that are open already stay open, because a kernel that accepts an event on one CPU accepts it on the others.
func (s *sources) relax(o *opened, err error) bool {
	a := &o.attr
	precise := a.Flags & (perfdata.AttrPreciseIP1 | perfdata.AttrPreciseIP2)
	if o.event.MostPrecise && precise != 0 && !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EPERM) {
		a.Flags = a.Flags&^precise | (precise - perfdata.AttrPreciseIP1) // bit 1 is the lower one
		return true
	}
	switch err {
	case syscall.EINVAL:
		if a.ReadFormat&perfdata.ReadLost != 0 { // before Linux 6.0; on an attribute that is wrong otherwise it does no harm
			for _, other := range s.events {
				other.attr.ReadFormat &^= perfdata.ReadLost
			}
			return true
		}
		if a.Has(perfdata.AttrBuildID) {
			s.cfg.Notify("The kernel puts no build IDs into records of mappings (Linux 5.12 does): they are at the end of the recording")
			a.Flags &^= perfdata.AttrBuildID
			return true
		}
		if a.Has(perfdata.AttrExcludeGuest) && !strings.Contains(o.event.Name, ":") {
			a.Flags &^= perfdata.AttrExcludeGuest
			return true
		}
	case syscall.ENOENT, syscall.ENXIO, syscall.ENODEV, syscall.EOPNOTSUPP:
		if isCycles(a) && len(o.fds) == 0 {
			s.cfg.Notify("The event cycles is not supported here (no PMU): recording cpu-clock in its place")
			a.Type, a.Config = perfdata.TypeSoftware, perfdata.SoftwareCPUClock
			renamed := *o.event
			renamed.Name = "cpu-clock" + strings.TrimPrefix(strings.TrimPrefix(renamed.Name, "cpu-cycles"), "cycles")
			renamed.Name = strings.TrimSuffix(renamed.Name, ":P")
			renamed.MostPrecise = false
			o.event = &renamed
			return true
		}
	case syscall.EACCES, syscall.EPERM:
		e := *o.event
		e.Attr.Flags = a.Flags
		if restricted := e.InUserMode(); restricted != nil && procfs.PerfEventParanoid(os.DirFS("/proc")) > 1 {
			o.event, a.Flags = restricted, restricted.Attr.Flags
			return true
		}
	}
	return false
}

func isCycles(a *perfdata.Attr) bool { return a.Type == perfdata.TypeHardware && a.Config == 0 }

// explain adds to an error of opening an event what to do about it.
func (s *sources) explain(o *opened, at scope, err error) error {
	var full *perfevent.LimitError
	if errors.As(err, &full) {
		return fmt.Errorf("%w. Raise the limit (ulimit -n), or record fewer threads or events", err)
	}
	const pages = perfdata.SampleDataPageSize | perfdata.SampleCodePageSize
	switch {
	case err == syscall.EINVAL && o.attr.SampleType&pages != 0 && s.cfg.Sums == nil:
		return fmt.Errorf("%s: %w. Page sizes need Linux 5.11: on an older kernel, leave out --data-page-size and --code-page-size", o.event.Name, err)
	case err == syscall.EOPNOTSUPP && o.attr.BranchSampleType != 0:
		return fmt.Errorf("%s: this CPU does not record branches for it: %w. Leave out -b, -j and --call-graph lbr, "+
			"or record an event of a PMU that does", o.event.Name, err)
	case err == syscall.EOPNOTSUPP && o.attr.Type == perfdata.TypeHardware, err == syscall.EINVAL && o.attr.SampleType&unusual != 0:
		options := "-d, -W and --phys-data"
		if s.cfg.Sums != nil {
			options = "the keys phys_addr, data_src and weight of --by, and the fields of --filter that need them"
		}
		return fmt.Errorf("%s: the kernel or the PMU does not take what is to be sampled with it: %w. Try without %s", o.event.Name, err, options)
	}
	if most := o.attr.SampleMaxStack; err == syscall.EOVERFLOW && most > 0 {
		return fmt.Errorf("%s: max-stack=%d is more than the kernel is set to record (kernel.perf_event_max_stack of sysctl(8)): %w", o.event.Name, most, err)
	}
	const monotonic, monotonicRaw = 1, 4
	if c := s.cfg.ClockID; err == syscall.EINVAL && c != nil && *c != monotonic && *c != monotonicRaw {
		return fmt.Errorf("%s: the kernel has no time of the clock of -k for it: %w. In interrupts that nothing can hold up, it can read "+
			"monotonic and monotonic_raw alone", o.event.Name, err)
	}
	e := *o.event
	e.Attr = o.attr
	reason, fatal := direct.Explain(&e, at.tid, at.cpu, s.target, count.Options{AllUser: s.cfg.AllUser, AllKernel: s.cfg.AllKernel}, err)
	if fatal != nil {
		return fatal
	}
	return reason
}

const unusual = perfdata.SamplePhysAddr | perfdata.SampleDataSrc | perfdata.SampleWeightStruct

func (s *sources) openCgroup(name string) (*os.File, error) {
	for _, c := range s.target.Cgroups {
		if c.Name == name {
			return os.Open(c.Path)
		}
	}
	return nil, fmt.Errorf("cgroup %s: %w", name, fs.ErrNotExist)
}

// attach keeps what was opened, and directs its records to the ring of its scope.
func (s *sources) attach(o *opened, fd *perfevent.Event, at scope) error {
	o.fds, o.scopes = append(o.fds, fd), append(o.scopes, at)
	if err := s.setFilter(o, fd); err != nil {
		return err
	}
	if s.summed(o) {
		if err := s.cfg.Sums.Attach(slices.Index(s.events, o), fd); err != nil {
			return fmt.Errorf("%s: %w", o.event.Name, err)
		}
	}
	if o.unwound && o.filter == nil { // a filter calls the program itself
		if err := s.unwinder.Attach(fd); err != nil {
			return fmt.Errorf("%s: %w", o.event.Name, err)
		}
	}
	id, err := fd.ID()
	if err != nil {
		return fmt.Errorf("ask for the ID of %s: %w", o.event.Name, err)
	}
	known := id
	if s.later {
		known = o.knownID(at.cpu)
		o.later++
	}
	o.ids = append(o.ids, known)
	key := ringKey{at, s.overwritten(o), o.kind == offCPUSamples, s.unwinds && o.kind == sideBand}
	if at.cpu != perfevent.AnyCPU {
		key.tid = perfevent.AnyThread
	}
	r := s.rings[key]
	if r == nil {
		r, err = s.openRing(fd, key)
	} else if err = fd.SetOutput(r.owner); err != nil {
		err = fmt.Errorf("let %s share a ring buffer: %w", o.event.Name, err)
	}
	if err != nil || !s.later {
		return err
	}
	if r.later == nil {
		r.later = make(map[uint64]uint64)
	}
	r.later[id] = known
	return nil
}

// openRing maps the ring of a scope.
func (s *sources) openRing(fd *perfevent.Event, key ringKey) (*ring, error) {
	mapping := fd.Map
	if key.overwritten {
		mapping = fd.MapOverwritten
	}
	size := s.ringSize
	if key.tasks {
		size = min(size, mostTasks)
	}
	mapped, err := mapping(order(size))
	if err != nil {
		return nil, fmt.Errorf("map a ring buffer of %d pages: %w. Allow more locked memory (sysctl kernel.perf_event_mlock_kb, or ulimit -l), "+
			"or take fewer pages with -m", size/os.Getpagesize(), err)
	}
	r := &ring{Ring: mapped, owner: fd, overwritten: key.overwritten, offCPU: key.offCPU}
	if s.unwinds && !key.tasks && !key.offCPU {
		r.chains = &chains.Ring{}
	}
	s.rings[key] = r
	s.order = append(s.order, r)
	return r, nil
}

func (p *plan) overwritten(o *opened) bool {
	return p.cfg.Overwrite && (o.kind == sampled || o.kind == userChains)
}

func (s *sources) setFilter(o *opened, fd *perfevent.Event) error {
	if o.filter != nil {
		return o.filter.attach(o, fd)
	}
	if err := o.event.SetFilter(fd); err != nil {
		return &FilterError{err}
	}
	return nil
}

// finishOpening returns an error if an event was not opened at all.
func (s *sources) finishOpening() error {
	if !s.cfg.NoBPF {
		s.tracker.attr.Flags |= programRecords // even if the dummy asks for them, the attributes in the file show that it has the records
	}
	for _, o := range s.events {
		if len(o.fds) > 0 {
			continue
		}
		if len(s.target.Threads) > 0 {
			return errors.New("all processes and threads that were to be recorded have ended")
		}
		return fmt.Errorf("%s: none of the CPUs %s counts it", o.event.Name, procfs.FormatCPUList(s.target.CPUs))
	}
	return nil
}

// enabledByExec enables off-CPU time. The kernel enables the other events when it executes the command.
func (s *sources) enabledByExec() error {
	s.enabled = true
	return s.offCPU.enable(true)
}

// enable starts all events, or stops them if they were started.
func (s *sources) enable(on bool) error {
	if !on && !s.enabled {
		return nil
	}
	s.enabled = on
	if err := s.offCPU.enable(on); err != nil {
		return err
	}
	for _, o := range s.events {
		if !o.switched() {
			continue
		}
		for _, fd := range o.fds {
			err := fd.Disable()
			if on {
				err = fd.Enable()
			}
			if err != nil {
				return fmt.Errorf("start or stop %s: %w", o.event.Name, err)
			}
		}
	}
	return nil
}

// switched reports whether enable starts and stops an event. The others run all the time, so that the file has all records of tasks and memory.
func (o *opened) switched() bool {
	return o.leader == o && o.kind == sampled
}

// close closes what is open. s may be nil.
func (s *sources) close() {
	if s == nil {
		return
	}
	s.offCPU.close()
	s.fromRings.Close()
	s.switches.close()
	for _, r := range s.order {
		r.Close()
	}
	for _, o := range s.events {
		for _, fd := range o.fds {
			fd.Close()
		}
		o.filter.close()
	}
	s.unwinder.close()
	s.order, s.rings = nil, nil
}

// openOutput opens an event that BPF programs write to, on all CPUs for any target: programs may write on any CPU. output lets them write to
// the event's descriptor on a CPU.
func (s *sources) openOutput(o *opened, output func(cpu, fd int) error) error {
	online, err := procfs.OnlineCPUs()
	if err != nil {
		return err
	}
	var scopes []scope
	for _, cpu := range online {
		scopes = append(scopes, scope{cpu, perfevent.AnyThread})
	}
	if err := s.openEvent(o, scopes); err != nil {
		return err
	}
	for i, fd := range o.fds {
		if err := output(o.scopes[i].cpu, fd.FD()); err != nil {
			return err
		}
	}
	return nil
}

package offcpu

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/kernel"
)

// Selection selects the threads that are measured: those that match all of its conditions.
type Selection struct {
	ByThread bool       // only threads that Switches.Add has added
	Inherit  bool       // with ByThread: also the threads that they start
	CPUs     []int      // only on these CPUs; nil for all
	Cgroups  []*os.File // only in or below these cgroup2 directories; nil for all
}

// MaxCgroups is the largest number of cgroups in a Selection, as in blocked.h.
const MaxCgroups = 64

// Prepare sets the constants and map sizes of programs that include blocked.h, before they are loaded. types caches the running kernel's BTF.
func (o *Selection) Prepare(spec *ebpf.CollectionSpec, types *btf.Cache) error {
	if len(o.Cgroups) > MaxCgroups {
		return fmt.Errorf("off-CPU time is measured for at most %d cgroups, not %d", MaxCgroups, len(o.Cgroups))
	}
	possible, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	hasState, err := kernel.SwitchHasState(types)
	if err != nil {
		return err
	}
	spec.Maps[offcpuMapCpus].MaxEntries = uint32(possible)
	return errors.Join(
		spec.Variables[offcpuVarHasPrevState].Set(hasState),
		spec.Variables[offcpuVarOnlyThreads].Set(o.ByThread),
		spec.Variables[offcpuVarOnlyCpus].Set(o.CPUs != nil),
		spec.Variables[offcpuVarNrCgroups].Set(uint32(len(o.Cgroups))))
}

// Switches are attached BPF programs that include blocked.h. They are not safe for concurrent use.
type Switches struct {
	Enabling, Enabled func() error // Enable calls them before and after it starts measuring; may be nil

	objects *ebpf.Collection
	links   []link.Link
}

// Attach attaches the named programs of objects, which was loaded after Prepare. They measure nothing before Enable.
func (o *Selection) Attach(objects *ebpf.Collection, programs ...string) (*Switches, error) {
	s := &Switches{objects: objects}
	if err := s.attach(o, programs); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Switches) attach(o *Selection, programs []string) error {
	for _, cpu := range o.CPUs {
		if err := s.objects.Maps[offcpuMapCpus].Put(uint32(cpu), uint8(1)); err != nil {
			return fmt.Errorf("measure off-CPU time on CPU %d: %w", cpu, err)
		}
	}
	for i, dir := range o.Cgroups {
		if err := s.objects.Maps[offcpuMapCgroups].Put(uint32(i), uint32(dir.Fd())); err != nil {
			return fmt.Errorf("measure off-CPU time in the cgroup %s: %w. It has to be one of cgroup2", dir.Name(), err)
		}
	}
	if o.ByThread && o.Inherit {
		programs = append(programs, offcpuProgOnNewtask)
	}
	for _, name := range programs {
		l, err := link.AttachTracing(link.TracingOptions{Program: s.objects.Programs[name]})
		if err != nil {
			return explain("attach the BPF program "+name, err)
		}
		s.links = append(s.links, l)
	}
	return nil
}

// Add adds a thread to the threads that are measured with Selection.ByThread.
func (s *Switches) Add(tid int) error {
	err := s.objects.Maps[offcpuMapTargets].Put(uint32(tid), uint8(1))
	if errors.Is(err, syscall.E2BIG) {
		return fmt.Errorf("off-CPU time is measured of at most %d threads, or of all: %w", s.objects.Maps[offcpuMapTargets].MaxEntries(), err)
	}
	if err != nil {
		return fmt.Errorf("measure off-CPU time of thread %d: %w", tid, err)
	}
	return nil
}

// Enable starts or stops measuring. A thread that is blocked when measuring stops is still measured until it runs again.
func (s *Switches) Enable(on bool) error {
	if on && s.Enabling != nil {
		if err := s.Enabling(); err != nil {
			return err
		}
	}
	if err := s.objects.Variables[offcpuVarEnabled].Set(on); err != nil {
		return fmt.Errorf("start or stop measuring off-CPU time: %w", err)
	}
	if on && s.Enabled != nil {
		return s.Enabled()
	}
	return nil
}

// LostTargets returns the number of started threads that are not measured, because the map of threads is full.
func (s *Switches) LostTargets() (n uint64, err error) {
	if err := s.objects.Variables[offcpuVarLostTargets].Get(&n); err != nil {
		return 0, fmt.Errorf("read how many threads there was no room for: %w", err)
	}
	return n, nil
}

// missed returns the number of program runs that the kernel skipped.
func (s *Switches) missed() (n uint64, err error) {
	for name, p := range s.objects.Programs {
		stats, err := p.Stats()
		if err != nil {
			return 0, fmt.Errorf("read how often the BPF program %s was not run: %w", name, err)
		}
		n += stats.RecursionMisses
	}
	return n, nil
}

// Detach detaches the programs. When it returns, none is running any more.
func (s *Switches) Detach() error {
	if err := s.Close(); err != nil {
		return err
	}
	return kernel.WaitForBPF()
}

// Close detaches the programs. It does not close the objects, which belong to the caller of Attach. s may be nil.
func (s *Switches) Close() error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, l := range s.links {
		errs = append(errs, l.Close())
	}
	s.links = nil
	return errors.Join(errs...)
}

// explain adds the missing privileges to a permission error.
func explain(what string, err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%s: %w. %s", what, err, kernel.Remedy("Run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN"))
	}
	return fmt.Errorf("%s: %w", what, err)
}

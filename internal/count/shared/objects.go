package shared

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/count/direct"
	"github.com/bperf/bperf/internal/kernel"
)

// mapNames has the names of the maps that all sessions have open.
var mapNames = [...]string{
	countersMapEvents, countersMapCpus, countersMapStarts, countersMapTasks, countersMapCgroups, countersMapCgroupCache,
	countersMapNodes, countersMapSums, countersMapSystems, mapState, mapFilter, countersMapLost, countersMapSessions, countersMapSlots,
}

// The sections of global variables are maps, too.
const (
	mapState  = ".data.state"
	mapFilter = ".bss"
)

// programNames has the names of the programs that sessions run themselves.
var programNames = [...]string{countersProgSync, countersProgFind, countersProgMoveTask}

// hookNames has the names of the hooks. The first one counts.
var hookNames = [...]string{countersProgOnSwitch, countersProgOnNewtask, countersProgOnExit, countersProgOnFree,
	countersProgOnRename, countersProgOnAttach}

// tracepoints has the tracepoint of each hook.
var tracepoints = [...]string{"sched_switch", "task_newtask", "sched_process_exit", "sched_process_free",
	"task_rename", "cgroup_attach_task"}

// hotplugTracepoint is the tracepoint of on_hotplug, which is attached as long as there are sessions.
const hotplugTracepoint = "cpuhp_enter"

// objects has one session's descriptors of the shared maps, programs and links.
type objects struct {
	ids
	maps     map[string]*ebpf.Map
	programs map[string]*ebpf.Program
	hotplug  link.Link   // of on_hotplug
	links    []link.Link // of the hooks; nil if they are not attached, or if this session does not need them
	types    *btf.Cache  // the kernel's types, kept while the session opens: decoding them takes longer than everything else
}

// newObjects returns empty objects. If types is nil, they decode the kernel's types.
func newObjects(types *btf.Cache) *objects {
	if types == nil {
		types = btf.NewCache()
	}
	return &objects{maps: make(map[string]*ebpf.Map), programs: make(map[string]*ebpf.Program), types: types}
}

// connect opens the existing objects. The error wraps fs.ErrNotExist if the last session has ended.
func connect(known ids, types *btf.Cache) (*objects, error) {
	o := newObjects(types)
	o.ids = known
	for i, name := range mapNames {
		m, err := ebpf.NewMapFromID(ebpf.MapID(known.Maps[i]))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the shared map %s: %w%s", name, err, permission(err)), o.close())
		}
		o.maps[name] = m
	}
	for i, name := range programNames {
		p, err := ebpf.NewProgramFromID(ebpf.ProgramID(known.Programs[i]))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the shared program %s: %w%s", name, err, permission(err)), o.close())
		}
		o.programs[name] = p
	}
	err := o.checkMaps()
	if err == nil {
		o.hotplug, err = link.NewFromID(link.ID(known.Hotplug))
	}
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

// checkMaps detects that pinned IDs were reused for other objects after the kernel's ID counter wrapped.
func (o *objects) checkMaps() error {
	info, err := o.programs[countersProgSync].Info()
	if err != nil {
		return err
	}
	used, _ := info.MapIDs()
	for _, name := range []string{countersMapCpus, countersMapSystems} {
		if !slices.Contains(used, ebpf.MapID(o.Maps[slices.Index(mapNames[:], name)])) {
			return fmt.Errorf("the pinned IDs are not of one set of counters: %w", fs.ErrNotExist)
		}
	}
	return nil
}

// create creates all objects. It attaches only on_hotplug.
func create(cgroupV1 bool, types *btf.Cache) (*objects, error) {
	spec, err := loadCounters()
	if err != nil {
		return nil, err
	}
	return createFrom(spec, cgroupV1, types)
}

// createFrom is create with the sizes of the maps in spec.
func createFrom(spec *ebpf.CollectionSpec, cgroupV1 bool, types *btf.Cache) (*objects, error) {
	var err error
	o := newObjects(types)
	for i, name := range mapNames {
		if o.maps[name], err = newMap(spec.Maps[name]); err == nil {
			o.Maps[i], err = MapID(o.maps[name])
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("create the BPF map %s: %w%s", name, err, permission(err)), o.close())
		}
	}
	programs, err := o.load(cgroupV1, programNames[:]...)
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	for i, p := range programs {
		o.programs[programNames[i]] = p
		if o.Programs[i], err = ProgramID(p); err != nil {
			return nil, errors.Join(err, o.close())
		}
	}
	if o.hotplug, o.Hotplug, err = o.attachHotplug(cgroupV1); err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

func (o *objects) attachHotplug(cgroupV1 bool) (link.Link, uint32, error) {
	programs, err := o.load(cgroupV1, countersProgOnHotplug)
	if err != nil {
		return nil, 0, err
	}
	defer programs[0].Close()
	return attachTo(hotplugTracepoint, programs[0], countersProgOnHotplug)
}

// attachTo attaches a program to a raw tracepoint and returns the link and its ID.
func attachTo(tracepoint string, p *ebpf.Program, name string) (link.Link, uint32, error) {
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: tracepoint, Program: p})
	if err != nil {
		return nil, 0, fmt.Errorf("attach the BPF program %s to the tracepoint %s: %w%s", name, tracepoint, refusal(err), permission(err))
	}
	info, err := l.Info()
	if err != nil {
		return nil, 0, errors.Join(err, l.Close())
	}
	return l, uint32(info.ID), nil
}

// newMap creates a map. It does not use the library for the map of events, which would be too small.
func newMap(spec *ebpf.MapSpec) (*ebpf.Map, error) {
	if spec.Type != ebpf.PerfEventArray {
		return ebpf.NewMap(spec)
	}
	return direct.NewArray(spec.Name, maxEvents)
}

// constants is the section with the programs' constants.
const constants = ".rodata"

// load loads programs that use the shared maps.
func (o *objects) load(cgroupV1 bool, names ...string) ([]*ebpf.Program, error) {
	spec, err := programSpecs(cgroupV1)
	if err != nil {
		return nil, err
	}
	values, err := newConstants(spec)
	if err != nil {
		return nil, fmt.Errorf("create the BPF map of constants: %w%s", err, permission(err))
	}
	defer values.Close()
	programs := make(map[string]*ebpf.ProgramSpec)
	for _, name := range names {
		programs[name] = spec.Programs[name]
	}
	loaded, err := o.loadPrograms(programs, map[string]*ebpf.Map{constants: values})
	if err != nil {
		return nil, err
	}
	inOrder := make([]*ebpf.Program, len(names))
	for i, name := range names {
		inOrder[i] = loaded[name]
	}
	return inOrder, nil
}

// refusal returns EPERM without the library's hint about the memory limit: from Linux 5.11 on, BPF memory has none.
func refusal(err error) error {
	if errors.Is(err, syscall.EPERM) {
		return syscall.EPERM
	}
	return err
}

// linux615 is the version 6.15.0 of Linux.
const linux615 = 6<<16 | 15<<8

// programSpecs returns the programs for this machine.
func programSpecs(cgroupV1 bool) (*ebpf.CollectionSpec, error) {
	spec, err := loadCounters()
	if err != nil {
		return nil, err
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	version, err := features.LinuxVersionCode()
	if err != nil {
		return nil, err
	}
	return spec, errors.Join(
		spec.Variables[countersVarNrCpus].Set(uint32(cpus)),
		spec.Variables[countersVarCgroupV1].Set(cgroupV1),
		spec.Variables[countersVarPreemptible].Set(version >= linux615))
}

// loadPrograms loads programs that use the shared maps and the maps in others.
func (o *objects) loadPrograms(programs map[string]*ebpf.ProgramSpec, others map[string]*ebpf.Map) (map[string]*ebpf.Program, error) {
	if err := errors.Join(direct.UseMaps(programs, others), direct.UseMaps(programs, o.maps)); err != nil {
		return nil, err
	}
	for _, kfunc := range []string{"bpf_preempt_disable", "bpf_preempt_enable"} {
		if err := kernel.DropMissing(programs, kfunc, o.types); err != nil {
			return nil, err
		}
	}
	if err := kernel.PrepareReads(programs); err != nil {
		return nil, fmt.Errorf("load BPF programs: %w", err)
	}
	c, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{Programs: programs}, ebpf.CollectionOptions{Cache: o.types})
	if err != nil {
		return nil, fmt.Errorf("load BPF programs: %w%s", refusal(err), permission(err))
	}
	return c.Programs, nil
}

// newConstants creates the map of the constants in spec. The library does that only for whole collections.
func newConstants(spec *ebpf.CollectionSpec) (*ebpf.Map, error) {
	m := spec.Maps[constants]
	value, ok := m.Contents[0].Value.([]byte)
	if !ok {
		return nil, fmt.Errorf("the section %s has no bytes", constants)
	}
	for _, v := range spec.Variables {
		if v.SectionName == constants {
			copy(value[v.Offset:], v.Value)
		}
	}
	return ebpf.NewMap(m)
}

// openLinks opens the links of the hooks. It reports whether they are attached.
func (o *objects) openLinks() bool {
	var links []link.Link
	for _, id := range o.Links {
		l, err := link.NewFromID(link.ID(id))
		if err != nil {
			for _, l := range links {
				l.Close()
			}
			return false
		}
		links = append(links, l)
	}
	o.links = links
	return true
}

// attach loads and attaches the hooks. It attaches sched_switch last, because that hook depends on the state that the others maintain.
func (o *objects) attach(cgroupV1 bool) error {
	programs, err := o.load(cgroupV1, hookNames[:]...)
	if err != nil {
		return err
	}
	defer func() {
		for _, p := range programs {
			p.Close()
		}
	}()
	links := make([]link.Link, len(programs))
	for i, p := range slices.Backward(programs) {
		if links[i], o.Links[i], err = attachTo(tracepoints[i], p, hookNames[i]); err != nil {
			for _, l := range links[i+1:] {
				l.Close()
			}
			return err
		}
	}
	o.links = links
	return nil
}

func (o *objects) closeLinks() error {
	var errs []error
	for _, l := range o.links {
		errs = append(errs, l.Close())
	}
	o.links = nil
	return errors.Join(errs...)
}

func (o *objects) close() error {
	errs := []error{o.closeLinks()}
	if o.hotplug != nil {
		errs = append(errs, o.hotplug.Close())
	}
	for _, p := range o.programs {
		errs = append(errs, p.Close())
	}
	for _, m := range o.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// MapID returns the ID of a map, by which other processes can open it.
func MapID(m *ebpf.Map) (uint32, error) {
	info, err := m.Info()
	if err != nil {
		return 0, err
	}
	id, _ := info.ID()
	return uint32(id), nil
}

// ProgramID returns the ID of a program, by which other processes can open it.
func ProgramID(p *ebpf.Program) (uint32, error) {
	info, err := p.Info()
	if err != nil {
		return 0, err
	}
	id, _ := info.ID()
	return uint32(id), nil
}

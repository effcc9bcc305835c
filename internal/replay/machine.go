package replay

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/perfdata"
)

// protExec is PROT_EXEC, and mapHugeTLB is MAP_HUGETLB.
const (
	protExec   = 4
	mapHugeTLB = 0x40000
)

// machine is the state of the recorded machine.
type machine struct {
	threads  map[int32]*thread
	last     *thread // the last one that was requested
	kernel   *addressSpace
	image    kernelImage
	cgroups  map[uint64]string
	dsos     int // number of created DSOs
	byKey    map[dsoKey]*DSO
	buildIDs map[string][]byte // by file name, from the feature BUILD_ID
	programs programs

	badBuildIDs error // why some of buildIDs are missing

	monotonic bool // the recording uses CLOCK_MONOTONIC

	symbols *symbols

	ended       []*thread // since the last call of forgetThreads
	endedBefore []*thread // before that
}

// kernelImage is the kernel itself, without modules.
type kernelImage struct {
	dso     *DSO   // nil if the recording does not map it
	buildID []byte // nil if unknown
	refName string // name of a symbol
	ref     uint64 // recorded address of that symbol; 0 if unknown
}

func newMachine(names *symbols) *machine {
	return &machine{symbols: names, threads: map[int32]*thread{}, kernel: &addressSpace{}, cgroups: map[uint64]string{}, byKey: map[dsoKey]*DSO{},
		buildIDs: map[string][]byte{}, programs: newPrograms()}
}

// setFeatures reads the build IDs and the BPF programs in the header.
func (m *machine) setFeatures(f *perfdata.Features, order binary.ByteOrder) {
	ids, err := f.Get(perfdata.FeatureBuildID)
	m.badBuildIDs = err
	list, _ := ids.(perfdata.BuildIDs)
	for _, id := range list {
		m.setBuildID(&id)
	}
	m.programs.order = order
	for _, id := range []perfdata.FeatureID{perfdata.FeatureBPFProgInfo, perfdata.FeatureBPFBTF} {
		if section, there := f.Raw(id); there {
			m.programs.add(id, section)
		}
	}
}

func (m *machine) setBuildID(id *perfdata.HeaderBuildID) {
	if len(bytes.TrimRight(id.BuildID, "\x00")) > 0 {
		m.buildIDs[id.Filename] = id.BuildID
	}
}

// apply updates the state by a record.
func (m *machine) apply(r *perfdata.Record) {
	switch v := r.Value.(type) {
	case *perfdata.Mmap:
		m.mmap(&perfdata.Mmap2{PID: v.PID, TID: v.TID, Start: v.Start, Length: v.Length, Offset: v.Offset, Data: v.Data,
			Protection: dataProtection(v.Data), Filename: v.Filename}, r.Misc.CPUMode())
	case *perfdata.Mmap2:
		m.mmap(v, r.Misc.CPUMode())
	case *perfdata.Comm:
		m.rename(v.PID, v.TID, v.Comm, v.Exec)
	case *perfdata.Fork:
		m.fork(v.PID, v.TID, v.ParentPID, v.ParentTID, !v.Exec)
	case *perfdata.Exit:
		m.exit(v.TID)
	case *perfdata.Namespaces:
		m.enter(v)
	case *perfdata.KSymbol:
		m.ksymbol(v)
	case *perfdata.Cgroup:
		m.cgroups[v.ID] = v.Path
	case *perfdata.HeaderBuildID:
		m.setBuildID(v)
	case *perfdata.HeaderFeature:
		m.programs.add(v.ID, v.Data)
		m.identifyCode()
	}
}

// identifyCode sets the program of BPF code that was mapped before the program was described: a live session fetches programs while the
// records of their code are on their way. No handler may be running.
func (m *machine) identifyCode() {
	for _, mapping := range m.kernel.list {
		if d := mapping.DSO; d.Kind == profile.BPF && d.Program == 0 {
			d.Program = m.programs.at[mapping.Start]
		}
	}
}

// dataProtection returns the protection of a mapping whose record, MMAP, does not contain it.
func dataProtection(data bool) uint32 {
	if data {
		return 0
	}
	return protExec
}

func (m *machine) mmap(v *perfdata.Mmap2, mode perfdata.Misc) {
	end := v.Start + v.Length
	if end < v.Start {
		return
	}
	switch mode {
	case perfdata.MiscKernel:
		m.kernelMmap(v, end)
	case perfdata.MiscGuestKernel, perfdata.MiscGuestUser:
	default:
		m.userMmap(v, end)
	}
}

const kernelName = "[kernel.kallsyms]"

// kernelMmap maps the kernel itself or a module. The kernel's file name ends with a symbol, whose address is in the field for the offset.
func (m *machine) kernelMmap(v *perfdata.Mmap2, end uint64) {
	isKernel := strings.HasPrefix(v.Filename, "[kernel.")
	if !isKernel {
		id := v.BuildID
		if id == nil {
			id = m.buildIDs[v.Filename]
		}
		d := m.dso(dsoKey{path: v.Filename, buildID: string(id), base: v.Start}, func(d *DSO) {
			d.Path, d.Name, d.Kind, d.inMemory = v.Filename, moduleName(v.Filename), profile.Kernel, true
			d.Short, d.BuildID, d.Base, d.size = d.Name, id, v.Start, v.Length
			d.names = newModuleCode(m.symbols, d)
		})
		m.kernel = m.kernel.insert(&mapping{Start: v.Start, End: end, DSO: d})
		return
	}
	d := m.dso(dsoKey{path: kernelName}, func(d *DSO) {
		d.Path, d.Name, d.Short, d.Kind, d.inMemory = kernelName, kernelName, kernelName, profile.Kernel, true
		d.BuildID, d.size = v.BuildID, v.Length
		if d.BuildID == nil {
			d.BuildID = m.buildIDs[kernelName]
		}
		d.names = kernelCode{m.symbols}
	})
	m.image.dso, m.image.buildID = d, d.BuildID
	if name := strings.TrimPrefix(v.Filename, kernelName); name != v.Filename {
		m.image.refName, m.image.ref = name, v.Offset
	}
	m.kernel = m.kernel.insert(&mapping{Start: v.Start, End: end, DSO: d})
}

func (m *machine) userMmap(v *perfdata.Mmap2, end uint64) {
	p := m.thread(v.PID, v.TID).process
	mapping := &mapping{Start: v.Start, End: end, Offset: v.Offset, DSO: m.userDSO(v, p), execs: p.execs, protection: v.Protection, flags: v.Flags}
	if v.Filename == "[vdso]" { // it is not a file
		mapping.Offset = 0
	}
	if v.Protection&protExec != 0 && !mapping.DSO.inMemory {
		mapping.DSO.code.add(mapping)
		p.runtime.maps(mapping.DSO.Short)
	}
	if p.dump != "" && mapping.DSO.inMemory {
		p.maps = p.maps.insertBehind(mapping) // compilers change the protection of existing code
		return
	}
	p.maps = p.maps.insert(mapping)
	if isJITDump(v) && p.dump != v.Filename {
		m.readJITDump(p, v)
	}
}

func (m *machine) userDSO(v *perfdata.Mmap2, p *process) *DSO {
	name := v.Filename
	anonymous := isAnonymous(name) || v.Flags&mapHugeTLB != 0 || isNoFile(name)
	if anonymous && v.Protection&protExec != 0 {
		return m.jitDSO(v, p)
	}
	key := dsoKey{path: name, major: v.Major, minor: v.Minor, inode: v.Inode, generation: v.InodeGeneration, buildID: string(v.BuildID)}
	if anonymous || name == "[vdso]" {
		key = dsoKey{path: name}
	}
	d := m.dso(key, func(d *DSO) {
		d.Path, d.Name, d.Short, d.Kind, d.inMemory = name, name, shortName(name), profile.User, anonymous
		d.BuildID, d.key = v.BuildID, key
		if d.BuildID == nil {
			d.BuildID = m.buildIDs[name]
		}
		if !anonymous {
			d.names = &userFile{symbols: m.symbols, dso: d}
		}
	})
	if file, is := d.names.(*userFile); is && v.Protection&protExec != 0 {
		file.add(owner{v.PID, v.Start, name})
	}
	return d
}

// ksymbol adds or removes code of a BPF program, or other code that the kernel added after its start.
func (m *machine) ksymbol(v *perfdata.KSymbol) {
	end := v.Addr + uint64(v.Size)
	if v.Flags&perfdata.KSymbolUnregister != 0 {
		m.kernel = m.kernel.remove(v.Addr, max(end, v.Addr+1), func(old *mapping) bool { return old.DSO.Name == v.Name })
		return
	}
	if end <= v.Addr {
		return
	}
	d := m.addDSO(func(d *DSO) {
		d.Path, d.Name, d.Short, d.Kind, d.inMemory = v.Name, v.Name, v.Name, profile.Kernel, true
		d.size = uint64(v.Size)
		d.names = &oneSymbol{Name: v.Name, Linkage: v.Name, Start: v.Addr, End: end}
		if v.Type == perfdata.KSymbolBPF {
			d.Kind, d.Program, d.Tag = profile.BPF, m.programs.at[v.Addr], tagOf(v.Name)
		}
	})
	mapping := &mapping{Start: v.Addr, End: end, DSO: d}
	if isImage(v.Name) {
		m.kernel = m.kernel.insertBehind(mapping)
		return
	}
	m.kernel = m.kernel.insert(mapping)
}

// isImage reports whether a name belongs to a trampoline or a dispatcher. If one existed before the recording, perf only guesses its size.
func isImage(name string) bool {
	return strings.HasPrefix(name, "bpf_trampoline_") || strings.HasPrefix(name, "bpf_dispatcher_")
}

// tagOf returns the tag in the name of a BPF function, bpf_prog_TAG_NAME. It is empty for trampolines and dispatchers.
func tagOf(name string) string {
	rest, is := strings.CutPrefix(name, "bpf_prog_")
	tag, _, _ := strings.Cut(rest, "_")
	if _, err := hex.DecodeString(tag); !is || err != nil || len(tag) != 16 {
		return ""
	}
	return tag
}

// oneSymbol is the only symbol of a DSO.
type oneSymbol Symbol

func (s *oneSymbol) locate(l *Location) {
	if l.Addr >= s.Start && l.Addr < s.End {
		l.Symbol = (*Symbol)(s)
	}
}

func (m *machine) dso(key dsoKey, fill func(*DSO)) *DSO {
	d := m.byKey[key]
	if d == nil {
		d = m.addDSO(fill)
		m.byKey[key] = d
	}
	return d
}

func (m *machine) addDSO(fill func(*DSO)) *DSO {
	d := &DSO{Index: m.dsos, code: &mappedCode{}}
	fill(d)
	m.dsos++
	return d
}

// Package bpfprog reads what the kernel knows of the BPF programs that are loaded, and selects them.
//
// It needs CAP_SYS_ADMIN (to find objects of others by ID), as all of bpf(2) does that goes over objects.
package bpfprog

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Program is what the kernel tells of a BPF program.
type Program struct {
	ID       uint32    `json:"id"`
	Type     Type      `json:"type"`
	Name     string    `json:"name"` // whole where the program has BTF, else its first 15 bytes; empty if it has none
	Tag      string    `json:"tag"`  // SHA-1 of the instructions, or from Linux 6.18 SHA-256, its first 8 bytes in hexadecimal
	Loaded   time.Time `json:"loaded"`
	UID      uint32    `json:"uid"` // user who loaded it
	GPL      bool      `json:"gpl"` // its licence is compatible
	MapIDs   []uint32  `json:"map_ids"`
	BTF      uint32    `json:"btf_id,omitempty"` // 0 without BTF
	Xlated   uint32    `json:"bytes_xlated"`     // translated instructions; 0 if they may not be seen
	JITed    uint32    `json:"bytes_jited"`      // machine code; 0 if there is none, or it may not be seen
	Memlock  uint64    `json:"bytes_memlock"`    // memory that the kernel charges for it, without maps; a Detail
	Verified uint32    `json:"verified_insns"`   // instructions that the verifier looked at (Linux 5.16; 0 before)
	Stats    Stats     `json:"stats"`

	Functions []Function `json:"functions,omitempty"` // a Detail

	functions  uint32 // how many there are
	attachBTF  uint32 // BTF that attachType is in; 0 for a program as the target
	attachType uint32
}

// stats are of the time since a program was loaded. Runs are counted only while somebody enables it: BPF_ENABLE_STATS, or
// sysctl kernel.bpf_stats_enabled.
type Stats struct {
	Runs    uint64        `json:"run_count"`
	RunTime time.Duration `json:"run_time_ns"`
	Missed  uint64        `json:"recursion_misses"` // runs that did not take place, as the program ran on that CPU already
}

// Function is a function of a program after the JIT compiler: the program itself, or a sub-program.
type Function struct {
	Name    string  `json:"name"`              // as BTF has it; empty without BTF
	Tag     string  `json:"tag"`               // of the function; differs from the program's if there are several
	Address Address `json:"address,omitempty"` // 0 where addresses of the kernel may not be seen
	Size    uint32  `json:"bytes_jited"`       // 0 without JIT compiler, and of several functions where addresses are hidden
	Source  *Line   `json:"source,omitempty"`  // where it begins; a Detail
}

// Address is an address of code: of the kernel, or as a file counts it.
type Address uint64

// String is hexadecimal.
func (a Address) String() string { return fmt.Sprintf("%#x", uint64(a)) }

// MarshalText gives a string: numbers of JSON have 53 bits for many who read them.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (a *Address) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 0, 64)
	*a = Address(n)
	return err
}

// Reader reads programs. What it has read of BTF it keeps for the next program. It is not for several goroutines at once.
type Reader struct {
	boot    time.Time // when the clock of load times was 0
	btf     map[uint32]*btf.Spec
	cgroups cgroups
	mapIDs  []uint32
	first   functionRecord // of the program that was read last: the program itself
	names   names
	fdinfo  []byte
	detail  Detail
}

// Detail is what is read only where it is asked for, as it takes time.
type Detail struct {
	Functions bool
	Memlock   bool
	Source    bool // of functions
}

// NewReader makes a Reader that reads such detail of each program.
func NewReader(detail Detail) (*Reader, error) {
	var since unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &since); err != nil {
		return nil, fmt.Errorf("read the time since boot: %w", err)
	}
	return &Reader{
		boot:    time.Now().Add(-time.Duration(since.Nano())),
		btf:     make(map[uint32]*btf.Spec),
		cgroups: cgroups{root: cgroupMount()},
		mapIDs:  make([]uint32, 64), // the most that a program can use of its own (MAX_USED_MAPS)
		fdinfo:  make([]byte, 4096),
		detail:  detail,
	}, nil
}

// ReadAll reads all programs with such detail, once: see All.
func ReadAll(detail Detail) ([]*Program, error) {
	r, err := NewReader(detail)
	if err != nil {
		return nil, err
	}
	return r.all()
}

// all reads all programs, in the order of their IDs. Those that are unloaded meanwhile are left out.
func (r *Reader) all() ([]*Program, error) {
	var all []*Program
	for id, err := range programs.ids() {
		if err != nil {
			return nil, err
		}
		p, err := r.Read(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// Read reads one program. It fails with fs.ErrNotExist if there is none with the ID.
func (r *Reader) Read(id uint32) (*Program, error) {
	d, err := programs.open(id)
	if err != nil {
		return nil, err
	}
	defer d.close()
	p, err := r.read(d)
	if err != nil {
		return nil, fmt.Errorf("read BPF program %d: %w", id, err)
	}
	return p, nil
}

// memlock reads the memory of a program. It fails with fs.ErrNotExist if it is no more.
func (r *Reader) memlock(id uint32) (uint64, error) {
	d, err := programs.open(id)
	if err != nil {
		return 0, err
	}
	defer d.close()
	return d.memlock(r.fdinfo)
}

// stats reads the statistics of a program. It fails with fs.ErrNotExist if it is no more.
func (r *Reader) stats(id uint32) (Stats, error) {
	d, err := programs.open(id)
	if err != nil {
		return Stats{}, err
	}
	defer d.close()
	var info programInfo
	if err := d.info(unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil {
		return Stats{}, fmt.Errorf("read the statistics of BPF program %d: %w", id, err)
	}
	return info.stats(), nil
}

func (i *programInfo) stats() Stats { return Stats{i.runs, time.Duration(i.runTime), i.missed} }

func (r *Reader) read(d descriptor) (*Program, error) {
	info := programInfo{
		maps: uint32(len(r.mapIDs)), mapIDs: unsafe.Pointer(unsafe.SliceData(r.mapIDs)),
		functions: 1, functionRecordSize: uint32(unsafe.Sizeof(r.first)), functionList: unsafe.Pointer(&r.first),
	}
	if err := d.info(unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil {
		return nil, err
	}
	if int(info.maps) > len(r.mapIDs) { // the kernel gave those that there was room for
		r.mapIDs = make([]uint32, info.maps)
		return r.read(d)
	}
	p := &Program{
		ID: info.id, Type: Type(info.kind), Name: text(info.name[:]), Tag: hex.EncodeToString(info.tag[:]),
		Loaded: r.boot.Add(time.Duration(info.loaded)), UID: info.user, GPL: info.flags&1 == 1,
		MapIDs: append(make([]uint32, 0, info.maps), r.mapIDs[:info.maps]...), BTF: info.btf,
		Xlated: info.xlatedSize, JITed: info.jitedSize, Verified: info.verifiedInstructions, Stats: info.stats(),
		functions: info.functions, attachBTF: info.attachBTF, attachType: info.attachType,
	}
	var err error
	if r.detail.Memlock {
		if p.Memlock, err = d.memlock(r.fdinfo); err != nil {
			return nil, err
		}
	}
	if r.detail.Functions {
		if p.Functions, err = r.functions(d, p, &info); err != nil {
			return nil, err
		}
	}
	if len(p.Name) == len(info.name)-1 { // it may have been cut
		p.Name = r.fullName(p)
	}
	return p, nil
}

// fullName is that of the function which is the program, or what the kernel kept of the name.
func (r *Reader) fullName(p *Program) string {
	if p.functions == 0 || p.BTF == 0 {
		return p.Name
	}
	if name := r.names.of(p.BTF, r.first.btf); strings.HasPrefix(name, p.Name) {
		return name
	}
	return p.Name
}

// functions reads the functions of a program whose info tells how many there are.
func (r *Reader) functions(d descriptor, p *Program, counts *programInfo) ([]Function, error) {
	n := max(counts.functionSizes, counts.tags, 1)
	var (
		records   = make([]functionRecord, max(counts.functions, 1))
		addresses = make([]uint64, max(counts.symbols, 1))
		sizes     = make([]uint32, max(counts.functionSizes, 1))
		tags      = make([][8]byte, max(counts.tags, 1))
	)
	info := programInfo{
		symbols: counts.symbols, symbolAddresses: unsafe.Pointer(&addresses[0]),
		functionSizes: counts.functionSizes, functionSizeList: unsafe.Pointer(&sizes[0]),
		functions: counts.functions, functionRecordSize: uint32(unsafe.Sizeof(records[0])), functionList: unsafe.Pointer(&records[0]),
		tags: counts.tags, tagList: unsafe.Pointer(&tags[0]),
	}
	if err := d.info(unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil {
		return nil, err
	}
	all := make([]Function, n)
	for i := range all {
		f := &all[i]
		f.Tag = p.Tag
		if i < int(min(info.tags, counts.tags)) {
			f.Tag = hex.EncodeToString(tags[i][:])
		}
		if i < int(min(info.symbols, counts.symbols)) {
			f.Address = Address(addresses[i])
		}
		if i < int(min(info.functionSizes, counts.functionSizes)) {
			f.Size = sizes[i]
		}
		if i < int(min(info.functions, counts.functions)) {
			f.Name = r.names.of(p.BTF, records[i].btf)
		}
	}
	if r.detail.Source && counts.lines > 0 {
		if err := r.source(d, p.BTF, counts.lines, records[:min(info.functions, counts.functions)], all); err != nil {
			return nil, err
		}
	}
	if all[0].Name == "" {
		all[0].Name = p.Name
	}
	if n == 1 { // known even where the sizes of functions are hidden with their addresses
		all[0].Size = p.JITed
	}
	return all, nil
}

// lineRecord is struct bpf_line_info.
type lineRecord struct {
	offset           uint32 // instructions from the start of the program
	file, text, line uint32 // the first two in the strings of the BTF; line and column
}

// source adds the lines where functions begin: of each function BTF has a line for its first instruction.
func (r *Reader) source(d descriptor, id, n uint32, records []functionRecord, functions []Function) error {
	lines := make([]lineRecord, n)
	info := programInfo{lines: n, lineRecordSize: uint32(unsafe.Sizeof(lines[0])), lineList: unsafe.Pointer(&lines[0])}
	if err := d.info(unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil {
		return err
	}
	spec := r.spec(id)
	if spec == nil {
		return nil
	}
	starts := make(map[uint32]lineRecord)
	for _, l := range lines[:min(info.lines, n)] {
		starts[l.offset] = l
	}
	for i, f := range records[:min(len(records), len(functions))] {
		l, there := starts[f.offset]
		if !there {
			continue
		}
		var b bytes.Buffer
		binary.Write(&b, binary.NativeEndian, []uint32{l.offset, l.file, l.text, l.line}) // into memory, which cannot fail
		if found, err := btf.LoadLineInfos(&b, binary.NativeEndian, 1, spec); err == nil {
			functions[i].Source = newLine(found[0].Line)
		}
	}
	return nil
}

// functionName is the name of a function in any BTF, that of the kernel, too; empty if it cannot be had.
func (r *Reader) functionName(id, function uint32) string {
	spec := r.spec(id)
	if spec == nil {
		return ""
	}
	t, err := spec.TypeByID(btf.TypeID(function))
	if err != nil {
		return ""
	}
	return t.TypeName()
}

// mostBTF is how much BTF is kept, as programs come and go while a Reader reads on.
const mostBTF = 256

// spec is the BTF with an ID; nil if it cannot be had, which is remembered.
func (r *Reader) spec(id uint32) *btf.Spec {
	spec, known := r.btf[id]
	if !known {
		if len(r.btf) >= mostBTF {
			clear(r.btf)
		}
		spec = r.readSpec(id)
		r.btf[id] = spec
	}
	return spec
}

func (r *Reader) readSpec(id uint32) *btf.Spec {
	if id == 0 {
		return nil
	}
	handle, err := btf.NewHandleFromID(btf.ID(id))
	if err != nil {
		return nil
	}
	defer handle.Close()
	info, err := handle.Info()
	if err != nil {
		return nil
	}
	var base *btf.Spec
	switch {
	case info.IsVmlinux():
		spec, err := btf.LoadKernelSpec() // mapped, not copied
		if err != nil {
			return nil
		}
		return spec
	case info.IsKernel:
		if base, err = btf.LoadKernelSpec(); err != nil {
			return nil
		}
	}
	spec, err := handle.Spec(base)
	if err != nil {
		return nil
	}
	return spec
}

// Type is the type of a BPF program: BPF_PROG_TYPE_* of include/uapi/linux/bpf.h.
type Type ebpf.ProgramType

// String is the name of the type as in bpf.h, in small letters.
func (t Type) String() string { return nameOf(typeNames, uint32(t)) }

// MarshalText gives the name.
func (t Type) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// nameOf is a number's name, or the number if the kernel is newer than the names.
func nameOf(names []string, n uint32) string {
	if int(n) < len(names) {
		return names[n]
	}
	return fmt.Sprint("type ", n)
}

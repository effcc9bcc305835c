// Package bpfprog reads, selects, lists and watches the BPF programs that are loaded in the kernel.
//
// A program has functions: itself, which comes first, and its sub-programs. Its tag is a hash of its instructions. It is attached where it
// runs, either through a BPF link, which is an object with its own ID, or without one. Its holders are the processes with a descriptor
// that keeps it loaded.
//
// The package needs CAP_SYS_ADMIN, which bpf(2) requires to find objects by ID.
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

// Program describes a loaded BPF program, as the kernel reports it. Its fields are those of struct bpf_prog_info (include/uapi/linux/bpf.h).
type Program struct {
	ID       uint32    `json:"id"`
	Type     Type      `json:"type"` // as the kernel names it, such as xdp
	Name     string    `json:"name"` // complete if the program has BTF, else its first 15 bytes; empty if it has no name
	Tag      string    `json:"tag"`  // first 8 bytes, in hexadecimal, of the SHA-1 of the instructions; of their SHA-256 from Linux 6.18 on
	Loaded   time.Time `json:"loaded"`
	UID      uint32    `json:"uid"`              // of the user who loaded it
	GPL      bool      `json:"gpl"`              // the license is GPL compatible
	MapIDs   []uint32  `json:"map_ids"`          // maps that it uses
	BTF      uint32    `json:"btf_id,omitempty"` // 0 without BTF
	Xlated   uint32    `json:"bytes_xlated"`     // translated instructions; 0 if hidden from this process
	JITed    uint32    `json:"bytes_jited"`      // machine code; 0 if there is none, or if hidden from this process
	Memlock  uint64    `json:"bytes_memlock"`    // memory charged for the program, without maps; 0 if that was not asked for
	Verified uint32    `json:"verified_insns"`   // instructions that the verifier processed (Linux 5.16; 0 before)
	Stats    Stats     `json:"stats"`            // since it was loaded, as far as somebody let the kernel count

	Functions []Function `json:"functions,omitempty"` // the program and its sub-programs; absent if they were not asked for

	functions  uint32 // number of functions
	attachBTF  uint32 // ID of the BTF of the target; 0 if the target is a program
	attachType uint32
}

// Stats are a program's statistics since it was loaded. The kernel counts runs and their time only while it is asked to, with
// BPF_ENABLE_STATS or sysctl kernel.bpf_stats_enabled.
type Stats struct {
	Runs    uint64        `json:"run_count"`        // runs
	RunTime time.Duration `json:"run_time_ns"`      // what they took
	Missed  uint64        `json:"recursion_misses"` // runs that were skipped because the program was already running on that CPU
}

// Function is a function in machine code: the program itself, or a sub-program.
type Function struct {
	Name    string  `json:"name"`              // from BTF; empty without BTF
	Tag     string  `json:"tag"`               // of the function; differs from the program's tag if there are several functions
	Address Address `json:"address,omitempty"` // in memory; absent if kernel addresses are hidden from this process
	Size    uint32  `json:"bytes_jited"`       // 0 without the JIT compiler, and if addresses are hidden and there are several functions
	Source  *Line   `json:"source,omitempty"`  // where the function begins; absent if it was not asked for
}

// Address is an address of code, in the kernel or in a file.
type Address uint64

// String returns the address in hexadecimal, with 0x in front.
func (a Address) String() string { return fmt.Sprintf("%#x", uint64(a)) }

// MarshalText encodes the address as a string, because many JSON readers keep only 53 bits of a number.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText decodes what MarshalText encodes.
func (a *Address) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 0, 64)
	*a = Address(n)
	return err
}

// Reader reads programs. It caches BTF between programs. It is not safe for concurrent use.
type Reader struct {
	boot    time.Time // wall-clock time at which CLOCK_BOOTTIME, the clock of load times, was 0
	btf     specs
	cgroups cgroups
	mapIDs  []uint32
	first   functionRecord // first function of the program that was read last
	names   names
	fdinfo  []byte
	detail  Detail
}

// Detail selects what a Reader reads in addition, because it takes time.
type Detail struct {
	Functions bool
	Memlock   bool
	Source    bool // of Functions
}

// NewReader returns a Reader that reads this detail of each program.
func NewReader(detail Detail) (*Reader, error) {
	var since unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &since); err != nil {
		return nil, fmt.Errorf("read the time since boot: %w", err)
	}
	return &Reader{
		boot:    time.Now().Add(-time.Duration(since.Nano())),
		btf:     make(specs),
		cgroups: cgroups{root: cgroupMount()},
		mapIDs:  make([]uint32, 64), // MAX_USED_MAPS, the limit of what a program's own code can use
		fdinfo:  make([]byte, 4096),
		detail:  detail,
	}, nil
}

// ReadAll returns all loaded programs, with this detail, in the order of their IDs.
func ReadAll(detail Detail) ([]*Program, error) {
	r, err := NewReader(detail)
	if err != nil {
		return nil, err
	}
	return r.all()
}

// all returns all programs in the order of their IDs. It leaves out programs that are unloaded while it runs.
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

// Read returns the program with an ID. The error is fs.ErrNotExist if there is none.
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

// memlock returns the memory charged for a program, in bytes. The error is fs.ErrNotExist if the program was unloaded.
func (r *Reader) memlock(id uint32) (uint64, error) {
	d, err := programs.open(id)
	if err != nil {
		return 0, err
	}
	defer d.close()
	return d.memlock(r.fdinfo)
}

// stats returns the statistics of a program. The error is fs.ErrNotExist if the program was unloaded.
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
	if int(info.maps) > len(r.mapIDs) { // the kernel returned only as many as fit
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
	if len(p.Name) == len(info.name)-1 { // the kernel may have truncated it
		p.Name = r.fullName(p)
	}
	return p, nil
}

// fullName returns the name that BTF has for the program's first function, or else the kernel's truncated name.
func (r *Reader) fullName(p *Program) string {
	if p.functions == 0 || p.BTF == 0 {
		return p.Name
	}
	if name := r.names.of(p.BTF, r.first.btf); strings.HasPrefix(name, p.Name) {
		return name
	}
	return p.Name
}

// functions returns the functions of a program. counts is its info, which has the lengths of the arrays.
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
	if n == 1 { // known even if the kernel hides the sizes of functions with their addresses
		all[0].Size = p.JITed
	}
	return all, nil
}

// lineRecord is struct bpf_line_info.
type lineRecord struct {
	offset           uint32 // in instructions, from the start of the program
	file, text, line uint32 // file and text are offsets in the strings of the BTF; line is line and column
}

// source sets Source of each function: BTF has a line for each function's first instruction.
func (r *Reader) source(d descriptor, id, n uint32, records []functionRecord, functions []Function) error {
	lines := make([]lineRecord, n)
	info := programInfo{lines: n, lineRecordSize: uint32(unsafe.Sizeof(lines[0])), lineList: unsafe.Pointer(&lines[0])}
	if err := d.info(unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil {
		return err
	}
	spec := r.btf.of(id)
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
		binary.Write(&b, binary.NativeEndian, []uint32{l.offset, l.file, l.text, l.line}) // cannot fail: it writes to memory
		if found, err := btf.LoadLineInfos(&b, binary.NativeEndian, 1, spec); err == nil {
			functions[i].Source = newLine(found[0].Line)
		}
	}
	return nil
}

// functionName returns the name of a function in any BTF, including the kernel's; empty if it cannot be read.
func (r *Reader) functionName(id, function uint32) string {
	spec := r.btf.of(id)
	if spec == nil {
		return ""
	}
	t, err := spec.TypeByID(btf.TypeID(function))
	if err != nil {
		return ""
	}
	return t.TypeName()
}

// specs caches BTF by ID; nil for what cannot be read.
type specs map[uint32]*btf.Spec

// mostBTF limits how many BTF objects are cached, because programs come and go during the life of a Reader.
const mostBTF = 256

// of returns the BTF with an ID; nil if it cannot be read.
func (s specs) of(id uint32) *btf.Spec {
	spec, known := s[id]
	if !known {
		if len(s) >= mostBTF {
			clear(s)
		}
		spec = readSpec(id)
		s[id] = spec
	}
	return spec
}

func readSpec(id uint32) *btf.Spec {
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
		return kernelTypes()
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

// Type is the type of a BPF program: BPF_PROG_TYPE_* from include/uapi/linux/bpf.h.
type Type ebpf.ProgramType

// String returns the name of the type as in bpf.h, without the prefix and in lower case.
func (t Type) String() string { return nameOf(typeNames, uint32(t)) }

// MarshalText returns the name.
func (t Type) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// nameOf returns the name of number n, or "type N" if the kernel is newer than the list of names.
func nameOf(names []string, n uint32) string {
	if int(n) < len(names) {
		return names[n]
	}
	return fmt.Sprint("type ", n)
}

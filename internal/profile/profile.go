// Package profile is the model of "stacks with values". Recordings and sampling in the kernel produce profiles, and every report is made
// from one.
//
// A Profile stores each string, module, function, frame, stack and set of labels once and refers to it by a number. A sample is therefore
// a few numbers, and samples with the same numbers are one sample with a count, however often they were seen. Keys select the properties
// that a profile keeps; the others do not distinguish samples. A Profile belongs to one goroutine at a time.
package profile

import (
	"cmp"
	"strings"
	"time"
)

// Identifiers are positions in the tables of one Profile. In all of them, 0 means none.
type (
	StringID   uint32
	ModuleID   uint32
	ProgramID  uint32
	FunctionID uint32
	FrameID    uint32
	LabelsID   uint32
	TagsID     uint32
	DetailsID  uint32
)

// Profile holds the samples of one or more events.
type Profile struct {
	Info   Info
	Events []Event

	Strings   Table[StringID, string]
	Modules   Table[ModuleID, Module]
	Programs  Table[ProgramID, Program]
	Functions Table[FunctionID, Function]
	Tags      Table[TagsID, Tag]
	Stacks    Stacks

	Mappings map[ModuleID][]Mapping // of the code in files, as the first process mapped it; other processes can have it at other addresses

	Sockets []int32 // by CPU, as far as the recording describes the machine

	Losses Losses

	keep    Keys
	frames  Table[FrameID, Frame]
	labels  Table[LabelsID, Labels]
	details Table[DetailsID, Details]
	samples samples

	limit int    // of samples; 0 for none
	step  int64  // see Step
	cut   uint64 // see Cut
}

// New returns an empty profile that distinguishes samples by the given keys and always by event and stack. Adding samples drops the other
// keys.
func New(keep Keys) *Profile { return &Profile{keep: keep} }

// Keys returns the keys that distinguish the samples.
func (p *Profile) Keys() Keys { return p.keep }

// Info describes where and when the samples were taken. Unknown fields are zero.
type Info struct {
	Hostname string
	Release  string // of the kernel, the release of uname(2)
	Arch     string // the machine of uname(2)
	Command  []string
	Start    time.Time
	Duration time.Duration
}

// Event is a sampled event with the sums of its samples.
type Event struct {
	Name   string
	Unit   string // of the values: "count", "ns", "bytes"; "" if unknown
	Leader int    // position in Profile.Events of the group's leader; the event's own position if it is in no group

	// Exactly one of these is not 0 for events that are sampled by frequency or period.
	Frequency uint64 // requested samples per second
	Period    uint64 // events between samples

	Entries bool   // samples are entries of a BPF map: only their values count
	Samples uint64 // the number of samples that Add and Take added
	Stacks  uint64 // the number of branch stacks that Samples are the branches of; 0 if Samples are no branches
	Value   uint64 // the sum of their values
}

// CPUTime is the name of CPU time in Go's own profiles, and in pprof's. It does not say which clock measured it.
const CPUTime = "cpu"

// IsCPUTime reports whether the event counts CPU time.
func (e Event) IsCPUTime() bool {
	return e.Unit == "ns" && (e.Name == CPUTime || strings.HasPrefix(e.Name, "cpu-clock") || strings.HasPrefix(e.Name, "task-clock"))
}

// UnitName returns the unit of the values as pprof and OTLP write it: "nanoseconds", "count", "bytes".
func (e Event) UnitName() string {
	switch e.Unit {
	case "ns":
		return "nanoseconds"
	case "":
		return "count"
	}
	return e.Unit
}

// MeanPeriod returns the number of events between samples: the one that was asked for, or else the mean of the samples; 0 without samples.
func (e Event) MeanPeriod() uint64 { return cmp.Or(e.Period, e.Value/max(1, e.Samples)) }

// Module is a file that code was mapped from, or a name that stands for one, such as "[kernel.kallsyms]".
type Module struct {
	Path    StringID // as the process mapped it
	Name    StringID // the short name that tables show: "libc.so.6", "[kernel.kallsyms]", "bpf_prog_<tag>_<name>"
	BuildID StringID // in hexadecimal

	Size uint64 // of the memory that its code was mapped to first, in bytes; 0 if unknown

	// Order is the module's position among all modules of a recording: the kernel has the lowest, then come others in the order of their
	// mapping. Reports sort equal entries by it.
	Order uint32
}

// Mapping is the memory range of a part of a module.
type Mapping struct {
	Start, End uint64 // addresses; End is exclusive
	Offset     uint64 // file offset of Start
}

// Program is a BPF program.
type Program struct {
	ID   uint32
	Name StringID
	Tag  StringID // of the whole program, in hexadecimal
	Type StringID
}

// Function is a function as the symbols of its module delimit it, or a function that the compiler inlined.
type Function struct {
	Name      StringID // demangled
	Linkage   StringID // the linker's name, if it differs from Name
	Module    ModuleID
	Program   ProgramID // the BPF program that contains the function
	Start     uint64    // first address in the module; for kernel and BPF code the address in memory
	End       uint64    // address after the last one
	File      StringID
	StartLine uint32
}

// Kind is the kind of code that a frame is in.
type Kind uint8

// The kinds of code. BPF is code that the kernel generated: BPF programs, trampolines and dispatchers.
const (
	UnknownCode Kind = iota
	User
	Kernel
	BPF
	Hypervisor
	GuestUser
	GuestKernel
)

// String returns the name of a kind.
func (k Kind) String() string {
	return [...]string{"unknown", "user", "kernel", "BPF", "hypervisor", "guest user", "guest kernel"}[k]
}

// Frame is a location in code.
type Frame struct {
	Function FunctionID // 0 if no symbol was found
	Module   ModuleID
	Address  uint64 // in the module, like Function.Start; 0 if the function is known and Address is no key of the profile
	IP       uint64 // instruction pointer, which differs between processes; 0 if the function is known and IP is no key of the profile
	File     StringID
	Line     uint32
	Kind     Kind
	Return   bool // Address is a return address: function and line are those of the call; false if Address is no key of the profile
	Inlined  bool // into the frame that called it
}

// CodeAddress returns an address of the frame's instruction in the module: Address, or if that is a return address, the last byte of the
// call.
func (f *Frame) CodeAddress() uint64 {
	if f.Return {
		return f.Address - 1
	}
	return f.Address
}

// Mapping returns the mapping that contains a frame, and the frame's address in memory. If the profile does not know the mapping, Mapping
// returns none, and the address in the module.
func (p *Profile) Mapping(f *Frame) (m Mapping, address uint64) {
	address = f.CodeAddress()
	for _, at := range p.Mappings[f.Module] {
		if address >= at.Offset && address-at.Offset < at.End-at.Start {
			return at, address - at.Offset + at.Start
		}
	}
	return Mapping{}, address
}

// Labels are the properties of a sample besides its stack. Properties that are no keys of the profile are 0.
type Labels struct {
	Comm   StringID
	PID    int32
	TID    int32
	CPU    int32    // -1 if unknown
	Cgroup StringID // its path
	Tags   TagsID
}

// Tag is a label with a free name, such as "state", "priority" or "weight". Tags form a list.
type Tag struct {
	Key, Value StringID
	Next       TagsID
}

// Frame returns the number of a frame. It first clears the fields that are no keys of the profile.
func (p *Profile) Frame(f Frame) FrameID {
	if f.Function != 0 && !p.keep.Has(IP) {
		f.IP = 0
	}
	if f.Function != 0 && !p.keep.Has(Address) {
		f.Address = 0
	}
	f.Return = f.Return && p.keep.Has(Address)
	if !p.keep.Has(Line) {
		f.File, f.Line = 0, 0
	}
	return p.frames.ID(f)
}

// Frames returns all frames by their number.
func (p *Profile) Frames() []Frame { return p.frames.All() }

// Label returns the number of a set of labels. It first clears the fields that are no keys of the profile.
func (p *Profile) Label(l Labels) LabelsID {
	if !p.keep.Has(Comm) {
		l.Comm = 0
	}
	if !p.keep.Has(PID) {
		l.PID = 0
	}
	if !p.keep.Has(TID) {
		l.TID = 0
	}
	if !p.keep.Has(CPU) {
		l.CPU = 0
	}
	if !p.keep.Has(Cgroup) {
		l.Cgroup = 0
	}
	if !p.keep.Has(Other) {
		l.Tags = 0
	}
	return p.labels.ID(l)
}

// Labels returns all sets of labels by their number.
func (p *Profile) Labels() []Labels { return p.labels.All() }

// Samples returns all samples, in the order in which Add got the first of each; those of Take come in any order. With the key Time, equal samples
// can be several. The slice belongs to the profile.
func (p *Profile) Samples() []Sample { return p.samples.all }

// Add adds a sample, or several equal ones as one with a count, to the profile and to the sums of its event.
func (p *Profile) Add(s Sample) {
	s.First = s.Time
	if !p.keep.Has(Time) {
		s.Time = 0
	}
	if p.isFull() {
		p.cut += s.Count
		return
	}
	event := &p.Events[s.Event]
	event.Samples += s.Count
	event.Value += s.Value
	p.insert(s)
}

// CutCallees removes what the matching functions called: each sample becomes one in the outermost function on its stack that matches. Samples
// without such a function stay as they are.
func (p *Profile) CutCallees(matches func(FunctionID) bool) {
	cuts := make([]StackID, len(p.Stacks.All())) // the stack up to the outermost match, or 0
	for id, stack := range p.Stacks.All()[1:] {
		id := StackID(id + 1)
		switch f := p.Frames()[stack.Frame].Function; {
		case cuts[stack.Caller] != 0:
			cuts[id] = cuts[stack.Caller]
		case f != 0 && matches(f):
			cuts[id] = id
		}
	}
	before := p.samples.all
	p.samples = samples{}
	for _, s := range before {
		if cut := cuts[s.Stack]; cut != 0 {
			s.Stack, s.Leaf = cut, p.Stacks.At(cut).Frame
		}
		p.samples.add(s)
	}
}

// Take adds the samples of o, which must have the same events, frames, labels and details under the same numbers. The caller must not use o
// afterwards.
func (p *Profile) Take(o *Profile) {
	for i, e := range o.Events {
		p.Events[i].Samples += e.Samples
		p.Events[i].Stacks += e.Stacks
		p.Events[i].Value += e.Value
	}
	p.cut += o.cut
	if len(p.samples.all) == 0 {
		p.Stacks, p.samples, p.step = o.Stacks, o.samples, o.step
		p.merge()
		return
	}
	p.setStep(o.step)
	before := StackID(len(p.Stacks.All()))
	ids := p.Stacks.take(&o.Stacks)
	added := 0
	for i := range o.samples.all {
		s := &o.samples.all[i]
		s.Stack = ids[s.Stack]
		if p.limit == 0 && s.Stack >= before { // new, as its stack is: it is not looked up
			o.samples.all[added] = *s
			added++
			continue
		}
		if p.isFull() {
			p.cut += s.Count
			p.Events[s.Event].Samples -= s.Count
			p.Events[s.Event].Value -= s.Value
			continue
		}
		p.insert(*s)
	}
	p.samples.append(o.samples.all[:added]...)
}

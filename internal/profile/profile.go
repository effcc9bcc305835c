// Package profile is the model of "stacks with values": what recordings and sampling in the kernel produce, and what every
// report is made of.
//
// Everything in it is stored once and known by a number: strings, modules, functions, frames, stacks, labels. So a sample is six
// numbers, and the same stack, however often it was seen, is one sample with a count. A Profile belongs to one goroutine at a
// time.
package profile

import "time"

// Identifiers are positions in the tables of one Profile. Number 0 stands for none everywhere.
type (
	StringID   uint32
	ModuleID   uint32
	ProgramID  uint32
	FunctionID uint32
	FrameID    uint32
	LabelsID   uint32
	TagsID     uint32
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

	Mappings map[ModuleID][]Mapping // of the code of files, as the first process had them: other processes can have them elsewhere

	Losses Losses

	keep    Keys
	frames  Table[FrameID, Frame]
	labels  Table[LabelsID, Labels]
	samples samples
}

// New makes an empty profile that tells samples apart by the given keys, and forgets the others when samples are added.
// By stack and event they are always told apart.
func New(keep Keys) *Profile { return &Profile{keep: keep} }

// Keys returns what the samples are told apart by.
func (p *Profile) Keys() Keys { return p.keep }

// Info tells where and when the samples were taken, as far as it is known.
type Info struct {
	Hostname string
	Release  string // of the kernel, as uname(2) has it
	Arch     string // the machine of uname(2)
	Command  []string
	Start    time.Time
	Duration time.Duration
}

// Event is what was sampled.
type Event struct {
	Name   string
	Unit   string // of the values: "count", "ns", "bytes"; "" if it is not known
	Leader int    // the position in Profile.Events of the leader of its group; its own if it is in none

	// Exactly one of these is not 0 for events that are sampled by frequency or period.
	Frequency uint64 // samples a second that were asked for
	Period    uint64 // events from sample to sample

	Entries bool   // its samples are entries of a BPF map: only their values count
	Samples uint64 // the samples that Add was told of
	Value   uint64 // the sum of their values
}

// Losses are what is missing in the samples. None of it is in the sums of the events.
type Losses struct {
	Records   uint64 // records that the kernel had no room for, of any type
	Samples   uint64 // samples that are known to be lost, exactly
	Filtered  uint64 // samples that a BPF filter of the event dropped: they were not wanted
	Truncated uint64 // stacks that were cut: they are in the profile as far as they go
	Reasons   []Loss // what else, as the producer puts it

	// MissedEstimate is about how many more samples were due but not taken, as the events' own counts show. It is an estimate.
	MissedEstimate uint64
}

// Loss is a number of samples that are missing for a reason.
type Loss struct {
	Reason  string // for the reader, with what would mend it
	Samples uint64
}

// Module is a file, or what stands for one, that code was mapped from.
type Module struct {
	Path    StringID // as it was mapped
	Name    StringID // the short name that tables show: "libc.so.6", "[kernel.kallsyms]", "bpf_prog_<tag>_<name>"
	BuildID StringID // in hexadecimal

	// Order is the module's turn among all of a recording: the kernel has the lowest, then come others as they were mapped. Reports put
	// what is otherwise equal into this order.
	Order uint32
}

// Mapping is where a part of a module was in memory.
type Mapping struct {
	Start, End uint64 // addresses, up to but not including End
	Offset     uint64 // in the file, of Start
}

// Program is a BPF program.
type Program struct {
	ID   uint32
	Name StringID
	Tag  StringID // of the whole program, in hexadecimal
	Type StringID
}

// Function is a function as the symbols of its module delimit it, or one that the compiler inlined.
type Function struct {
	Name      StringID // demangled
	Linkage   StringID // as the linker knows it, where that is another
	Module    ModuleID
	Program   ProgramID // the program that it is a part of
	Start     uint64    // its first address in the module; for kernel and BPF the address in memory
	End       uint64    // the address behind its last
	File      StringID
	StartLine uint32
}

// Kind tells what sort of code a frame is in.
type Kind uint8

// Kinds of code. BPF is code that the kernel made of a BPF program, and its trampolines and dispatchers.
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

// Frame is a place in code.
type Frame struct {
	Function FunctionID // 0 where no symbol was found
	Module   ModuleID
	Address  uint64 // in the module, as in Function; 0 where a function is known and Address is no key of the profile
	IP       uint64 // the instruction pointer where no function is known, and 0 where one is: it differs between processes
	File     StringID
	Line     uint32
	Kind     Kind
	Return   bool // Address is where a call returns to: function and line are those of the call; false where Address is no key of the profile
	Inlined  bool // into the frame that called it
}

// CodeAddress returns an address of the frame's instruction in the module: Address, or where that is a return address, the last of the call.
func (f *Frame) CodeAddress() uint64 {
	if f.Return {
		return f.Address - 1
	}
	return f.Address
}

// Labels are what a sample has besides its stack. What is no key of the profile is 0.
type Labels struct {
	Comm   StringID
	PID    int32
	TID    int32
	CPU    int32    // -1 if it is not known
	Cgroup StringID // its path
	Tags   TagsID
}

// Tag is a label with a name of its own, in a list of them: "state", "priority", "weight".
type Tag struct {
	Key, Value StringID
	Next       TagsID
}

// Frame returns the number of a frame, after removing what is no key of the profile.
func (p *Profile) Frame(f Frame) FrameID {
	if f.Function != 0 {
		f.IP = 0
		if !p.keep.Has(Address) {
			f.Address = 0
		}
	}
	f.Return = f.Return && p.keep.Has(Address)
	if !p.keep.Has(Line) {
		f.File, f.Line = 0, 0
	}
	return p.frames.ID(f)
}

// Frames returns all frames, by their number.
func (p *Profile) Frames() []Frame { return p.frames.All() }

// Label returns the number of labels, after removing what is no key of the profile.
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

// Labels returns all labels, by their number.
func (p *Profile) Labels() []Labels { return p.labels.All() }

// Samples returns all samples, in the order in which the first of each was added. The slice is the profile's own.
func (p *Profile) Samples() []Sample { return p.samples.all }

// Add adds a sample, or several that are alike, to the profile and to the sums of its event.
func (p *Profile) Add(s Sample) {
	s.First = s.Time
	if !p.keep.Has(Time) {
		s.Time = 0
	}
	event := &p.Events[s.Event]
	event.Samples += s.Count
	event.Value += s.Value
	p.samples.add(s)
}

// Take adds the samples of another profile, which must have the events, frames and labels of this one: their numbers are the same. It is not to
// be used any more.
func (p *Profile) Take(o *Profile) {
	for i, e := range o.Events {
		p.Events[i].Samples += e.Samples
		p.Events[i].Value += e.Value
	}
	if len(p.samples.all) == 0 {
		p.Stacks, p.samples = o.Stacks, o.samples
		return
	}
	ids := make([]StackID, len(o.Stacks.All()))
	for i, s := range o.Stacks.All()[1:] {
		ids[i+1] = p.Stacks.Push(ids[s.Caller], s.Frame) // a caller comes before what it calls
	}
	for _, s := range o.samples.all {
		s.Stack = ids[s.Stack]
		p.samples.add(s)
	}
}

package filter

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/kernel"
)

// Program is a filter that is loaded into the kernel.
type Program struct {
	program *ebpf.Program
	counts  *ebpf.Map // [0] dropped, [1] kept: a tally for each CPU
}

// tally is an element of Program.counts.
type tally struct {
	Samples uint64
	Value   uint64 // sum of the samples' periods
}

// Counts are the numbers of samples for which a program ran.
type Counts struct {
	Kept, Dropped uint64
	Value         uint64 // sum of the periods of all samples, kept and dropped
}

// Function is a user's function, of a program of type perf_event, that a filter calls. Its only argument is the context. It returns 0 to
// drop the sample. The functions that it calls follow it in Instructions.
type Function struct {
	Instructions asm.Instructions
	License      string // license that a program with this function must have
}

// Load resolves the names in the expression and loads it as a program. The program keeps a sample if the expression is true and if ask does not
// drop it. f and ask may be nil. For the samples that it keeps, the program in element 0 of then runs, a map of type PROG_ARRAY, unless then is
// nil. That program has to return 1.
//
// Load needs CAP_BPF and CAP_PERFMON, and Linux 5.5. Fields that exist only in the kernel's own samples need Linux 6.2 with BTF.
func (f *Filter) Load(ask *Function, then *ebpf.Map) (*Program, error) {
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Name: "bperf_filter", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 16, MaxEntries: 2})
	if err != nil {
		return nil, fmt.Errorf("filter: make a map of its counts: %w%s", err, remedy(err))
	}
	spec := &ebpf.ProgramSpec{Name: "bperf_filter", Type: ebpf.PerfEvent, License: "Dual BSD/GPL"}
	if ask != nil {
		spec.License = ask.License
	}
	if spec.Instructions, err = f.assemble(ask, epilogue(counts, then, ofArch[runtime.GOARCH])); err != nil {
		counts.Close()
		return nil, err
	}
	program, err := ebpf.NewProgram(spec)
	if err != nil {
		counts.Close()
		return nil, fmt.Errorf("filter: load it as a BPF program: %w%s", err, remedy(err))
	}
	return &Program{program, counts}, nil
}

// Function returns the filter and ask as a function of another program of type perf_event. The function's only argument is the context. It
// returns 1 to keep the sample and 0 to drop it. f and ask may be nil. The function has the requirements of Load.
func (f *Filter) Function(ask *Function) (asm.Instructions, error) {
	return f.assemble(ask, asm.Instructions{
		asm.Mov.Imm(asm.R0, 1).WithSymbol(keep),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(drop),
		asm.Return(),
	})
}

// assemble returns the code of the filter and ask before end, which has the labels keep and drop.
func (f *Filter) assemble(ask *Function, end asm.Instructions) (asm.Instructions, error) {
	yes := keep
	if ask != nil {
		yes = "ask"
	}
	body := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	if f != nil {
		var err error
		if body, err = f.compile(yes); err != nil {
			return nil, err
		}
	}
	if ask == nil {
		return finish(body, end)
	}
	body = append(body,
		asm.Mov.Reg(asm.R1, asm.R6).WithSymbol(yes),
		asm.Call.Label(ask.Instructions[0].Symbol()),
		asm.JEq.Imm32(asm.R0, 0, drop), // it returns an int
		asm.Ja.Label(keep))
	all, err := finish(body, end)
	if err != nil {
		return nil, err
	}
	if btf.FuncMetadata(&ask.Instructions[0]) != nil { // if one function has a type and lines, the kernel requires them for all
		all[0] = btf.WithFuncMetadata(all[0], onSample).WithSource(asm.Comment("a filter of bperf's"))
	}
	return append(all, ask.Instructions...), nil
}

// onSample is the type of a program of type perf_event.
var onSample = &btf.Func{Name: "bperf_filter", Linkage: btf.GlobalFunc, Type: &btf.FuncProto{
	Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
	Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: &btf.Void{}}}},
}}

// compile returns code that jumps to the labels yes and drop.
func (f *Filter) compile(yes string) (asm.Instructions, error) {
	root, err := f.root.resolved()
	if err != nil {
		return nil, err
	}
	inside := false
	root.each(func(n *node) { inside = inside || n.field.source == sourceData })
	l, err := newLayout(inside)
	if err != nil {
		return nil, err
	}
	c := code{load: l.load}
	body, err := c.branches(root, yes, drop)
	if err != nil {
		return nil, err
	}
	return append(l.prologue(), body...), nil
}

// finish appends end to the code. It returns an error if the result is too long for BPF jumps.
func finish(body, end asm.Instructions) (asm.Instructions, error) {
	instructions := withoutDetours(append(body, end...))
	if len(instructions) > 1<<15-1 {
		return nil, fmt.Errorf("filter: it has %d instructions, and jumps of BPF reach over %d: give fewer terms", len(instructions), 1<<15-1)
	}
	return instructions, nil
}

func remedy(err error) string {
	if errors.Is(err, syscall.EPERM) {
		return ". " + kernel.Remedy("Run as root, or give bperf the capabilities: setcap cap_bpf,cap_perfmon=ep BPERF")
	}
	return ""
}

// FD returns the descriptor of the program, for perfevent.Event.SetBPF. Events keep the program after Close.
func (p *Program) FD() int { return p.program.FD() }

// Counts returns the numbers of samples that the program has kept and dropped so far.
func (p *Program) Counts() (c Counts, err error) {
	for i, sum := range []*uint64{&c.Dropped, &c.Kept} {
		var each []tally
		if err := p.counts.Lookup(uint32(i), &each); err != nil {
			return Counts{}, fmt.Errorf("filter: read its counts: %w", err)
		}
		for _, t := range each {
			*sum += t.Samples
			c.Value += t.Value
		}
	}
	return c, nil
}

// Close closes the program and its counts.
func (p *Program) Close() error { return errors.Join(p.program.Close(), p.counts.Close()) }

// epilogue returns code that counts the sample and returns 0 to drop it or 1 to keep it, in that case by way of the program in then. R6 has the
// context.
func epilogue(counts, then *ebpf.Map, arch registers) asm.Instructions {
	count := asm.Instructions{
		asm.Mov.Imm(asm.R8, 1).WithSymbol(keep),
		asm.Ja.Label("count"),
		asm.Mov.Imm(asm.R8, 0).WithSymbol(drop),
		asm.StoreMem(asm.RFP, -4, asm.R8, asm.Word).WithSymbol("count"),
		asm.LoadMapPtr(asm.R1, counts.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "counted"),
		// No other program can count on this CPU at the same time: the kernel does not nest programs of events.
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R0, 8, asm.DWord),
		asm.LoadMem(asm.R2, asm.R6, arch.size, asm.DWord), // the period
		asm.Add.Reg(asm.R1, asm.R2),
		asm.StoreMem(asm.R0, 8, asm.R1, asm.DWord),
	}
	end := asm.Instructions{asm.Mov.Reg(asm.R0, asm.R8), asm.Return()}
	if then != nil {
		end[0] = end[0].WithSymbol("return")
		end = append(asm.Instructions{
			asm.JEq.Imm(asm.R8, 0, "return"),
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.LoadMapPtr(asm.R2, then.FD()),
			asm.Mov.Imm(asm.R3, 0),
			asm.FnTailCall.Call(), // returns only if it fails
		}, end...)
	}
	end[0] = end[0].WithSymbol("counted")
	return append(count, end...)
}

// registers are the offset of the instruction pointer in struct bpf_perf_event_data and the size of its registers, in bytes. sample_period and
// addr follow the registers.
type registers struct{ ip, size int16 }

var ofArch = map[string]registers{
	"amd64": {16 * 8, 21 * 8}, // struct pt_regs
	"arm64": {32 * 8, 34 * 8}, // struct user_pt_regs
}

// initPIDNamespace is the link to the initial PID namespace, whose number is PROC_PID_INIT_INO in include/linux/proc_ns.h.
const initPIDNamespace = "pid:[4026531836]"

// layout has the offsets of the fields on this kernel.
type layout struct {
	arch    registers
	samples *samples // nil if programs cannot read the kernel's own samples
	why     error    // the reason why they cannot
}

// newLayout looks up the offsets of the fields. With inside, it includes the fields of the kernel's own samples.
func newLayout(inside bool) (*layout, error) {
	arch, ok := ofArch[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("filter: not for %s", runtime.GOARCH)
	}
	l := &layout{arch: arch}
	if inside {
		l.samples, l.why = findSamples()
	}
	return l, nil
}

// prologue returns code that moves the context to R6 and the address of the kernel's sample to R7.
func (l *layout) prologue() asm.Instructions {
	all := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	if l.samples != nil {
		all = append(all, l.samples.find()...)
	}
	return all
}

// load returns code that loads a field into R0.
func (l *layout) load(f *field) (asm.Instructions, error) {
	from := f.source
	if from == sourceData {
		if l.samples != nil {
			in, size, err := l.samples.load(f.member)
			if err != nil {
				return nil, err
			}
			if size < 8 { // the field is the whole member
				return asm.Instructions{in}, nil
			}
			return append(asm.Instructions{in}, f.narrowed()...), nil
		}
		if from = f.older; from == noSource {
			return nil, &UnseenError{Field: f.name, Err: l.why}
		}
	}
	var in asm.Instruction
	switch from {
	case sourceIP:
		in = asm.LoadMem(asm.R0, asm.R6, l.arch.ip, asm.DWord)
	case sourcePeriod:
		in = asm.LoadMem(asm.R0, asm.R6, l.arch.size, asm.DWord)
	case sourceAddr:
		in = asm.LoadMem(asm.R0, asm.R6, l.arch.size+8, asm.DWord)
	case sourceTask:
		if space, err := os.Readlink("/proc/self/ns/pid"); err != nil || space != initPIDNamespace {
			return nil, fmt.Errorf("filter: %s in a PID namespace needs Linux 6.2: before, programs see the IDs outside it alone (%w)", f.name, l.why)
		}
		in = asm.FnGetCurrentPidTgid.Call()
	case sourceUser:
		in = asm.FnGetCurrentUidGid.Call()
	case sourceCPU:
		in = asm.FnGetSmpProcessorId.Call()
	case sourceCgroup:
		in = asm.FnGetCurrentCgroupId.Call()
	}
	return append(asm.Instructions{in}, f.narrowed()...), nil
}

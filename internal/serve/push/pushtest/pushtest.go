// Package pushtest makes profiles for tests of what is sent to servers: each kind of frame, names that servers would refuse, losses.
package pushtest

import (
	"crypto/sha256"
	"fmt"

	"github.com/bperf/bperf/internal/profile"
)

// Profile returns a profile of CPU time and cycles. It has two samples of each.
func Profile() *profile.Profile {
	p := profile.New(profile.Comm | profile.PID | profile.Cgroup | profile.Address | profile.Line | profile.Other)
	p.Events = []profile.Event{{Name: "cpu-clock", Unit: "ns", Frequency: 19}, {Name: "cycles:u", Unit: "count", Period: 1000003}}
	p.Losses = profile.Losses{Samples: 3, Reasons: []profile.Loss{{Reason: "the map was full", Samples: 2}}}
	text := p.Strings.ID

	program := p.Modules.ID(profile.Module{Path: text("/app/web"), Name: text("web"), BuildID: text("00112233445566778899aabbccddeeff00112233")})
	stripped := p.Modules.ID(profile.Module{Path: text("/lib/libstripped.so"), BuildID: text("ffeeddcc")})
	kernel := p.Modules.ID(profile.Module{Path: text("[kernel.kallsyms]")})
	bpf := p.Modules.ID(profile.Module{Path: text("bpf_prog_6deef7357e7b4530_filter")})
	p.Mappings = map[profile.ModuleID][]profile.Mapping{
		program:  {{Start: 0x400000, End: 0x500000, Offset: 0x1000}},
		stripped: {{Start: 0x7f0000000000, End: 0x7f0000010000, Offset: 0}},
	}

	main := p.Frame(profile.Frame{Function: p.Functions.ID(profile.Function{Name: text("main()"), Linkage: text("_Z4mainv"), Module: program,
		File: text("/src/main.cc"), StartLine: 10}), Module: program, Address: 0x1234, Return: true, File: text("/src/main.cc"), Line: 12, Kind: profile.User})
	inlined := p.Frame(profile.Frame{Function: p.Functions.ID(profile.Function{Name: text("inlined"), Module: program}), Module: program, Address: 0x1234,
		Return: true, File: text("/src/inline.h"), Line: 7, Kind: profile.User, Inlined: true})
	bare := p.Frame(profile.Frame{Module: program, Address: 0x2000, Kind: profile.User})
	unknown := p.Frame(profile.Frame{Module: stripped, Address: 0x42, Kind: profile.User})
	entry := p.Frame(profile.Frame{Function: p.Functions.ID(profile.Function{Name: text("do_syscall_64"), Module: kernel}), Module: kernel,
		Address: 0xffffffff81000010, Kind: profile.Kernel})
	filter := p.Frame(profile.Frame{Function: p.Functions.ID(profile.Function{Name: text("bpf_prog_6deef7357e7b4530_filter"), Module: bpf,
		Program: p.Programs.ID(profile.Program{ID: 7, Name: text("filter"), Tag: text("6deef7357e7b4530"), Type: text("socket_filter")})}), Module: bpf,
		Address: 0xffffffffc0001000, Kind: profile.BPF})

	labels := p.Label(profile.Labels{Comm: text("evil\n\xffname"), PID: 12, CPU: -1, Cgroup: text("/kubepods/pod1/web"),
		Tags: p.Tags.ID(profile.Tag{Key: text("state"), Value: text("R")})})
	deep := p.Stacks.ID([]profile.FrameID{filter, entry, inlined, main})
	p.Add(profile.Sample{Event: 0, Labels: labels, Leaf: filter, Stack: deep, Count: 2, Value: 105263157})
	p.Add(profile.Sample{Event: 0, Labels: labels, Leaf: bare, Stack: p.Stacks.ID([]profile.FrameID{bare, unknown, main}), Count: 1, Value: 0})
	p.Add(profile.Sample{Event: 1, Labels: labels, Leaf: filter, Stack: deep, Count: 1, Value: 1<<64 - 1})
	p.Add(profile.Sample{Event: 1, Leaf: unknown, Count: 1, Value: 1000003})
	return p
}

// Blocked returns a profile of the time in which threads were blocked. It has one sample, without a stack.
func Blocked() *profile.Profile {
	p := profile.New(0)
	p.Events = []profile.Event{{Name: "offcpu-time", Unit: "count", Period: 1}}
	p.Add(profile.Sample{Count: 4, Value: 123456789})
	return p
}

// Large returns a profile of cycles with a sample in each of many functions. Their names hardly compress, and differ between seeds.
func Large(seed, functions int) *profile.Profile {
	p := profile.New(0)
	p.Events = []profile.Event{{Name: "cycles", Unit: "count", Period: 1000}}
	for i := range functions {
		name := p.Strings.ID(fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d/%d", seed, i))))
		f := p.Frame(profile.Frame{Function: p.Functions.ID(profile.Function{Name: name}), Kind: profile.User})
		p.Add(profile.Sample{Leaf: f, Stack: p.Stacks.Push(0, f), Count: 1, Value: 1000})
	}
	return p
}

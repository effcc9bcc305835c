package replay

import (
	"debug/elf"
	"errors"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/internal/symbol/unwind"
	"github.com/bperf/bperf/perfdata"
)

// abi64 is PERF_SAMPLE_REGS_ABI_64.
const abi64 = 2

// unwind appends the callers on the recorded part of the user's stack.
func (r *Resolver) unwind(item *Item) {
	s := item.Sample
	if s.UserRegs.ABI != abi64 {
		return
	}
	arch := r.replay.arch()
	if r.unwinder == nil {
		r.unwinder = unwind.New(arch)
	}
	sample := unwind.Sample{Registers: unwind.FromSample(arch, s.UserRegs.Mask, s.UserRegs.Values), Stack: s.UserStack,
		Module: func(ip uint64) (*unwind.Module, uint64) { return unwindModule(item.user, arch, ip) }}
	r.chain, _ = r.unwinder.Unwind(r.chain[:0], &sample, r.replay.options.MaxStack)
	for _, ip := range r.chain { // they are addresses of the calls already
		r.frames = append(r.frames, r.frame(item, perfdata.MiscUser, ip, nil))
	}
}

func (r *Replay) arch() unwind.Arch {
	if r.reader.Features().Text(perfdata.FeatureArch) == "aarch64" {
		return unwind.ARM64
	}
	return unwind.AMD64
}

// unwindModule returns the unwind tables of the file that is mapped at an address, and the difference between addresses in memory and in
// the file.
func unwindModule(maps *addressSpace, arch unwind.Arch, ip uint64) (*unwind.Module, uint64) {
	m := maps.find(ip)
	if m == nil {
		return nil, 0
	}
	u, ok := m.DSO.names.(*userFile)
	if !ok || u.open() == nil {
		return nil, 0
	}
	addr, ok := u.file.Address(m.addr(ip))
	if !ok {
		return nil, 0
	}
	u.tablesOnce.Do(func() { u.readTables(arch) })
	return u.tables, ip - addr
}

// readTables reads the call frame information of a file. Entries that cannot be read are left out.
func (u *userFile) readTables(arch unwind.Arch) {
	if machine := u.file.Machine(); machine != elf.EM_X86_64 && machine != elf.EM_AARCH64 {
		return
	}
	section := func(name string) unwind.Section {
		s, err := u.file.Section(name)
		if err != nil {
			if !errors.Is(err, object.ErrNoSection) {
				u.problem("some callers are missing behind code of "+u.dso.Name, err)
			}
			return unwind.Section{}
		}
		return unwind.Section{Address: s.Addr, Data: s.Data}
	}
	tables, err := allowance.Work(u.replay.options.Allowance, "read it", func() (*unwind.Module, error) {
		return unwind.NewModule(arch, section(".eh_frame"), section(".debug_frame"), u.file.Code)
	}, nil)
	if err != nil { // with tables, some entries are missing
		u.problem("some callers are missing behind code of "+u.dso.Name, err)
	}
	u.tables = tables
}

package replay

import (
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/perfdata"
)

// detailed are the keys of profile.Details.
const detailed = profile.Weight | profile.DataSource | profile.DataAddress | profile.PhysAddress | profile.PageSize |
	profile.Transaction | profile.CgroupID | profile.Branch | profile.Trace | profile.Block

// details stores what a sample has besides its labels and its stack. branches are the branch of the sample and those before it, nil for
// other samples.
func (p *part) details(item *Item, branches []perfdata.Branch) profile.DetailsID {
	keep := p.own.Keys()
	if keep&detailed == 0 {
		return 0
	}
	s := item.Sample
	d := profile.Details{Weight: weight(s), DataSource: uint64(s.DataSource), PhysAddress: s.PhysAddr, CodePage: s.CodePageSize,
		DataPage: s.DataPageSize, Transaction: s.Transaction}
	if s.Fields.Has(perfdata.SampleWeightStruct) {
		d.InstructionLatency, d.RetireLatency = uint32(s.Weight.Var2()), uint32(s.Weight.Var3())
	}
	if keep.Has(profile.DataAddress) && s.Fields.Has(perfdata.SampleAddr) {
		d.DataAddress = s.Addr
		l := p.Data(item)
		if l.Symbol != nil {
			d.DataOffset = l.Addr - l.Symbol.Start
		}
		frames := p.frames(Frame{s.Addr, l, false})
		d.Data = frames[len(frames)-1]
	}
	if item.cgroups != nil {
		d.CgroupDevice, d.CgroupInode = item.cgroups.Device, item.cgroups.Inode
	}
	if len(branches) > 0 {
		f := branches[0].Flags
		d.Mispredicted, d.InTX, d.Abort, d.Cycles = f.Mispredicted(), f.InTX(), f.Abort(), f.Cycles()
	}
	if keep.Has(profile.Block) && len(branches) > 0 {
		d.Timed = s.Branches[0].Flags.Cycles() > 0
		if len(branches) > 1 && item.Event.Attr.BranchSampleType&perfdata.BranchAny != 0 {
			d.Previous = p.branchEnd(item, branches[1].To)
		}
	}
	p.trace = p.trace[:0]
	if trace := p.filler.replay.options.Trace; trace != nil && keep.Has(profile.Trace) && s.Fields.Has(perfdata.SampleRaw) {
		p.trace = trace(item.Event, s.Raw, p.trace, p.filler.replay.KernelFunction)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.trace) > 0 {
		d.Trace = p.p.Strings.ID(string(p.trace))
	}
	return p.p.Detail(d)
}

// weight returns the weight of a sample, which is the first of three numbers in newer recordings.
func weight(s *perfdata.Sample) uint64 {
	if s.Fields.Has(perfdata.SampleWeightStruct) {
		return uint64(s.Weight.Var1())
	}
	return uint64(s.Weight)
}

// value returns the value of a sample: its period or, with Options.Weights, its weight.
func (p *part) value(item *Item) uint64 {
	if !p.filler.replay.options.Weights {
		return Period(item)
	}
	return max(1, weight(item.Sample))
}

// addBranches adds each branch of a sample's branch stack as a sample.
func (p *part) addBranches(item *Item, sample profile.Sample) {
	branches := item.Sample.Branches
	if len(branches) == 0 {
		return
	}
	sample.Labels, sample.Value = p.label(item), 1
	for i := range branches {
		b := &branches[i]
		sample.Source, sample.Leaf = p.branchEnd(item, b.From), p.branchEnd(item, b.To)
		sample.Details = p.details(item, branches[i:])
		p.own.Add(sample)
	}
	p.own.Events[sample.Event].Stacks++
}

// branchEnd returns the frame at one end of a branch.
func (p *part) branchEnd(item *Item, addr uint64) profile.FrameID {
	frames := p.frames(Frame{addr, p.Branch(item, addr), false})
	return frames[len(frames)-1]
}

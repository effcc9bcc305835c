package replay

import (
	"encoding/hex"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/perfdata"
)

// Profile reads the recording once and returns a profile of its samples, with the keys in keep. Values are periods. Source lines
// (profile.Line) require Options.Lines.
func (r *Replay) Profile(keep profile.Keys) (*profile.Profile, error) {
	f := r.newFiller(keep)
	newHandler := func(resolver *Resolver) Handler {
		p := f.newPart(resolver)
		return func(items []Item, out []byte) []byte {
			for i := range items {
				p.add(&items[i])
			}
			return out
		}
	}
	if err := r.Run(newHandler, io.Discard); err != nil {
		return nil, err
	}
	return f.finish(), nil
}

// DSO returns the DSO of a module of the profile that Profile returned last, or nil if there is none.
func (r *Replay) DSO(id profile.ModuleID) *DSO { return r.dsos[id] }

// filler builds a profile. Each goroutine adds samples to its own part.
type filler struct {
	replay *Replay

	mu      sync.Mutex // protects the fields below
	p       *profile.Profile
	modules map[*DSO]profile.ModuleID
	parts   []*part
}

func (r *Replay) newFiller(keep profile.Keys) *filler {
	f := &filler{replay: r, p: profile.New(keep), modules: map[*DSO]profile.ModuleID{}}
	f.p.SetLimit(r.options.MaxSamples)
	return f
}

// finish completes the profile and returns it.
func (f *filler) finish() *profile.Profile {
	r := f.replay
	f.p.Events = r.profileEvents()
	unknown := uint64(0)
	for _, p := range f.parts {
		f.p.Take(p.own)
		unknown += p.unknown
	}
	r.dsos = make(map[profile.ModuleID]*DSO, len(f.modules))
	for d, id := range f.modules {
		r.dsos[id] = d
	}
	f.p.Mappings = map[profile.ModuleID][]profile.Mapping{}
	for d, id := range f.modules {
		if d.code != nil {
			f.p.Mappings[id] = d.code
		}
	}
	f.p.Sockets = r.sockets()
	f.p.Info = r.info()
	f.p.Losses = r.losses(unknown)
	return f.p
}

// part is one goroutine's share of a profile. It has its own samples and stacks, so that it waits for other goroutines only if a frame is
// new to it. Goroutines share most frames, but only some stacks.
type part struct {
	*filler
	*Resolver
	own     *profile.Profile             // its frames and labels have the numbers of filler.p
	known   []*knownFrames               // by Location.Index: locations without inlined functions
	inlined map[uint32][]profile.FrameID // by Frame.Number: the other locations, innermost frame first
	one     [1]profile.FrameID
	labels  [1 << labelBits]labelled  // last one with each hash of a thread
	callers [1 << callersBits]callers // last ones with each hash
	trace   []byte                    // for Options.Trace
	unknown uint64                    // samples without an event
}

// knownFrame is the frame of a location, or the last one if it has several.
type knownFrame struct {
	ip      uint64
	id      profile.FrameID // 0 if there is none yet
	exact   bool            // valid only for this instruction pointer
	returns bool            // Frame.Return
}

// knownFrames are the frames of neighbouring locations. A list of all locations would be copied again and again while it grows.
type knownFrames [1 << knownFramesBits]knownFrame

const knownFramesBits = 9

func (f *filler) newPart(r *Resolver) *part {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &part{filler: f, Resolver: r, own: profile.New(f.p.Keys())}
	if most := f.replay.options.MaxSamples; most > 0 {
		p.own.SetLimit(max(1, 2*most/runtime.GOMAXPROCS(0))) // goroutines do not get equal shares
	}
	f.parts = append(f.parts, p)
	return p
}

// add adds a sample.
func (p *part) add(item *Item) {
	s := item.Sample
	if s == nil {
		return
	}
	if item.Event == nil {
		p.unknown++
		return
	}
	for len(p.own.Events) <= item.Event.Index {
		p.own.Events = append(p.own.Events, profile.Event{})
	}
	sample := profile.Sample{Event: uint32(item.Event.Index), Time: int64(s.Time), Thread: item.Thread.TID, Count: 1, Value: p.value(item)}
	if p.filler.replay.options.Branches {
		p.addBranches(item, sample)
		return
	}
	if s.Fields.Has(perfdata.SampleIP) {
		// As in perf, the leaf is the function that others are inlined into. The inlined ones are on the stack.
		frames := p.frames(Frame{s.IP, p.IP(item), false})
		sample.Leaf = frames[len(frames)-1]
	}
	if !p.filler.replay.options.NoStacks {
		sample.Stack = p.stack(item)
	}
	if item.sum != nil {
		p.addSum(item, sample)
		return
	}
	sample.Labels, sample.Details = p.label(item), p.details(item, nil)
	p.own.Add(sample)
}

// stack returns the stack of a sample's callchain, including inlined functions.
func (p *part) stack(item *Item) profile.StackID {
	known, innermost, found := p.knownCallers(item)
	if found {
		return p.push(known.stack, innermost)
	}
	frames, _ := p.Callchain(item)
	if len(frames) == 0 {
		return 0
	}
	var stack profile.StackID
	for _, f := range slices.Backward(frames[1:]) {
		stack = p.push(stack, f)
	}
	if known != nil && !p.cut { // cut callchains are not cached, because each sample with one is counted
		known.user, known.kernel, known.mark, known.stack = item.user, item.kernel, item.Sample.Callchain[0], stack
		known.chain = append(known.chain[:0], item.Sample.Callchain[2:]...)
	}
	return p.push(stack, frames[0])
}

// push adds a frame, with the functions inlined there, to a stack.
func (p *part) push(stack profile.StackID, f Frame) profile.StackID {
	for _, id := range slices.Backward(p.frames(f)) {
		stack = p.own.Stacks.Push(stack, id)
	}
	return stack
}

// callers caches the stack of a callchain without its innermost frame. It is valid while the address spaces are the same. Many samples at
// different addresses of a function have the same callers.
type callers struct {
	user, kernel *addressSpace
	mark         uint64 // of the innermost frame
	chain        []uint64
	stack        profile.StackID
}

// callersBits is the number of callers that a goroutine caches, as a power of two.
const callersBits = 11

// knownCallers returns the cache entry for the callers of a sample, and the sample's innermost frame. found reports whether the entry has
// these callers. known is nil if they depend on more than their part of the callchain.
func (p *part) knownCallers(item *Item) (known *callers, innermost Frame, found bool) {
	chain := item.Sample.Callchain
	if len(chain) < 3 || perfdata.IsContext(chain[1]) || len(item.Sample.UserStack) > 0 {
		return nil, innermost, false
	}
	mode, ok := modeOf(chain[0])
	if !ok {
		return nil, innermost, false
	}
	if innermost = p.frame(item, mode, chain[1], nil); innermost.entry || innermost.thunk {
		return nil, innermost, false
	}
	hash := chain[0]
	for _, ip := range chain[2:] {
		hash = (hash ^ ip) * 0x9e3779b97f4a7c15
		hash ^= hash >> 32
	}
	known = &p.callers[hash>>(64-callersBits)]
	return known, innermost, known.user == item.user && known.kernel == item.kernel && known.mark == chain[0] && slices.Equal(known.chain, chain[2:])
}

// Period returns the number of events that a sample represents.
func Period(item *Item) uint64 {
	if item.Sample.Fields.Has(perfdata.SamplePeriod) || item.Event == nil {
		return item.Sample.Period
	}
	return item.Event.Attr.SamplePeriod
}

// labelKey identifies labels.
type labelKey struct {
	Thread
	cpu    int32
	cgroup string
}

type labelled struct {
	labelKey
	id    profile.LabelsID
	known bool
}

// labelBits is the number of labels that a goroutine caches, as a power of two.
const labelBits = 8

func (p *part) label(item *Item) profile.LabelsID {
	key := labelKey{item.Thread, -1, item.Cgroup}
	if item.Sample.Fields.Has(perfdata.SampleCPU) {
		key.cpu = int32(item.Sample.CPU)
	}
	last := &p.labels[(key.TID^key.cpu<<4)&(1<<labelBits-1)]
	if !last.known || last.labelKey != key {
		p.mu.Lock()
		defer p.mu.Unlock()
		*last = labelled{key, p.p.Label(profile.Labels{Comm: p.p.Strings.ID(key.Comm), PID: key.PID, TID: key.TID, CPU: key.cpu,
			Cgroup: p.p.Strings.ID(key.cgroup)}), true}
	}
	return last.id
}

// frames returns the frames of a callchain entry: those that are inlined there, then the one that contains them. They are valid until the
// next call.
func (p *part) frames(f Frame) []profile.FrameID {
	if at := int(f.Index >> knownFramesBits); at < len(p.known) {
		if k := &p.known[at][f.Index%(1<<knownFramesBits)]; k.id != 0 && k.returns == f.Return && (!k.exact || k.ip == f.IP) {
			p.one[0] = k.id
			return p.one[:]
		}
	}
	if ids := p.inlined[f.Number()]; ids != nil {
		return ids
	}
	ids := p.newFrames(f)
	p.remember(f, ids)
	return ids
}

func (p *part) remember(f Frame, ids []profile.FrameID) {
	// As in perf, each instruction pointer without a symbol has its own frame.
	exact := f.DSO != nil && !f.DSO.inMemory && (f.Symbol == nil || p.own.Keys().Has(profile.IP))
	if len(ids) > 1 {
		if exact {
			return
		}
		if p.inlined == nil {
			p.inlined = map[uint32][]profile.FrameID{}
		}
		p.inlined[f.Number()] = ids
		return
	}
	for len(p.known) <= int(f.Index>>knownFramesBits) {
		p.known = append(p.known, new(knownFrames))
	}
	p.known[f.Index>>knownFramesBits][f.Index%(1<<knownFramesBits)] = knownFrame{f.IP, ids[0], exact, f.Return}
}

func (f *filler) newFrames(of Frame) []profile.FrameID {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := of.Location
	frame := profile.Frame{Address: of.Address(), Return: of.Return, IP: of.IP, Kind: l.Kind, Line: uint32(max(0, l.Source.Line)),
		File: f.p.Strings.ID(l.Source.File)}
	if l.DSO != nil {
		frame.Module = f.module(l.DSO)
	}
	var ids []profile.FrameID
	for i := range l.Source.Inlined {
		in := &l.Source.Inlined[i]
		inner := frame
		inner.Function = f.p.Functions.ID(profile.Function{Name: f.p.Strings.ID(in.Function), Module: frame.Module, File: f.p.Strings.ID(in.File),
			StartLine: in.StartLine})
		inner.File, inner.Line, inner.Inlined = f.p.Strings.ID(in.File), in.Line, true
		ids = append(ids, f.p.Frame(inner))
	}
	if s := l.Symbol; s != nil {
		function := profile.Function{Name: f.p.Strings.ID(s.Name), Module: frame.Module, Start: s.Start, End: s.End,
			StartLine: uint32(max(0, s.StartLine))}
		if s.Linkage != s.Name {
			function.Linkage = f.p.Strings.ID(s.Linkage)
		}
		function.Program = f.program(l.DSO)
		frame.Function = f.p.Functions.ID(function)
	}
	return append(ids, f.p.Frame(frame))
}

func (f *filler) module(d *DSO) profile.ModuleID {
	id, known := f.modules[d]
	if !known {
		id = f.p.Modules.ID(profile.Module{Path: f.p.Strings.ID(d.Path), Name: f.p.Strings.ID(d.Short),
			BuildID: f.p.Strings.ID(d.fileBuildID()), Size: d.mappedSize(), Order: uint32(d.Index)})
		f.modules[d] = id
	}
	return id
}

func (f *filler) program(d *DSO) profile.ProgramID {
	if d.Kind != profile.BPF || d.Program == 0 {
		return 0
	}
	program := profile.Program{ID: d.Program}
	if info := f.replay.machine.programs.byID[d.Program]; info != nil {
		program.Name, program.Tag = f.p.Strings.ID(info.Name), f.p.Strings.ID(hex.EncodeToString(info.Tag[:]))
	}
	return f.p.Programs.ID(program)
}

// unit returns the unit of an event's periods: nanoseconds for the clocks among the software events.
func unit(a *perfdata.Attr) string {
	if a.Type == perfdata.TypeSoftware && (a.Config == perfdata.SoftwareCPUClock || a.Config == perfdata.SoftwareTaskClock) {
		return "ns"
	}
	return "count"
}

// profileEvents returns the events of the profile, still without sums.
func (r *Replay) profileEvents() []profile.Event {
	var events []profile.Event
	for _, e := range r.sums.events() {
		event := profile.Event{Name: e.Name, Unit: unit(&e.Attr), Leader: e.Index}
		if e.Attr.Has(perfdata.AttrFreq) {
			event.Frequency = e.Attr.SamplePeriod
		} else {
			event.Period = e.Attr.SamplePeriod
		}
		events = append(events, event)
	}
	groups, _ := r.reader.Features().Get(perfdata.FeatureGroupDesc)
	list, _ := groups.(perfdata.GroupDescriptions)
	for _, g := range list.Disjoint(len(events)) {
		for i := range g.Members {
			events[g.Leader+i].Leader = int(g.Leader)
		}
	}
	return events
}

func (r *Replay) info() profile.Info {
	f := r.reader.Features()
	info := profile.Info{Hostname: f.Text(perfdata.FeatureHostname), Release: f.Text(perfdata.FeatureOSRelease), Arch: f.Text(perfdata.FeatureArch)}
	command, _ := f.Get(perfdata.FeatureCmdline)
	line, _ := command.(perfdata.CommandLine)
	info.Command = line
	if r.stats.Samples > 0 {
		info.Duration = time.Duration(r.stats.Last - r.stats.First)
		value, _ := f.Get(perfdata.FeatureClockData)
		if clock, ok := value.(perfdata.ClockData); ok {
			info.Start = time.Unix(0, int64(clock.WallClock+r.stats.First-clock.Clock))
		}
	}
	return info
}

// sockets returns the socket of each CPU, as far as the recording has the topology of its machine.
func (r *Replay) sockets() []int32 {
	value, _ := r.reader.Features().Get(perfdata.FeatureCPUTopology)
	topology, _ := value.(perfdata.CPUTopology)
	var sockets []int32
	for _, cpu := range topology.CPUs {
		sockets = append(sockets, int32(cpu.Socket))
	}
	return sockets
}

func (r *Replay) losses(unknown uint64) profile.Losses {
	s := r.Stats()
	losses := profile.Losses{Records: s.LostRecords, Samples: s.LostSamples, Filtered: s.BPFFiltered, Truncated: s.CutChains}
	if unknown > 0 {
		losses.Reasons = append(losses.Reasons, profile.Loss{Reason: "they are of events that the recording does not describe", Samples: unknown})
	}
	return losses
}

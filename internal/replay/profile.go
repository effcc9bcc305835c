package replay

import (
	"cmp"
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
	r.locations, r.resolvers, r.shift = &locations{}, nil, shift{} // completing the profile takes memory, too
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
	// The first part is taken as it is, so it should be the largest.
	slices.SortFunc(f.parts, func(a, b *part) int { return cmp.Compare(len(b.own.Stacks.All()), len(a.own.Stacks.All())) })
	for i, p := range f.parts {
		f.parts[i] = nil // its caches are not needed any more
		unknown += p.unknown
		f.p.Take(p.own)
	}
	r.dsos = make(map[profile.ModuleID]*DSO, len(f.modules))
	for d, id := range f.modules {
		r.dsos[id] = d
	}
	f.p.Mappings = map[profile.ModuleID][]profile.Mapping{}
	for d, id := range f.modules {
		if len(d.code.parts) > 0 {
			f.p.Mappings[id] = d.code.parts
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
	own      *profile.Profile    // its frames and labels have the numbers of filler.p
	known    []*knownFrames      // by Location.Index
	inlined  [][]profile.FrameID // of the locations with inlined functions, innermost frame first
	one      [1]profile.FrameID
	bySymbol map[*Symbol]symbolFrame   // frames of functions in which all addresses have the same one; nil if none has
	labels   [1 << labelBits]labelled  // last one with each hash of a thread
	callers  [1 << callersBits]callers // last ones with each hash
	trails   [1 << trailBits]trail     // last ones with each hash of a thread
	trace    []byte                    // for Options.Trace
	unknown  uint64                    // samples without an event
}

// knownFrame is the frame of a location, or the last one if it has several, with the functions inlined there.
type knownFrame struct {
	ip      uint64
	id      profile.FrameID // of the frame itself; 0 if there is none yet
	inlined uint32          // 1 + the index in part.inlined; 0 without inlined functions
	exact   bool            // valid only for this instruction pointer
	returns bool            // Frame.Return
}

// knownFrames are the frames of neighbouring locations. A list of all locations would be copied again and again while it grows.
type knownFrames [1 << knownFramesBits]knownFrame

const knownFramesBits = 9

// symbolFrame is the frame of a symbol without inlined functions.
type symbolFrame struct {
	dso *DSO
	id  profile.FrameID
}

func (f *filler) newPart(r *Resolver) *part {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &part{filler: f, Resolver: r, own: profile.New(f.p.Keys())}
	if p.own.Keys()&(profile.IP|profile.Address|profile.Line) == 0 {
		p.bySymbol = map[*Symbol]symbolFrame{}
	}
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
	var leaf Frame
	if s.Fields.Has(perfdata.SampleIP) {
		// As in perf, the leaf is the function that others are inlined into. The inlined ones are on the stack.
		leaf = Frame{s.IP, p.IP(item), false}
		frames := p.frames(leaf)
		sample.Leaf = frames[len(frames)-1]
	}
	if !p.filler.replay.options.NoStacks {
		sample.Stack = p.stack(item, leaf)
	}
	if item.sum != nil {
		p.addSum(item, sample)
		return
	}
	sample.Labels, sample.Details = p.label(item), p.details(item, nil)
	p.own.Add(sample)
}

// stack returns the stack of a sample's callchain, including inlined functions. leaf is the frame of its instruction pointer, if it has one.
func (p *part) stack(item *Item, leaf Frame) profile.StackID {
	kernel, user, ok := p.split(item.Sample)
	if !ok {
		frames, _ := p.Callchain(item)
		var stack profile.StackID
		for _, f := range slices.Backward(frames) {
			stack = p.push(stack, f)
		}
		return stack
	}
	var outer profile.StackID
	mode, entries := perfdata.MiscUser, user
	if len(kernel) > 0 {
		outer = p.callersOf(item, mode, user, nil, 0)
		mode, entries = perfdata.MiscKernel, kernel
	}
	innermost := leaf
	if leaf.Location == nil || leaf.IP != entries[0] || item.Misc.CPUMode() != mode {
		innermost = p.frame(item, mode, entries[0], nil)
	}
	return p.push(p.callersOf(item, mode, entries[1:], innermost.Location, outer), innermost)
}

// split returns the parts of a callchain without their marks. One of them can be empty. ok is false if the callchain has anything else, or
// not all of it is shown.
func (p *part) split(s *perfdata.Sample) (kernel, user []uint64, ok bool) {
	chain := s.Callchain
	if len(chain) < 2 || len(chain) > p.Resolver.replay.options.MaxStack || len(s.UserStack) > 0 {
		return nil, nil, false
	}
	end := slices.IndexFunc(chain[1:], perfdata.IsContext) + 1
	switch {
	case end == 0 && chain[0] == perfdata.ContextUser:
		return nil, chain[1:], true
	case end == 0 && chain[0] == perfdata.ContextKernel:
		return chain[1:], nil, true
	case end > 1 && chain[0] == perfdata.ContextKernel && chain[end] == perfdata.ContextUser:
		user = chain[end+1:]
		return chain[1:end], user, !slices.ContainsFunc(user, perfdata.IsContext)
	}
	return nil, nil, false
}

// push adds a frame, with the functions inlined there, to a stack.
func (p *part) push(stack profile.StackID, f Frame) profile.StackID {
	for _, id := range slices.Backward(p.frames(f)) {
		stack = p.own.Stacks.Push(stack, id)
	}
	return stack
}

// origin is what the stack of a part of a callchain depends on, besides its entries.
type origin struct {
	maps  *addressSpace
	mode  perfdata.Misc
	outer profile.StackID // what called the outermost entry
}

// callers caches the stack of a part of a callchain. Many samples at different addresses of a function have the same callers, and many
// system calls the same way through the kernel.
type callers struct {
	origin
	called  bool // the first entry is a return address
	entries []uint64
	stack   profile.StackID
}

// callersBits is the number of callers that a goroutine caches, as a power of two.
const callersBits = 11

// callersOf adds entries of a callchain to the stack outer. inner is the location of the entry before them; nil if there is none.
func (p *part) callersOf(item *Item, mode perfdata.Misc, entries []uint64, inner *Location, outer profile.StackID) profile.StackID {
	from := origin{item.maps(mode), mode, outer}
	if inner != nil && (inner.entry || inner.thunk) { // what entries[0] is depends on more than the entries
		return p.newCallers(item, from, entries, inner)
	}
	hash := uint64(outer)
	for _, ip := range entries {
		hash = (hash ^ ip) * 0x9e3779b97f4a7c15
		hash ^= hash >> 32
	}
	known := &p.callers[hash>>(64-callersBits)]
	if known.origin != from || known.called != (inner != nil) || !slices.Equal(known.entries, entries) {
		*known = callers{from, inner != nil, append(known.entries[:0], entries...), p.newCallers(item, from, entries, inner)}
	}
	return known.stack
}

// trail is a part of a callchain, the outermost entry first.
type trail struct {
	origin
	steps []step
}

// step is an entry of a callchain.
type step struct {
	ip      uint64
	returns bool            // Frame.Return
	stack   profile.StackID // that ends here
}

// trailBits is the number of trails that a goroutine keeps, as a power of two.
const trailBits = 7

// newCallers does what callersOf does. It begins where the callers differ from those of an earlier sample of the thread.
func (p *part) newCallers(item *Item, from origin, entries []uint64, inner *Location) profile.StackID {
	last := &p.trails[(uint32(item.Thread.TID)<<1^uint32(from.mode))&(1<<trailBits-1)]
	if last.origin != from {
		last.origin, last.steps = from, last.steps[:0]
	}
	same := 0
	for same < min(len(last.steps), len(entries)) && last.steps[same].ip == entries[len(entries)-1-same] {
		same++
	}
	frames, stack, keep := p.Resolver.frames[:0], from.outer, 0
	for i, ip := range entries {
		frame := p.frame(item, from.mode, ip, inner)
		if at := len(entries) - 1 - i; at < same && last.steps[at].returns == frame.Return { // the callers of the same frame are the same
			stack, keep = last.steps[at].stack, at+1
			break
		}
		frames = append(frames, frame)
		inner = frame.Location
	}
	p.Resolver.frames, last.steps = frames, last.steps[:keep]
	for _, f := range slices.Backward(frames) {
		stack = p.push(stack, f)
		last.steps = append(last.steps, step{f.IP, f.Return, stack})
	}
	return stack
}

// Period returns the number of events that a sample represents.
func Period(item *Item) uint64 {
	if item.Sample.Fields.Has(perfdata.SamplePeriod) || item.Event == nil {
		return item.Sample.Period
	}
	return item.Event.Attr.SamplePeriod
}

// labelKey identifies labels without tags.
type labelKey struct {
	Thread
	cpu    int32
	cgroup string
	sum    bool // the labels are those of a sum, which also have the container
}

type labelled struct {
	labelKey
	id    profile.LabelsID
	known bool
}

// labelBits is the number of labels that a goroutine caches, as a power of two.
const labelBits = 8

func (p *part) label(item *Item) profile.LabelsID {
	key := labelKey{item.Thread, -1, item.Cgroup, false}
	if item.Sample.Fields.Has(perfdata.SampleCPU) {
		key.cpu = int32(item.Sample.CPU)
	}
	return p.labelOf(key)
}

// labelOf returns the labels of a key. It remembers the last ones.
func (p *part) labelOf(key labelKey) profile.LabelsID {
	last := &p.labels[(key.TID^key.cpu<<4)&(1<<labelBits-1)]
	if !last.known || last.labelKey != key {
		*last = labelled{key, p.newLabel(key, nil), true}
	}
	return last.id
}

// newLabel returns the labels of a key, with tags.
func (p *part) newLabel(key labelKey, tags []SumTag) profile.LabelsID {
	if key.sum {
		if id := containerOf(key.cgroup); id != "" {
			tags = append(tags[:len(tags):len(tags)], SumTag{"container", id})
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.p.Label(profile.Labels{Comm: p.p.Strings.ID(key.Comm), PID: key.PID, TID: key.TID, CPU: key.cpu,
		Cgroup: p.p.Strings.ID(key.cgroup), Tags: p.tags(tags)})
}

// frames returns the frames of a callchain entry: those that are inlined there, then the one that contains them. They are valid until the
// next call.
func (p *part) frames(f Frame) []profile.FrameID {
	if at := int(f.Index >> knownFramesBits); at < len(p.known) {
		if k := &p.known[at][f.Index%(1<<knownFramesBits)]; k.id != 0 && k.returns == f.Return && (!k.exact || k.ip == f.IP) {
			if k.inlined > 0 {
				return p.inlined[k.inlined-1]
			}
			p.one[0] = k.id
			return p.one[:]
		}
	}
	if known := p.bySymbol[f.Symbol]; known.dso == f.DSO && known.id != 0 && len(f.Source.Inlined) == 0 {
		p.one[0] = known.id
		p.remember(f, p.one[:])
		return p.one[:]
	}
	ids := p.newFrames(f, p.one[:0])
	if p.bySymbol != nil && f.Symbol != nil && len(ids) == 1 {
		p.bySymbol[f.Symbol] = symbolFrame{f.DSO, ids[0]}
	}
	p.remember(f, ids)
	return ids
}

func (p *part) remember(f Frame, ids []profile.FrameID) {
	// As in perf, each instruction pointer without a symbol has its own frame.
	exact := f.DSO != nil && !f.DSO.inMemory && (f.Symbol == nil || p.own.Keys().Has(profile.IP))
	for len(p.known) <= int(f.Index>>knownFramesBits) {
		p.known = append(p.known, new(knownFrames))
	}
	known := &p.known[f.Index>>knownFramesBits][f.Index%(1<<knownFramesBits)]
	inlined := known.inlined
	if len(ids) > 1 && inlined == 0 {
		p.inlined = append(p.inlined, nil)
		inlined = uint32(len(p.inlined))
	}
	if inlined > 0 {
		p.inlined[inlined-1] = ids
	}
	*known = knownFrame{f.IP, ids[len(ids)-1], inlined, exact, f.Return}
}

// newFrames appends the frames of a callchain entry to ids, as part.frames returns them.
func (f *filler) newFrames(of Frame, ids []profile.FrameID) []profile.FrameID {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := of.Location
	frame := profile.Frame{Address: of.Address(), Return: of.Return, IP: of.IP, Kind: l.Kind, Line: uint32(max(0, l.Source.Line)),
		File: f.p.Strings.ID(l.Source.File)}
	if l.DSO != nil {
		frame.Module = f.module(l.DSO)
	}
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

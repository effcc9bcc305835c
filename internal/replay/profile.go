package replay

import (
	"io"
	"sync"
	"time"

	"github.com/bperf/bperf/internal/perfdata"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/profile"
)

// Profile goes through the recording once and makes a profile of its samples, which are told apart by keep. Values are periods. What follows
// an instruction pointer in keep (Line) is there only if Options asked for it.
func (r *Replay) Profile(keep profile.Keys) (*profile.Profile, error) {
	f := r.newFiller(keep)
	newHandler := func(resolver *Resolver) Handler {
		return (&chains{Resolver: resolver, fill: f.fill}).handle
	}
	if err := r.Run(newHandler, io.Discard); err != nil {
		return nil, err
	}
	return f.finish(), nil
}

func (r *Replay) newFiller(keep profile.Keys) *filler {
	return &filler{replay: r, p: profile.New(keep)}
}

// finish completes the profile.
func (f *filler) finish() *profile.Profile {
	r := f.replay
	events := r.profileEvents()
	for i, e := range f.p.Events {
		events[i].Samples, events[i].Value = e.Samples, e.Value
	}
	f.p.Events = events
	f.p.Info = r.info()
	f.p.Losses = r.losses(f.unknown)
	return f.p
}

// chains resolve the addresses of samples, for one goroutine, and then put several samples at a time into the profile, which there is one of:
// finding out what is at an address is most of the work, and a profile for each goroutine would have most stacks in each.
type chains struct {
	*Resolver
	fill   func(*chains, []Item)
	frames []Frame // of all samples at hand, one after the other
	ends   []int   // in frames, of each sample
	at     []*Location
}

func (c *chains) handle(items []Item, out []byte) []byte {
	c.frames, c.ends, c.at = c.frames[:0], c.ends[:0], c.at[:0]
	for i := range items {
		c.resolve(&items[i])
	}
	c.fill(c, items)
	return out
}

// each calls add for each sample among items.
func (c *chains) each(items []Item, add func(item *Item, at *Location, chain []Frame)) {
	from := 0
	for i := range items {
		if items[i].Sample != nil {
			add(&items[i], c.at[i], c.frames[from:c.ends[i]])
		}
		from = c.ends[i]
	}
}

func (f *filler) fill(c *chains, items []Item) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.each(items, f.add)
}

func (c *chains) resolve(item *Item) {
	var at *Location
	if item.Sample != nil && item.Event != nil {
		if item.Sample.Fields.Has(perfdata.SampleIP) {
			at = c.IP(item)
		}
		chain, _ := c.Callchain(item)
		c.frames = append(c.frames, chain...)
	}
	c.at, c.ends = append(c.at, at), append(c.ends, len(c.frames))
}

// filler puts samples into a profile.
type filler struct {
	replay *Replay

	mu      sync.Mutex // of all that follows
	p       *profile.Profile
	known   []profile.FrameID            // by Location.Index, of those where nothing is inlined; 0 if it is not known yet
	inlined map[uint32][]profile.FrameID // by Location.Index, of the others: the innermost first
	one     [1]profile.FrameID
	modules []profile.ModuleID // by DSO.Index
	stack   []profile.FrameID
	labels  map[labelKey]profile.LabelsID
	unknown uint64 // samples without an event
}

// labelKey is what labels are made of.
type labelKey struct {
	Thread
	cpu    int32
	cgroup string
}

// add adds a sample, whose instruction pointer is at a location, or nil, and which has a callchain or an empty one.
func (f *filler) add(item *Item, at *Location, chain []Frame) {
	s := item.Sample
	if item.Event == nil {
		f.unknown++
		return
	}
	for len(f.p.Events) <= item.Event.Index {
		f.p.Events = append(f.p.Events, profile.Event{})
	}
	sample := profile.Sample{Event: uint32(item.Event.Index), Time: int64(s.Time), Thread: item.Thread.TID,
		Count: 1, Value: Period(item)}
	if at != nil {
		// As in perf, a sample is of the function that others are inlined into: these are on its stack.
		frames := f.frames(s.IP, at)
		sample.Leaf = frames[len(frames)-1]
	}
	f.stack = f.stack[:0]
	for _, frame := range chain {
		f.stack = append(f.stack, f.frames(frame.IP, frame.Location)...)
	}
	sample.Stack = f.p.Stacks.ID(f.stack)
	if f.replay.options.Sums && !isTracepoint(item.Event) {
		f.addSum(item, sample)
		return
	}
	sample.Labels = f.label(item)
	f.p.Add(sample)
}

// Period is the number of events that a sample stands for.
func Period(item *Item) uint64 {
	if item.Sample.Fields.Has(perfdata.SamplePeriod) || item.Event == nil {
		return item.Sample.Period
	}
	return item.Event.Attr.SamplePeriod
}

func (f *filler) label(item *Item) profile.LabelsID {
	key := labelKey{item.Thread, -1, item.Cgroup}
	if item.Sample.Fields.Has(perfdata.SampleCPU) {
		key.cpu = int32(item.Sample.CPU)
	}
	id, ok := f.labels[key]
	if !ok {
		if f.labels == nil {
			f.labels = map[labelKey]profile.LabelsID{}
		}
		id = f.p.Label(profile.Labels{Comm: f.p.Strings.ID(key.Comm), PID: key.PID, TID: key.TID, CPU: key.cpu, Cgroup: f.p.Strings.ID(key.cgroup)})
		f.labels[key] = id
	}
	return id
}

// frames are those of a location: one, and those that are inlined into it in front of it.
func (f *filler) frames(ip uint64, l *Location) []profile.FrameID {
	if ids := f.reused(l); ids != nil {
		return ids
	}
	frame := profile.Frame{Address: l.Addr, IP: ip, Kind: l.Kind, Line: uint32(max(0, l.Source.Line)), File: f.p.Strings.ID(l.Source.File)}
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
	ids = append(ids, f.p.Frame(frame))
	if l.Symbol != nil || l.DSO == nil || l.DSO.inMemory { // without a symbol its instruction pointer tells a frame apart, as in perf
		f.remember(l, ids)
	}
	return ids
}

// reused are the frames of a location that was there before; nil if it was not. They are valid until the next call.
func (f *filler) reused(l *Location) []profile.FrameID {
	if int(l.Index) < len(f.known) && f.known[l.Index] != 0 {
		f.one[0] = f.known[l.Index]
		return f.one[:]
	}
	return f.inlined[l.Index]
}

func (f *filler) remember(l *Location, ids []profile.FrameID) {
	if len(ids) > 1 {
		if f.inlined == nil {
			f.inlined = map[uint32][]profile.FrameID{}
		}
		f.inlined[l.Index] = ids
		return
	}
	for len(f.known) <= int(l.Index) {
		f.known = append(f.known, 0)
	}
	f.known[l.Index] = ids[0]
}

func (f *filler) module(d *DSO) profile.ModuleID {
	for len(f.modules) <= d.Index {
		f.modules = append(f.modules, 0)
	}
	if f.modules[d.Index] == 0 {
		f.modules[d.Index] = f.p.Modules.ID(profile.Module{Path: f.p.Strings.ID(d.Path), Name: f.p.Strings.ID(d.Short),
			BuildID: f.p.Strings.ID(d.HexBuildID()), Order: uint32(d.Index)})
	}
	return f.modules[d.Index]
}

func (f *filler) program(d *DSO) profile.ProgramID {
	if d.Kind != profile.BPF || d.Program == 0 {
		return 0
	}
	program := profile.Program{ID: d.Program}
	if info := f.replay.machine.programs.byID[d.Program]; info != nil {
		program.Name, program.Tag = f.p.Strings.ID(info.Name), f.p.Strings.ID(hexTag(info.Tag))
	}
	return f.p.Programs.ID(program)
}

// unit is that of an event's periods: the clocks among the software events count nanoseconds.
func unit(a *perfdata.Attr) string {
	if a.Type == perfevent.TypeSoftware && (a.Config == perfevent.SoftwareCPUClock || a.Config == perfevent.SoftwareTaskClock) {
		return "ns"
	}
	return "count"
}

// profileEvents are the events of the recording without sums.
func (r *Replay) profileEvents() []profile.Event {
	var events []profile.Event
	for _, e := range r.reader.Events() {
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
	for _, g := range list {
		for i := uint64(g.Leader); i < uint64(g.Leader)+uint64(g.Members) && i < uint64(len(events)); i++ {
			events[i].Leader = int(g.Leader)
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

func (r *Replay) losses(unknown uint64) profile.Losses {
	s := r.Stats()
	losses := profile.Losses{Records: s.LostRecords, Samples: s.LostSamples, Filtered: s.BPFFiltered}
	if unknown > 0 {
		losses.Reasons = append(losses.Reasons, profile.Loss{Reason: "they are of events that the recording does not describe", Samples: unknown})
	}
	return losses
}

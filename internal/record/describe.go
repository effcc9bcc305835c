package record

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/record/host"
	"github.com/bperf/bperf/perfdata"
)

// described returns the events in the form in which the file lists them.
func (p *plan) described() []*perfdata.Event {
	var all []*perfdata.Event
	listed := p.listed()
	for _, o := range listed {
		attr := o.attr
		if len(p.events) > 1 && p.events[1].silent { // the dummy
			attr.Flags |= p.events[1].attr.Flags & tracking
		}
		if o.unwound { // the file has the user's part
			attr.Flags &^= perfdata.AttrExcludeCallchainUser
		}
		if o.kind == offCPUSamples { // the file has callchains instead of raw data
			attr.SampleType = attr.SampleType&^perfdata.SampleRaw | perfdata.SampleCallchain
		}
		all = append(all, &perfdata.Event{Attr: attr, IDs: o.ids, Name: o.event.Name, CPUs: o.event.CPUs})
	}
	return all
}

// describe adds features that describe the recording.
func (p *plan) describe(f host.Features) error {
	f[perfdata.FeatureVersion] = perfdata.Text(p.cfg.Version)
	f[perfdata.FeatureCmdline] = perfdata.CommandLine(p.cfg.CommandLine)
	var events perfdata.EventDescriptions
	for _, e := range p.described() {
		events = append(events, perfdata.EventDescription{Attr: e.Attr, Name: e.Name, IDs: e.IDs})
	}
	f[perfdata.FeatureEventDesc] = events
	if slices.ContainsFunc(p.events, func(o *opened) bool { return o.attr.SampleType&perfdata.SampleBranchStack != 0 }) {
		f[perfdata.FeatureBranchStack] = perfdata.Flag{}
	}
	if all := p.outputTypes(); p.cfg.pipe() && len(all) > 0 {
		if types := linear.AppendBTF(nil, binary.LittleEndian, all); len(types) <= mostRaw { // what fits into a record
			f[perfdata.FeatureBPFBTF] = perfdata.Opaque(types)
		}
	}
	if groups := p.groups(); len(groups) > 0 {
		f[perfdata.FeatureGroupDesc] = groups
	}
	p.describeClock(f)
	return p.addFormats(f)
}

func (p *plan) groups() perfdata.GroupDescriptions {
	var groups perfdata.GroupDescriptions
	for i, o := range p.events {
		if o.leader != o {
			continue
		}
		members := 1
		for _, other := range p.events[i+1:] {
			if other.leader != o {
				break
			}
			members++
		}
		if members > 1 {
			groups = append(groups, perfdata.GroupDescription{Name: "{anon_group}", Leader: uint32(i), Members: uint32(members)})
		}
	}
	return groups
}

// describeClock adds the relation between the clock of the events and the time of day.
func (p *plan) describeClock(f host.Features) {
	if p.cfg.ClockID == nil {
		return
	}
	id := *p.cfg.ClockID
	if resolution, err := kernel.ClockResolution(id); err == nil {
		f[perfdata.FeatureClockID] = perfdata.ClockResolution(resolution)
	}
	if clock, wall, err := kernel.ClockAndWall(id); err == nil {
		f[perfdata.FeatureClockData] = perfdata.ClockData{ClockID: uint32(id), WallClock: wall, Clock: clock}
	}
}

// setFeatures sets the features of a file before it is closed.
func (c *collector) setFeatures(w *perfdata.Writer) error {
	pipe := c.cfg.pipe()
	all := host.Features{}
	if !pipe { // a pipe has these at its start
		maps.Copy(all, c.machine)
	}
	if builds := c.builds.all(); len(builds) > 0 {
		all[perfdata.FeatureBuildID] = builds
	}
	if c.tally.first != 0 && !pipe {
		all[perfdata.FeatureSampleTime] = perfdata.SampleTimes{First: c.tally.first, Last: c.tally.last}
	}
	if !pipe {
		c.programs.features(all, c.outputTypes())
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if err := w.SetFeature(id, all[id]); err != nil {
			return err
		}
	}
	if !pipe || c.cfg.Sums != nil { // a stream of sums has got them already
		return nil
	}
	return c.programs.pipe(w.SetFeature)
}

// addFormats adds the formats of the recorded tracepoints.
func (p *plan) addFormats(f host.Features) error {
	var names []string
	for _, o := range p.events {
		if o.event.Tracepoint != "" {
			names = append(names, o.event.Tracepoint)
		}
	}
	if len(names) == 0 {
		return nil
	}
	data, err := host.Tracing(os.DirFS(procfs.Tracefs()), names)
	if err != nil {
		return err
	}
	f[perfdata.FeatureTracingData] = data
	return nil
}

// introduceEvents writes the event of each ID, and the target's CPUs and threads.
func (c *collector) introduceEvents() error {
	index := &perfdata.IDIndex{}
	for _, o := range c.listed() {
		for i, at := range o.scopes[:len(o.scopes)-o.later] {
			index.Entries = append(index.Entries, perfdata.IDIndexEntry{ID: o.ids[i], Index: uint64(i), CPU: int64(at.cpu), TID: int64(at.tid)})
		}
	}
	const most = 2000 // entries that fit into a record
	for rest := index.Entries; len(rest) > 0; {
		n := min(len(rest), most)
		if err := c.out.write(0, &perfdata.IDIndex{Entries: rest[:n]}); err != nil {
			return err
		}
		rest = rest[n:]
	}
	threads := &perfdata.ThreadMap{}
	for _, t := range c.target.Threads {
		threads.Threads = append(threads.Threads, perfdata.MappedThread{TID: int64(t.TID), Comm: t.Comm})
	}
	if len(threads.Threads) == 0 {
		threads.Threads = []perfdata.MappedThread{{TID: -1}}
	}
	const mostThreads = 2000
	if len(threads.Threads) <= mostThreads {
		if err := c.out.write(0, threads); err != nil {
			return err
		}
	}
	if len(c.target.CPUs) > 0 {
		return c.out.write(0, &perfdata.CPUMap{CPUs: c.target.CPUs})
	}
	return nil
}

// conclude writes what is known at the end: off-CPU times, sums, the last BPF programs, and samples that filters dropped or that were lost.
func (c *collector) conclude() error {
	if err := c.writeOffCPU(true); err != nil {
		return err
	}
	if err := c.introduceAtEnd(); err != nil {
		return err
	}
	c.programs.close()
	if err := c.writeSums(true); err != nil {
		return err
	}
	if text, some := c.programs.report(); some {
		c.cfg.Verbose(text)
	}
	if n, err := c.modules.lost(); err == nil && n > 0 {
		c.cfg.Notify(fmt.Sprintf("%d times a module was loaded or unloaded unseen: samples in such modules may have no name, or a wrong one", n))
	}
	for _, o := range c.listed() {
		if err := c.writeFiltered(o); err != nil {
			return err
		}
		c.reportCounted(o)
		if err := c.writeNotRun(o); err != nil {
			return err
		}
		if o.attr.ReadFormat&perfdata.ReadLost == 0 {
			continue
		}
		for i, fd := range o.fds {
			lost, err := c.readLost(o, fd)
			if err != nil || lost == 0 {
				continue
			}
			c.tally.noRoom += lost
			r := &perfdata.LostSamples{Samples: lost}
			r.ID = o.ids[i]
			if err := c.out.write(0, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// readLost returns the number of samples of an event that found no room. For a group that is read as one, the leader has the number,
// because only the leader samples.
func (s *sources) readLost(o *opened, fd *perfevent.Event) (uint64, error) {
	words := 1 // the value, or the number of events
	if o.attr.ReadFormat&perfevent.ReadFormatTimes != 0 {
		words += 2
	}
	if o.attr.ReadFormat&perfdata.ReadGroup == 0 {
		all := make([]uint64, words+2) // ID, lost
		err := fd.ReadWords(all)
		return all[len(all)-1], err
	}
	if o.leader != o {
		return 0, nil
	}
	members := 0
	for _, other := range s.events {
		if other.leader == o {
			members++
		}
	}
	all := make([]uint64, words+3*members) // value, ID, lost
	err := fd.ReadWords(all)
	return all[words+2], err
}

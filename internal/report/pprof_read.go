package report

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	pprof "github.com/google/pprof/profile"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/replay"
)

// mostPprof is the maximum size of an uncompressed pprof profile, in bytes.
const mostPprof = 1 << 30

// ReadPprof reads a compressed profile in pprof's format, by WritePprof or another program. Each sample type becomes an event, except the
// number of samples. The labels in keep are read, but no tags.
func ReadPprof(r io.Reader, keep profile.Keys) (*profile.Profile, error) {
	in, err := parsePprof(r)
	if err != nil {
		return nil, fmt.Errorf("read a profile of pprof: %w", err)
	}
	p := profile.New(keep)
	i := pprofImporter{p: p, frames: map[*pprof.Location][]profile.FrameID{}}
	counts := len(in.SampleType) > 1 && in.SampleType[0].Type == "samples"
	events := in.SampleType
	if counts {
		events = events[1:]
	}
	for at, t := range events {
		unit := t.Unit
		if unit == "nanoseconds" {
			unit = "ns"
		}
		p.Events = append(p.Events, profile.Event{Name: t.Type, Unit: unit, Leader: at})
	}
	for _, s := range in.Sample {
		sample := profile.Sample{Count: 1, Labels: i.labels(s)}
		if counts {
			sample.Count = uint64(max(0, s.Value[0]))
		}
		sample.Leaf, sample.Stack = i.stack(s.Location)
		for at, v := range s.Value[len(s.Value)-len(events):] {
			if v > 0 {
				sample.Event, sample.Value = uint32(at), uint64(v)
				p.Add(sample)
			}
		}
	}
	return p, nil
}

func parsePprof(r io.Reader) (*pprof.Profile, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(z, mostPprof+1))
	if err != nil {
		return nil, err
	}
	if len(b) > mostPprof {
		return nil, fmt.Errorf("it has more than %d MiB", mostPprof>>20)
	}
	in, err := pprof.ParseUncompressed(b)
	if err != nil {
		return nil, err
	}
	if len(in.SampleType) == 0 {
		return nil, errors.New("it does not say what it has counted")
	}
	return in, in.CheckValid()
}

type pprofImporter struct {
	p      *profile.Profile
	frames map[*pprof.Location][]profile.FrameID // innermost first
}

func (i *pprofImporter) labels(s *pprof.Sample) profile.LabelsID {
	text := func(key string) profile.StringID {
		if all := s.Label[key]; len(all) > 0 {
			return i.p.Strings.ID(all[0])
		}
		return 0
	}
	number := func(key string, none int32) int32 {
		if all := s.NumLabel[key]; len(all) > 0 {
			return int32(all[0])
		}
		return none
	}
	return i.p.Label(profile.Labels{Comm: text("comm"), Cgroup: text("cgroup"), PID: number("pid", 0), TID: number("tid", 0), CPU: number("cpu", -1)})
}

func (i *pprofImporter) stack(locations []*pprof.Location) (leaf profile.FrameID, stack profile.StackID) {
	var all []profile.FrameID
	for at, l := range locations {
		frames := i.location(l)
		if at == 0 { // the outer function that the others are inlined into
			leaf = frames[len(frames)-1]
		}
		all = append(all, frames...)
	}
	return leaf, i.p.Stacks.ID(all)
}

func (i *pprofImporter) location(l *pprof.Location) []profile.FrameID {
	if known := i.frames[l]; known != nil {
		return known
	}
	id := i.p.Strings.ID
	frame := profile.Frame{Address: l.Address, IP: l.Address, Kind: profile.User}
	if m := l.Mapping; m != nil && m.File != unknownMapping {
		var name string
		name, frame.Kind = replay.ModuleOf(m.File)
		frame.Module = i.p.Modules.ID(profile.Module{Path: id(m.File), Name: id(name), BuildID: id(m.BuildID)})
	}
	var frames []profile.FrameID
	for at, line := range l.Line {
		f := frame
		if line.Function != nil {
			n := line.Function.ID // replaces the address, which distinguishes functions with the same name
			function := profile.Function{Name: id(line.Function.Name), Module: frame.Module, Start: n, End: n, File: id(line.Function.Filename),
				StartLine: uint32(max(0, line.Function.StartLine))}
			if line.Function.SystemName != line.Function.Name {
				function.Linkage = id(line.Function.SystemName)
			}
			f.Function, f.File = i.p.Functions.ID(function), function.File
		}
		f.Line, f.Inlined = uint32(max(0, line.Line)), at < len(l.Line)-1
		frames = append(frames, i.p.Frame(f))
	}
	if frames == nil {
		frames = []profile.FrameID{i.p.Frame(frame)}
	}
	i.frames[l] = frames
	return frames
}

package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
)

// speedscope is a file as described by https://www.speedscope.app/file-format-schema.json, with sampled profiles.
type speedscope struct {
	Schema   string              `json:"$schema"`
	Shared   speedscopeShared    `json:"shared"`
	Profiles []speedscopeProfile `json:"profiles"`
	Name     string              `json:"name,omitempty"`
	Exporter string              `json:"exporter"`
}

type speedscopeShared struct {
	Frames []speedscopeFrame `json:"frames"`
}

type speedscopeFrame struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Line uint32 `json:"line,omitempty"`
}

type speedscopeProfile struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Unit    string   `json:"unit"`
	Start   uint64   `json:"startValue"`
	End     uint64   `json:"endValue"`
	Samples [][]int  `json:"samples"` // outermost frame first
	Weights []uint64 `json:"weights"`
}

// WriteSpeedscope writes a profile for each event and each thread that the labels distinguish. Samples are in the order of time if the
// profile has times.
func WriteSpeedscope(w io.Writer, p *profile.Profile, o *Options) error {
	file := speedscope{
		Schema: "https://www.speedscope.app/file-format-schema.json", Name: p.Info.Hostname, Exporter: "bperf",
		Shared: speedscopeShared{Frames: []speedscopeFrame{}}, Profiles: []speedscopeProfile{},
	}
	numbers := map[profile.FrameID]int{}
	number := func(id profile.FrameID) int {
		n, known := numbers[id]
		if !known {
			n = len(file.Shared.Frames)
			numbers[id] = n
			f := p.Frames()[id]
			file.Shared.Frames = append(file.Shared.Frames, speedscopeFrame{frameTitle(p, id), p.Strings.At(f.File), f.Line})
		}
		return n
	}
	for _, track := range newTracks(p, o) {
		out := speedscopeProfile{Type: "sampled", Name: track.name, Unit: speedscopeUnit(p.Events[track.event].Unit), Samples: [][]int{}, Weights: []uint64{}}
		for _, s := range track.samples {
			stack := []int{}
			for _, id := range slices.Backward(p.StackOf(s)) {
				stack = append(stack, number(id))
			}
			out.Samples = append(out.Samples, stack)
			out.Weights = append(out.Weights, s.Value)
			out.End += s.Value
		}
		file.Profiles = append(file.Profiles, out)
	}
	return printable.JSONEncoder(w).Encode(file)
}

func speedscopeUnit(unit string) string {
	switch unit {
	case "ns":
		return "nanoseconds"
	case "bytes":
		return "bytes"
	}
	return "none"
}

// track is the samples of one event with the same labels of a thread: comm, PID and TID, as far as the profile keeps them.
type track struct {
	name    string
	event   int
	labels  profile.Labels
	samples []*profile.Sample
}

type trackKey struct {
	event    uint32
	comm     profile.StringID
	pid, tid int32
}

// newTracks sorts the samples into tracks. For each event, the tracks with the largest values come first.
func newTracks(p *profile.Profile, o *Options) []*track {
	byKey := map[trackKey]*track{}
	var tracks []*track
	sums := map[*track]uint64{}
	for s := range chosen(p, o) {
		if o.Event != "" && p.Events[s.Event].Name != o.Event {
			continue
		}
		l := p.Labels()[s.Labels]
		key := trackKey{s.Event, l.Comm, l.PID, l.TID}
		t := byKey[key]
		if t == nil {
			t = &track{name: trackName(p, s.Event, l), event: int(s.Event), labels: l}
			byKey[key], tracks = t, append(tracks, t)
		}
		t.samples = append(t.samples, s)
		sums[t] += s.Value
	}
	slices.SortStableFunc(tracks, func(a, b *track) int {
		return cmp.Or(cmp.Compare(a.event, b.event), cmp.Compare(sums[b], sums[a]), cmp.Compare(a.name, b.name))
	})
	for _, t := range tracks {
		slices.SortStableFunc(t.samples, func(a, b *profile.Sample) int { return cmp.Compare(a.Time, b.Time) })
	}
	return tracks
}

func trackName(p *profile.Profile, event uint32, l profile.Labels) string {
	name := p.Strings.At(l.Comm)
	if p.Keys().Has(profile.TID) {
		name += fmt.Sprintf(" %d", l.TID)
	}
	if len(p.Events) > 1 || name == "" {
		name += " " + p.Events[event].Name
	}
	return name
}

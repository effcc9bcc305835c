package report

import (
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/profile"
)

// labelFrames are the frames below the stacks of flame graphs and folded stacks: what samples are told apart by besides their stacks.
type labelFrames []*key

// newLabelFrames returns a frame for each label among the keys of the options, in their order, or for the name of the thread if there is none. The
// tag "wall", which tells time on CPUs from that of blocked threads, is always one.
func newLabelFrames(o *Options) labelFrames {
	var all labelFrames
	add := func(name string) {
		known := slices.ContainsFunc(all, func(k *key) bool { return k.name == name })
		if k, ok := o.findKey(name); ok && k.scope == ofLabels && !known {
			all = append(all, k)
		}
	}
	for _, name := range o.Sort {
		add(name)
	}
	if len(all) == 0 {
		add("comm")
	}
	add("wall")
	return all
}

// of returns the titles and classes of a sample's frames, from the lowest up. What the sample does not have is left out.
func (l labelFrames) of(p *profile.Profile, s *profile.Sample) []flameName {
	var names []flameName
	for _, k := range l {
		text := strings.TrimSuffix(strings.TrimSpace(k.text(p, &place{labels: p.Labels()[s.Labels]}, 0)), ":") // of threads without a name
		frame := flameName{k.name + " " + text, "thread"}
		switch k.name {
		case "comm", "cgroup", "container": // which say themselves what they are
			frame.name = text
		case "wall":
			frame = flameName{text, "oncpu"}
			if text == offCPU {
				frame.class = "offcpu"
			}
		}
		if text != "" {
			names = append(names, frame)
		}
	}
	return names
}

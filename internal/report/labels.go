package report

import (
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/profile"
)

// labelFrames are the keys whose values become frames below the stacks of flame graphs and folded stacks.
type labelFrames []*key

// newLabelFrames returns the labels among the sort keys in their order, or "comm" if there are none. The tag "wall", which separates time
// on CPUs from blocked time, is always included.
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

// of returns the names and classes of a sample's frames, the lowest first. Labels that the sample lacks are left out.
func (l labelFrames) of(p *profile.Profile, s *profile.Sample) []flameName {
	var names []flameName
	for _, k := range l {
		text := strings.TrimSuffix(strings.TrimSpace(k.text(p, &properties{labels: &p.Labels()[s.Labels]}, 0)), ":") // threads without a name end in ":"
		frame := flameName{k.name + " " + text, "thread"}
		switch k.name {
		case "comm", "cgroup", "container": // their values need no title
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

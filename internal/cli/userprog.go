package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/internal/userprog"
	"github.com/bperf/bperf/perfdata"
)

// addPrograms adds the flags for BPF programs that the user runs at samples.
func (o *recordOptions) addPrograms(f *pflag.FlagSet) {
	f.Var(eventFlag{&o.events, argProgram}, "prog",
		"run your own BPF program at each sample of the events before it, or of all events if it comes first: `FILE.o`[:NAME], pinned:PATH or id:N. A sample for which it returns 0 is dropped")
	f.StringVar(&o.maps.format, "map-format", mapFormats[0], "print the maps of --prog at the end as `FORMAT`: "+strings.Join(mapFormats, ", "))
	f.StringVar(&o.maps.output, "map-output", "", "write the maps to `FILE`, not to standard error")
	f.StringArrayVar(&o.set, "set", nil, "set a global variable of the objects of --prog: `NAME=VALUE`")
	perfHasNo(f, "prog", "map-format", "map-output", "set")
}

// readPrograms reads the programs of --prog. It returns nil if there are none.
func (o *recordOptions) readPrograms() (*userprog.Programs, error) {
	var sources []string
	for _, a := range o.events {
		if a.kind == argProgram {
			sources = append(sources, a.value)
		}
	}
	if !slices.Contains(mapFormats, o.maps.format) {
		return nil, fmt.Errorf("--map-format %s: the formats are %s", o.maps.format, strings.Join(mapFormats, ", "))
	}
	if len(sources) == 0 {
		if len(o.set) > 0 {
			return nil, errors.New("--set applies to the objects of --prog: add --prog")
		}
		if o.maps.output != "" || o.maps.format != mapFormats[0] {
			return nil, errors.New("--map-format and --map-output apply to the maps of --prog: add --prog")
		}
		return nil, nil
	}
	var assignments []userprog.Assignment
	for _, text := range o.set {
		a, err := userprog.ParseAssignment(text)
		if err != nil {
			return nil, fmt.Errorf("--set %w", err)
		}
		assignments = append(assignments, a)
	}
	programs, err := userprog.Read(sources, assignments, o.verbose)
	if err != nil {
		return nil, fmt.Errorf("--prog: %w", err)
	}
	return programs, nil
}

// takeObjects converts -e FILE.o and -e FILE.o/map:MAP.event=EVENT/, which perf had up to 6.4, to the equivalent --prog.
func (o *recordOptions) takeObjects() error {
	o.outputs = make(map[string]string)
	for i, a := range o.events {
		const terms = "/map:"
		object, configuration, configured := strings.Cut(a.value, terms)
		if a.kind != argEvents || !strings.HasSuffix(object, ".o") || strings.ContainsAny(object, ",{}") {
			continue
		}
		o.events[i] = eventArg{argProgram, object}
		if !configured {
			continue
		}
		for term := range strings.SplitSeq(terms[1:]+strings.TrimSuffix(configuration, "/"), ",") {
			name, value, _ := strings.Cut(term, "=")
			channel, isMap := strings.CutPrefix(name, "map:")
			channel, isEvent := strings.CutSuffix(channel, ".event")
			if !isMap || !isEvent || channel == "" || value == "" {
				return fmt.Errorf("-e %s: %q is not map:MAP.event=EVENT. Global variables are set with --set", a.value, term)
			}
			o.outputs[channel] = value
		}
	}
	return nil
}

// nameOutputs gives the events of maps the configured names, and removes the bpf-output events of these names, which they replace.
func (o *recordOptions) nameOutputs(cfg *record.Config, list event.List) (event.List, error) {
	for _, channel := range slices.Sorted(maps.Keys(o.outputs)) {
		name := o.outputs[channel]
		if there := cfg.Programs.Outputs(); !slices.Contains(there, channel) {
			return nil, fmt.Errorf("map:%s.event: the objects have no such map of type PERF_EVENT_ARRAY; they have %s", channel, cmp.Or(printable.Text(strings.Join(there, ", ")), "none"))
		}
		at := slices.IndexFunc(list, func(g event.Group) bool {
			e := g.Events[0]
			return len(g.Events) == 1 && e.Name == name && e.Attr.Type == perfdata.TypeSoftware && e.Attr.Config == perfdata.SoftwareBPFOutput
		})
		if at < 0 {
			return nil, fmt.Errorf("map:%s.event=%s: there is no such event: add -e bpf-output/no-inherit=1,name=%s/", channel, name, name)
		}
		list = slices.Delete(list, at, at+1)
	}
	cfg.OutputNames = o.outputs
	return list, nil
}

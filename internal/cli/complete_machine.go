package cli

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
)

// machineOf returns the machine with the event files that the command's flags name.
func machineOf(cmd *cobra.Command) *event.Machine {
	dir := ""
	if f := cmd.Flags().Lookup("event-files"); f != nil {
		dir = f.Value.String()
	}
	return hostWith(dir, func(string) {})
}

// eventWords completes the last event of a list: generic events that the machine has, PMUs and their events, groups of tracepoints and the
// tracepoints of a group.
func eventWords(cmd *cobra.Command, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	done, item, name := lastEvent(word)
	if !name { // terms or modifiers
		return nil, inList
	}
	l := lister{machine: machineOf(cmd), counts: counts}
	if strings.Contains(item, ":") {
		tracepoints, _ := l.machine.Tracepoints() // none where tracefs cannot be read
		return beginning(done, item, tracepoints), inList
	}
	all, err := l.machine.Describe()
	if err != nil {
		return nil, inList
	}
	var values []string
	for _, d := range all {
		switch {
		case d.Syntax:
		case d.Kind == event.PMUEvent:
			pmu, own, _ := strings.Cut(strings.TrimSuffix(d.Name, "/"), "/")
			switch {
			case strings.Contains(item, "/"):
				values = append(values, d.Name+"\t"+d.Text)
			default:
				values = append(values, pmu+"/")
				if item != "" {
					values = append(values, own+"\t"+d.Text)
				}
			}
		default:
			named := append([]string{d.Name}, d.Aliases...)
			if slices.ContainsFunc(named, func(n string) bool { return strings.HasPrefix(n, item) }) && l.available(d) {
				for _, n := range named {
					values = append(values, n+"\t"+d.Text)
				}
			}
		}
	}
	if !strings.Contains(item, "/") {
		tracepoints, _ := l.machine.Tracepoints()
		for _, t := range tracepoints {
			group, _, _ := strings.Cut(t, ":")
			values = append(values, group+":\ttracepoints")
		}
	}
	return beginning(done, item, values), inList
}

// lastEvent divides a list of events before its last one, which can be in a group. name is false if the end of the list is no name of an event.
func lastEvent(list string) (done, item string, name bool) {
	within, at := false, 0 // a PMU's slashes
	for i, r := range list {
		switch {
		case r == '/':
			within = !within
		case !within && (r == ',' || r == '{'):
			at = i + 1
		}
	}
	done, item = list[:at], list[at:]
	return done, item, !strings.Contains(item, "}") && !(within && strings.Contains(item, ",")) && strings.Count(item, "/") < 2
}

// metricWords completes the last metric of a list: bperf's, those of the CPU's vendor, and their groups.
func metricWords(cmd *cobra.Command, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	l := lister{machine: machineOf(cmd)}
	all, _ := l.metrics() // those of event files that cannot be used are missing
	var values []string
	for _, m := range all {
		values = append(values, m.Name+"\t"+m.Text)
	}
	done, item := lastItem(word)
	return beginning(done, item, values), inList
}

// pmuWords completes the name of a PMU that has events.
func pmuWords(cmd *cobra.Command, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, _ := machineOf(cmd).Describe()
	var values []string
	for _, d := range all {
		values = append(values, d.PMU)
	}
	return beginning("", word, values), cobra.ShellCompDirectiveNoFileComp
}

// cgroupWords completes the last cgroup of a list, level by level.
func cgroupWords(_ *cobra.Command, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	done, item := lastItem(word)
	parent := item[:strings.LastIndexByte(item, '/')+1]
	below, _ := target.CgroupsBelow(parent, maxWords) // none where no hierarchy is mounted
	var values []string
	for _, name := range below {
		values = append(values, parent+name)
	}
	return beginning(done, item, values), inList
}

// selectorWords completes the last item of a selector of BPF programs. Without the rights to see programs it completes only kinds of items.
func selectorWords(_ *cobra.Command, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	done, item := lastItem(word)
	programs, _ := bpfprog.ReadAll(bpfprog.Detail{})
	var values []string
	if !strings.Contains(item, ":") {
		values = append(values, "all\tall programs")
		for _, kind := range bpfprog.SelectorKinds() {
			values = append(values, kind+":")
		}
	}
	for _, p := range programs {
		id := strconv.FormatUint(uint64(p.ID), 10)
		if item != "" {
			values = append(values, id+"\t"+p.Type.String()+" "+p.Name)
		}
		if strings.Contains(item, ":") {
			if p.Name != "" {
				values = append(values, "name:"+p.Name+"\t"+p.Type.String())
			}
			values = append(values, "type:"+p.Type.String(), "tag:"+p.Tag+"\t"+p.Type.String()+" "+p.Name)
		}
	}
	return beginning(done, item, values), inList
}

// recordingWords completes the path of a recording, or of a profile for --diff, with the directories on the way. Where there is none, shells
// complete any file.
func recordingWords(_ *cobra.Command, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	dir, base := filepath.Split(word)
	f, err := os.Open(cmp.Or(dir, "."))
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxWords)
	var values []string
	for _, e := range entries {
		path := dir + e.Name()
		if !strings.HasPrefix(e.Name(), base) || base == "" && strings.HasPrefix(e.Name(), ".") {
			continue
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
		case info.IsDir():
			values = append(values, path+"/")
		case regularFile(path, perfdata.IsRecording) || isCompressed(path):
			values = append(values, path)
		}
	}
	slices.Sort(values)
	all := beginning("", word, values)
	switch {
	case len(all) == 0:
		return nil, cobra.ShellCompDirectiveDefault
	case len(all) == 1 && strings.HasSuffix(all[0], "/"):
		return all, inList
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/record"
)

// addExisting adds the flags for the records of what exists when the recording begins.
func (o *recordOptions) addExisting(f *pflag.FlagSet) {
	f.StringVar(&o.synth, "synth", "all", "of what exists already, record only these `TYPES`: task, mmap (implies task), cgroup, all or no")
	f.BoolVar(&o.tail, "tail-synthesize", false, "record existing processes and cgroups at the end of each file, as they are then")
	f.BoolVar(&o.mmapBuildID, "buildid-mmap", false, "put build IDs into the records of mappings, in place of device and inode (Linux 5.12)")
}

// setExisting parses the types of --synth, if it is given. As in perf, no excludes all others.
func (o *recordOptions) setExisting(cfg *record.Config, given bool) error {
	cfg.Tail, cfg.MmapBuildID = o.tail, o.mmapBuildID
	if !given {
		return nil
	}
	wanted := make(map[string]bool)
	for kind := range strings.SplitSeq(o.synth, ",") {
		switch kind {
		case "all":
			wanted["task"], wanted["mmap"], wanted["cgroup"] = true, true, true
		case "mmap":
			wanted["task"], wanted["mmap"] = true, true
		case "task", "cgroup", "no":
			wanted[kind] = true
		default:
			return fmt.Errorf("--synth=%s: %q is not one of task, mmap, cgroup, all and no", o.synth, kind)
		}
	}
	if wanted["no"] {
		clear(wanted)
	}
	cfg.Existing = record.Existing{NoTasks: !wanted["task"], NoMaps: !wanted["mmap"], NoCgroups: !wanted["cgroup"]}
	return nil
}

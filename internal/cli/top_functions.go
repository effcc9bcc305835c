package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/cilium/ebpf"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/top"
)

// topSampling are the options that only functions have.
var topSampling = []string{"freq", "count", "pid", "tid", "cpu", "all-cpus", "cgroup", "g"}

// addSampling adds them.
func (o *topOptions) addSampling(f *pflag.FlagSet) {
	s := &o.sampling
	s.addRate(f, defaultProfileFrequency)
	s.targetOptions.add(f, "of functions: sample")
	f.VarP(eventFlag{&s.events, argCgroups}, "cgroup", "G", "of functions: sample the events before it only in these cgroups: one for all, or one for each")
	f.BoolVarP(&s.framePointers, "g", "g", false, "of functions: sample stacks, to show the callers of a function at enter")
}

// programsLoaded reports whether there is a BPF program. Without the permission to know, it assumes so.
func programsLoaded() bool {
	_, err := ebpf.ProgramGetNextID(0)
	return !errors.Is(err, fs.ErrNotExist)
}

// openFunctions begins to sample. Messages go to standard error, or with a screen to its second line.
func (o *topOptions) openFunctions(cmd *cobra.Command, screen bool) (top.Source, topDetails, error) {
	given := cmd.Flags().Changed
	if !given("freq") && !given("count") {
		o.sampling.frequency = strconv.Itoa(defaultProfileFrequency)
	}
	o.sampling.maps.format = mapFormats[0] // top has no flags for programs at samples
	recording, err := o.sampling.config(given, nil)
	if err != nil {
		return nil, topDetails{}, err
	}
	if recording.Programs != nil {
		recording.Programs.Close()
		return nil, topDetails{}, badCombinationf("top runs no BPF programs at samples: bperf profile does")
	}
	if err := refuseTerms(recording.Events, "top"); err != nil {
		return nil, topDetails{}, err
	}
	if !screen {
		note := func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), printable.Lines(s)) }
		o.sampling.noteIgnored(note)
		recording.Notify = note
	}
	if os.Getenv("GOGC") == "" {
		collectLate(100) // Go's default
	}
	source, err := top.OpenFunctions(top.FunctionsConfig{Record: *recording, Every: o.every(), Callers: o.sampling.framePointers})
	if err != nil {
		return nil, topDetails{}, err
	}
	return source, topDetails{examine: source.Examine, instructions: source.Instructions}, nil
}

// every returns the length of the intervals of sampling, of which each interval of the output has a whole number. They are at most as long
// as the first one of the screen.
func (o *topOptions) every() time.Duration {
	parts := math.Ceil(o.delay / firstInterval.Seconds())
	return time.Duration(float64(o.interval()) / parts)
}

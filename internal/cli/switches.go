package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
)

// addSwitches adds the flags for events between which samples are shown.
func addSwitches(flags *pflag.FlagSet, s *replay.Switches) {
	flags.StringVar(&s.On, "switch-on", "", "only samples after one of `EVENT`")
	flags.StringVar(&s.Off, "switch-off", "", "no samples after one of `EVENT`, up to the next one of --switch-on")
	flags.BoolVar(&s.Show, "show-on-off-events", false, "also show the samples of --switch-on and --switch-off")
}

// statusNoEvent is perf's status if a recording does not have an event that an option names: -ENOENT.
const statusNoEvent = 254

// checkSwitches checks that a recording has the events of s.
func checkSwitches(s replay.Switches, recording *perfdata.Reader) error {
	for _, event := range []struct{ flag, name string }{{"--switch-on", s.On}, {"--switch-off", s.Off}} {
		has := func(e *perfdata.Event) bool { return e.Name == event.name }
		if event.name != "" && !slices.ContainsFunc(recording.Events(), has) {
			return &exitError{Status: statusNoEvent, Err: fmt.Errorf("%s %s: the recording has no such event: bperf evlist lists its events", event.flag, event.name)}
		}
	}
	return nil
}

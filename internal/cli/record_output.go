package cli

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/record"
)

// addSwitch adds the flags for several output files, and their names and sizes.
func (o *recordOptions) addSwitch(f *pflag.FlagSet) {
	f.StringVar(&o.rotate, "switch-output", "", "begin a new file `WHEN`: at SIGUSR2 (signal), after a size (100M) or a time (30s, 5m, 1h)")
	optional(f, "switch-output", "signal")
	f.StringVar(&o.rotateAt, "switch-output-event", "", "begin a new file at each sample of these `EVENTS`, which are not recorded, and at SIGUSR2")
	f.IntVar(&o.maxFiles, "switch-max-files", 0, "keep the newest `N` files of --switch-output; 0 for all")
	f.BoolVar(&o.timedName, "timestamp-filename", false, "append the time to the name of the file")
	f.StringVar(&o.maxSize, "max-size", "", "end the recording when the file has this `SIZE`, such as 100M")
}

// switches reports whether the recording has several files.
func (o *recordOptions) switches() bool { return o.rotate != "" || o.rotateAt != "" }

// setSwitchEvents parses the events of --switch-output-event, if it is given. It implies --switch-output.
func (o *recordOptions) setSwitchEvents(cfg *record.Config, given bool) (err error) {
	if !given {
		return nil
	}
	if o.rotate == "" {
		o.rotate = "signal"
	}
	if cfg.Switch.Events, err = o.machine().Parse(o.rotateAt); err != nil {
		return err
	}
	for _, e := range cfg.Switch.Events.Events() {
		if e.Tracepoint == "" && e.Attr.SamplePeriod == 0 || e.Tool != event.ToolNone {
			return fmt.Errorf("--switch-output-event %s: give a tracepoint, or an event with the number of its occurrences for each file, "+
				"such as page-faults/period=1/", e.Name)
		}
	}
	return nil
}

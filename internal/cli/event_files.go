package cli

import (
	"os"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/event/eventfile"
)

// addEventFiles adds the flag for the directory of event files.
func addEventFiles(f *pflag.FlagSet, dir *string) {
	f.StringVar(dir, "event-files", "", "also know the CPU's events and metrics that the JSON files in `DIR` describe (default $"+eventfile.Variable+", ~/.cache/pmu-events)")
	perfHasNo(f, "event-files")
}

// hostWith returns this machine with the events in event files. dir is the value of --event-files.
func hostWith(dir string, warn func(string)) *event.Machine {
	m := event.Host()
	m.AddEventFiles(eventfile.Find(dir, os.Getenv), warn)
	return m
}

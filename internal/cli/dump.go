package cli

import (
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/internal/script"
	"github.com/bperf/bperf/perfdata"
)

// addDump adds the flag for printing all records.
func addDump(flags *pflag.FlagSet, dump *bool) {
	flags.BoolVarP(dump, "dump-raw-trace", "D", false, "print all records with their bytes")
}

// addTopology adds the flag for the long part of the recording's header.
func addTopology(flags *pflag.FlagSet, topology *bool) {
	flags.BoolVarP(topology, "show-info", "I", false, "with --header, also print the topology of the CPUs and the memory")
}

// addFullPaths adds the flag for whole paths of source files.
func addFullPaths(flags *pflag.FlagSet, full *bool) {
	flags.BoolVar(full, "full-source-path", false, "print whole paths of source files")
}

// dumpRecords writes all records of a recording. It returns the number of samples of each event.
func (f *recordingFlags) dumpRecords(w io.Writer, recording *perfdata.Reader) ([]uint64, replay.Stats, error) {
	o, err := f.options(recording)
	if err != nil {
		return nil, replay.Stats{}, err
	}
	o.NoInline = true
	return script.Dump(w, recording, script.Options{Input: f.path, AttrText: report.AttrText(recording)}, o)
}

// writeDump writes all records of a recording, and then their number by type.
func (f *recordingFlags) writeDump(cmd *cobra.Command, w io.Writer, recording *perfdata.Reader) error {
	samples, stats, err := f.dumpRecords(w, recording)
	if err != nil {
		return err
	}
	printLosses(cmd.ErrOrStderr(), stats)
	var counts []eventCount
	for i, e := range recording.Events() {
		if samples[i] > 0 {
			counts = append(counts, eventCount{e.Name, samples[i]})
		}
	}
	return printStats(w, stats, counts)
}

// eventCount is the number of samples of an event.
type eventCount struct {
	name    string
	samples uint64
}

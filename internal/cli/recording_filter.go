package cli

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
)

// filterFlags select samples of a recording.
type filterFlags struct{ times, pids, tids, cpus, socket string }

func (f *filterFlags) add(flags *pflag.FlagSet, letter string) {
	flags.StringVar(&f.times, "time", "", "only `START,STOP` in seconds, either of which may be left out; or parts such as 10%-20% or 10%/2, of the time "+
		"of the recording; separate several parts with commas, several times with blanks")
	flags.StringVar(&f.pids, "pid", "", "only these `PIDS`")
	flags.StringVar(&f.tids, "tid", "", "only these `TIDS`")
	flags.StringVarP(&f.cpus, "cpu", letter, "", "only these `CPUS`, as 0-3,7")
}

func (f *filterFlags) filter(reader *perfdata.Reader) (replay.Filter, error) {
	var all replay.Filter
	var err error
	if all.Times, err = parseTimes(f.times, reader); err != nil {
		return all, err
	}
	if all.PIDs, err = parseIDs("--pid", f.pids); err != nil {
		return all, err
	}
	if all.TIDs, err = parseIDs("--tid", f.tids); err != nil {
		return all, err
	}
	if f.cpus != "" {
		if all.CPUs, err = procfs.ParseCPUList(f.cpus); err != nil {
			return all, fmt.Errorf("--cpu: %w", err)
		}
	}
	if f.socket != "" {
		all.CPUs, err = f.onSocket(all.CPUs, reader)
	}
	return all, err
}

// onSocket returns the CPUs on the socket of the flag: those of a list, or all if the list is empty. It fails if there are none, because a
// filter without CPUs keeps all samples, and if an event has no CPUs.
func (f *filterFlags) onSocket(cpus []int, reader *perfdata.Reader) ([]int, error) {
	socket, err := strconv.ParseUint(f.socket, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("--socket-filter %s: not the number of a socket", f.socket)
	}
	for _, e := range reader.Events() {
		if !e.Attr.SampleType.Has(perfdata.SampleCPU) {
			return nil, fmt.Errorf("--socket-filter: samples of %s have no CPU; record with --sample-cpu", printable.Text(e.Name))
		}
	}
	value, err := reader.Features().Get(perfdata.FeatureCPUTopology)
	if err != nil {
		return nil, err
	}
	topology, _ := value.(perfdata.CPUTopology)
	var on []int
	for cpu, place := range topology.CPUs {
		if uint64(place.Socket) == socket && (len(cpus) == 0 || slices.Contains(cpus, cpu)) {
			on = append(on, cpu)
		}
	}
	if len(on) == 0 {
		return nil, fmt.Errorf("--socket-filter %s: the recording knows of no such CPU on that socket", f.socket)
	}
	return on, nil
}

func parseIDs(flag, text string) ([]int32, error) {
	if text == "" {
		return nil, nil
	}
	var ids []int32
	for word := range strings.SplitSeq(text, ",") {
		id, err := strconv.ParseInt(word, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %q is not an ID", flag, text, word)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

// parseTimes parses START,STOP [START,STOP]…, or parts of the recording: 10%-20%,30%-40% or 10%/2.
func parseTimes(text string, reader *perfdata.Reader) ([]replay.TimeRange, error) {
	if text == "" {
		return nil, nil
	}
	if strings.Contains(text, "%") {
		return parseParts(text, reader)
	}
	var ranges []replay.TimeRange
	for _, word := range strings.Fields(text) {
		first, last, _ := strings.Cut(word, ",")
		r := replay.TimeRange{End: math.MaxUint64}
		var err error
		if first != "" {
			if r.Start, err = parseSeconds(first); err != nil {
				return nil, fmt.Errorf("--time %s: %w", text, err)
			}
		}
		if last != "" {
			if r.End, err = parseSeconds(last); err != nil {
				return nil, fmt.Errorf("--time %s: %w", text, err)
			}
		}
		if r.End < r.Start {
			return nil, fmt.Errorf("--time %s: %s ends before it starts", text, word)
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// parseSeconds parses seconds with up to nine decimals, and returns ns.
func parseSeconds(text string) (uint64, error) {
	whole, part, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseUint(whole, 10, 64)
	if err != nil || seconds > math.MaxUint64/1_000_000_000-1 || len(part) > 9 {
		return 0, fmt.Errorf("%q is not a time in seconds", text)
	}
	ns, err := strconv.ParseUint((part + "000000000")[:9], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time in seconds", text)
	}
	return seconds*1e9 + ns, nil
}

func parseParts(text string, reader *perfdata.Reader) ([]replay.TimeRange, error) {
	value, err := reader.Features().Get(perfdata.FeatureSampleTime)
	if err != nil {
		return nil, err
	}
	times, there := value.(perfdata.SampleTimes)
	if !there || times.Last <= times.First {
		return nil, fmt.Errorf("--time %s: the recording has no times of its first and last sample; give seconds", text)
	}
	length := float64(times.Last - times.First)
	var ranges []replay.TimeRange
	for word := range strings.SplitSeq(text, ",") {
		from, to, ok := parsePart(strings.TrimSpace(word))
		if !ok {
			return nil, fmt.Errorf("--time %s: %q is not a part such as 10%%-20%% or 10%%/2", text, word)
		}
		r := replay.TimeRange{Start: times.First + uint64(from*length), End: times.First + uint64(to*length)}
		if r.End < times.Last && r.End > 0 {
			r.End--
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// parsePart parses a range such as 10%-20%, or 10%/2: the second part of that size. The results are from 0 to 1.
func parsePart(text string) (from, to float64, ok bool) {
	if first, last, isRange := strings.Cut(text, "-"); isRange {
		from, ok1 := parsePercent(first)
		to, ok2 := parsePercent(last)
		return from, to, ok1 && ok2 && from < to
	}
	first, number, isPart := strings.Cut(text, "/")
	size, ok := parsePercent(first)
	n := 1
	if isPart {
		var err error
		if n, err = strconv.Atoi(number); err != nil || n < 1 {
			return 0, 0, false
		}
	}
	from = size * float64(n-1)
	return from, min(1, from+size), ok && size > 0 && from < 1
}

func parsePercent(text string) (float64, bool) {
	number, ok := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(number, 64)
	return v / 100, ok && err == nil && v >= 0 && v <= 100
}

// maxProblems limits the files without symbols that are named.
const maxProblems = 5

// printInterpreted prints which functions interpreters hide.
func printInterpreted(w io.Writer, p *profile.Profile) {
	for _, note := range p.Interpreted() {
		fmt.Fprintln(w, "Note:", note)
	}
}

// printLosses prints warnings about what the recording lacks.
func printLosses(w io.Writer, s replay.Stats) {
	for _, loss := range []struct {
		count uint64
		what  string
	}{
		{s.LostRecords, "records were lost while recording: the ring buffers were full; record with a larger -m, or sample less often"},
		{s.LostSamples, "samples were lost while recording: the ring buffers were full; record with a larger -m, or sample less often"},
		{s.OutOfOrder, "records are out of order: they came later than the recording promised"},
		{s.CutChains, "callchains were cut at an entry that is not an address; code without frame pointers causes such entries"},
	} {
		if loss.count > 0 {
			fmt.Fprintf(w, "Warning: %d %s\n", loss.count, loss.what)
		}
	}
	for i, problem := range s.Problems {
		if i == maxProblems {
			fmt.Fprintf(w, "Warning: and %d more files without symbols\n", len(s.Problems)-i)
			break
		}
		fmt.Fprintln(w, "Warning:", printable.Text(strings.ReplaceAll(problem, "\n", "; ")))
	}
	for _, err := range s.Damaged {
		fmt.Fprintln(w, "Warning: some features of the recording cannot be read:", printable.Text(err.Error()))
	}
	if s.BadPrograms != nil {
		fmt.Fprintf(w, "Warning: IDs, code or lines of BPF programs are missing, because bperf cannot read all features that describe them: %s\n", printable.Text(s.BadPrograms.Error()))
	}
	if s.Truncated {
		fmt.Fprintln(w, "Warning: the recording is incomplete: it was cut, or its writer was killed; bperf read everything up to there")
	}
}

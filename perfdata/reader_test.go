package perfdata

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/require"
)

// recordings returns the paths of files that perf 6.1 wrote. The names of the machine in them were overwritten.
func recordings(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.data")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	return paths
}

func TestRecordingsOfPerf(t *testing.T) {
	for _, path := range recordings(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			r, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			golden.Compare(t, strings.TrimSuffix(path, ".data")+".golden", dump(t, r))
		})
	}
}

// dump returns everything that the Reader returns of a recording, as text.
func dump(t *testing.T, r *Reader) string {
	var records, head bytes.Buffer
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&records, "%d %s", rec.Time, rec.Type)
		if rec.Event != nil {
			fmt.Fprintf(&records, " %s", rec.Event.Name)
		}
		fmt.Fprintf(&records, " %#x %s\n", uint16(rec.Misc), describe(rec.Value))
	}
	for _, e := range r.Events() {
		fmt.Fprintf(&head, "event %d %s %s\n", e.Index, e.Name, describe(e))
	}
	for _, id := range r.Features().IDs() {
		v, err := r.Features().Get(id)
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(&head, "%s %s\n", id, describe(v))
	}
	s := r.Stats()
	fmt.Fprintf(&head, "%d bytes, %d rounds, %d out of order, truncated: %t, missing: %v\n",
		s.Bytes, s.Rounds, s.OutOfOrder, s.Truncated, s.Missing)
	return head.String() + records.String()
}

// describe formats v like %+v, but without zero fields and with bytes as text.
func describe(v any) string {
	s := fmt.Sprintf("%+v", v)
	for _, zero := range zeroFields {
		s = strings.ReplaceAll(s, zero, "")
	}
	return s
}

var zeroFields = []string{" Raw:[]", " BranchHWIndex:0", " Branches:[]", " BranchCounters:[]", " UserRegs:{ABI:0 Mask:0 Values:[]}",
	" IntrRegs:{ABI:0 Mask:0 Values:[]}", " UserStack:[]", " Weight:0", " DataSource:0", " Transaction:0", " PhysAddr:0", " Cgroup:0",
	" DataPageSize:0", " CodePageSize:0", " Aux:[]", " Rest:[]", " Read:{Format:0 Enabled:0 Running:0 Values:[]}", " Callchain:[]",
	" StreamID:0", " AuxWatermark:0", " SampleMaxStack:0", " _:0", " AuxSampleSize:0", " AuxAction:0", " SigData:0", " Config1:0", " Config2:0",
	" Config3:0", " Config4:0", " BPType:0", " SampleStackUser:0", " SampleRegsUser:0", " SampleRegsIntr:0", " BranchSampleType:0",
	" WakeupEvents:0", " ClockID:0"}

// TestRecordsAsPerf compares order, size and time of all records, and the callchains of samples, with the output of perf itself.
func TestRecordsAsPerf(t *testing.T) {
	perf := requirePerf(t)
	for _, path := range recordings(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			got, err := recordsOf(path)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for line := range strings.Lines(run(t, perf, "report", "-D", "-i", path)) {
				if m := dumpedRecord.FindStringSubmatch(line); m != nil {
					want = append(want, strings.Replace(strings.Join(m[1:], " "), "-1 ", "0 ", 1)) // neither is a time
				} else if m := dumpedFrame.FindStringSubmatch(line); m != nil {
					want = append(want, m[1])
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("other records than perf's (-perf +this):\n%s", diff)
			}
		})
	}
}

// Lines of perf report -D: CPU (if samples have it), time, offset, size, type; and a frame of a callchain.
var (
	dumpedRecord = regexp.MustCompile(`(\d+|-1) (?:0x)?[0-9a-f]+ \[(0x[0-9a-f]+)\]: PERF_RECORD_([A-Z0-9_]+)`)
	dumpedFrame  = regexp.MustCompile(`^\.\.\.\.\. +\d+: ([0-9a-f]{16})\n`)
)

func requirePerf(t *testing.T) string {
	return require.Perf(t)
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Minute
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, errs.String())
	}
	return out.String()
}

// recordsOf formats records like perf report -D.
func recordsOf(path string) (lines []string, err error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for rec, err := range r.Records() {
		if err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("%d %#x %s", rec.Time, len(rec.Raw), rec.Type))
		if s, is := rec.Value.(*Sample); is {
			for _, ip := range s.Callchain {
				lines = append(lines, fmt.Sprintf("%016x", ip))
			}
		}
	}
	return lines, nil
}

// TestFeaturesRoundTrip decodes and encodes features. The result must be identical to the input.
func TestFeaturesRoundTrip(t *testing.T) {
	for _, path := range recordings(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			r, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for _, id := range r.Features().IDs() {
				v, err := r.Features().Get(id)
				if err != nil {
					t.Error(err)
					continue
				}
				raw, _ := r.Features().Raw(id)
				if got := appendFeature(v); !bytes.Equal(got, raw) {
					t.Errorf("%s: %x, was %x", id, got, raw)
				}
			}
		})
	}
}

// TestRecordsRoundTrip decodes and encodes records. The result must be identical to the input, except for the padding of strings.
func TestRecordsRoundTrip(t *testing.T) {
	for _, path := range recordings(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			r, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for rec, err := range r.Records() {
				if err != nil {
					t.Fatal(err)
				}
				attr := &Attr{}
				if rec.Event != nil {
					attr = &rec.Event.Attr
				}
				got := appendRecord(nil, rec.Misc, rec.Value, attr)
				if !bytes.Equal(got, rec.Raw) && !samePadded(rec.Value, got, rec.Raw) {
					t.Errorf("at %d: %s %+v\n%x, was\n%x", rec.Offset, rec.Type, rec.Value, got, rec.Raw)
				}
			}
		})
	}
}

// samePadded compares a record with perf's. It allows for the padding of perf's own records, whose length varies, and for perf's choice among
// the encodings of CPUs.
func samePadded(v Value, got, want []byte) bool {
	if m, is := v.(*CPUMap); is {
		again, err := decodeUserRecord(got, false)
		return err == nil && cmp.Equal(again, Value(m))
	}
	return v.RecordType() >= firstUserRecord && bytes.Equal(got[:6], want[:6]) &&
		bytes.Equal(bytes.TrimRight(got[recordHeaderSize:], "\x00"), bytes.TrimRight(want[recordHeaderSize:], "\x00"))
}

// TestUnsorted reads records in the order of the file.
func TestUnsorted(t *testing.T) {
	order := func(unsorted bool) (offsets []int64) {
		r, err := Open("testdata/group.data")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if unsorted {
			r.Unsorted()
		}
		for record, err := range r.Records() {
			if err != nil {
				t.Fatal(err)
			}
			offsets = append(offsets, record.Offset)
		}
		return offsets
	}
	sorted, unsorted := order(false), order(true)
	if slices.IsSorted(sorted) || !slices.IsSorted(unsorted) || len(sorted) != len(unsorted) {
		t.Errorf("offsets by time: %v, in the order of the file: %v", sorted, unsorted)
	}
}

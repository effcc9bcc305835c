package cli

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

func TestParseTimes(t *testing.T) {
	reader, err := perfdata.Open("../../perfdata/testdata/callchain.data")
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	value, err := reader.Features().Get(perfdata.FeatureSampleTime)
	if err != nil {
		t.Fatal(err)
	}
	times := value.(perfdata.SampleTimes)
	half := times.First + uint64(0.5*float64(times.Last-times.First))
	for _, tt := range []struct {
		text string
		want []replay.TimeRange
	}{
		{"", nil},
		{"1.5,2", []replay.TimeRange{{Start: 1_500_000_000, End: 2_000_000_000}}},
		{",2.000000001", []replay.TimeRange{{End: 2_000_000_001}}},
		{"3,", []replay.TimeRange{{Start: 3_000_000_000, End: math.MaxUint64}}},
		{"1,2 3,4", []replay.TimeRange{{Start: 1e9, End: 2e9}, {Start: 3e9, End: 4e9}}},
		{"0%-50%", []replay.TimeRange{{Start: times.First, End: half - 1}}},
		{"50%/2", []replay.TimeRange{{Start: half, End: times.Last}}},
	} {
		got, err := parseTimes(tt.text, reader)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", tt.text, err, diff)
		}
	}
	for _, text := range []string{"x", "2,1", "1.1234567890", "-1,2", "50%/3", "60%-50%", "%", "99999999999999,", "120%"} {
		if got, err := parseTimes(text, reader); err == nil {
			t.Errorf("%q: %v, and no error", text, got)
		}
	}
}

func TestScriptCommand(t *testing.T) {
	require.NoKernel(t)
	for _, tt := range []struct {
		args   []string
		status int
		out    string // part of the output
		err    string // part of the error
	}{
		{args: []string{"-i", "../../perfdata/testdata/tracepoint.data", "-F", "trace:comm,trace"}, out: "              ls fd: 0x00000003\n"},
		{args: []string{"-i", "../../perfdata/testdata/tracepoint.data", "--header-only"}, out: "# arch : x86_64\n"},
		{args: []string{"-i", "../../perfdata/testdata/callchain.data", "--json", "--no-inline"}, out: `{"comm":"ls",`},
		{args: []string{"-i", "no-such-file"}, status: statusFailed, err: "no-such-file"},
		{args: []string{"-F", "nothing"}, status: statusBadOption, err: "there is no field"},
		{args: []string{"-S", "0xkernel"}, status: statusBadOption, err: "this is no address"},
		{args: []string{"-i", "../../perfdata/testdata/group.data", "-D"}, out: "0xa30@../../perfdata/testdata/group.data [0x8]: event: 68\n"},
		{args: []string{"-i", "../../perfdata/testdata/group.data", "-D", "--time", "1,2"}, out: "0x4f0 [0x30]: PERF_RECORD_COMM exec: ls:13667/13667\n"},
		{args: []string{"-i", "../../perfdata/testdata/group.data", "--dump-unsorted-raw-trace"}, out: "PERF_RECORD_FINISHED_ROUND: unhandled!\n"},
		{args: []string{"-i", "../../perfdata/testdata/group.data", "--switch-on", "task-clock", "--switch-off", "page-faults", "-F", "event,time"},
			out: " 2743.867616:   cpu-clock: \n 2743.868112:   cpu-clock: \n"},
		{args: []string{"-i", "../../perfdata/testdata/group.data", "--switch-on", "nothing"}, status: statusNoEvent, err: "--switch-on nothing: the recording has no such event"},
		{args: []string{"-i", "../../perfdata/testdata/group.data", "--switch-off", "cpu"}, status: statusNoEvent, err: "--switch-off cpu: the recording"},
		{args: []string{"-D", "--json"}, status: statusBadOption, err: "-D and --json cannot be combined"},
		{args: []string{"--reltime", "--deltatime"}, status: statusBadOption, err: "--reltime and --deltatime"},
		{args: []string{"-i", "../../perfdata/testdata/tracepoint.data", "--pid", "x"}, status: statusBadOption, err: "is not an ID"},
		{args: []string{"-i", "../../perfdata/testdata/tracepoint.data", "-C", "3-1"}, status: statusBadOption, err: "--cpu: CPU list \"3-1\""},
	} {
		var out bytes.Buffer
		err := execute("bperf", append([]string{"script"}, tt.args...), &out)
		status := 0
		if err != nil {
			exit := &exitError{Status: 1, Err: err}
			errors.As(err, &exit)
			status = exit.Status
		}
		if status != tt.status || !strings.Contains(out.String(), tt.out) || tt.err != "" && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%v: status %d, %v, output %.200q", tt.args, status, err, out.String())
		}
	}
}

package cli

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/test/require"
)

// TestStatCompat selects the version by flag and by environment. The flag wins, even over an environment that is wrong.
func TestStatCompat(t *testing.T) {
	require.Root(t)
	const (
		in61 = ",CPUs utilized\n"
		in73 = ",CPUs  CPUs_utilized\n"
	)
	for _, tt := range []struct {
		environment, flags string
		want               string // the end of the line
	}{
		{"", "-M CPUs_utilized", in73},
		{"6.1", "-M CPUs_utilized", in61},
		{"7.3", "-M CPUs_utilized", in73},
		{"", "-M CPUs_utilized --compat 6.1", in61},
		{"6.1", "-M CPUs_utilized --compat 7.3", in73},
		{"nonsense", "-M CPUs_utilized --compat=7.3", in73},
		{"", "-e task-clock", in73},
		{"6.1", "-e task-clock", in61},
		{"", "-e task-clock -M cs_per_second", ",,\n"},
	} {
		cmd := bperf(append(append([]string{"stat", "-x,"}, strings.Fields(tt.flags)...), "true")...)
		cmd.Env = append(cmd.Env, compatVariable+"="+tt.environment)
		got := run(t, cmd)
		line, _, _ := strings.Cut(got.stderr, "\n")
		if got.status != 0 || !strings.Contains(line, "task-clock") || !strings.HasSuffix(line+"\n", tt.want) {
			t.Errorf("%s=%s %s: status %d\n%s\nwant …%s", compatVariable, tt.environment, tt.flags, got.status, got.stderr, tt.want)
		}
	}
	cmd := bperf("stat", "true")
	cmd.Env = append(cmd.Env, compatVariable+"=5")
	if got := run(t, cmd); got.status != 129 || !strings.Contains(got.stderr, compatVariable+": ") {
		t.Errorf("a wrong environment: %+v", got)
	}
}

// TestStatBesidePerf compares the names and shapes of metrics, and the keys of JSON, with those of each version of perf.
func TestStatBesidePerf(t *testing.T) {
	require.Root(t)
	for version, perf := range map[string]string{"6.1": distributionPerf(t), "7.3": require.NewestPerf(t)} {
		t.Run(version, func(t *testing.T) {
			if text := run(t, exec.Command(perf, "version")).stdout; !strings.HasPrefix(text, "perf version "+version[:2]) {
				t.Skipf("this is %s", text)
			}
			for _, form := range [][]string{nil, {"-x;"}} {
				args := append(form, "-a", "-e", "cpu-clock,context-switches", "true")
				if version == "7.3" {
					args = append(form, "-a", "-M", "cs_per_second", "true")
				}
				want := metricShape(t, run(t, exec.Command(perf, append([]string{"stat"}, args...)...)).stderr)
				got := metricShape(t, run(t, bperf(append([]string{"stat", "--compat", version}, args...)...)).stderr)
				if want != got {
					t.Errorf("%s: perf has %+v, bperf %+v", form, want, got)
				}
			}
			flags := []string{"-a", "-a -A", "-a --per-core", "-a -r 2"}
			if version == "6.1" { // 7.3 prints no metrics beside events of -e
				flags = append(flags, "-e task-clock,page-faults")
			}
			metrics := ""
			if run(t, exec.Command(perf, "stat", "-a", "true")).status != 0 {
				// Without a PMU, 7.3 counts none of its own events on a CPU with topdown metrics.
				metrics = " -M cs_per_second,migrations_per_second,page_faults_per_second"
			}
			for _, flags := range flags {
				args := append([]string{"-j"}, strings.Fields(flags+metrics+" true")...)
				want := metricObjects(t, run(t, exec.Command(perf, append([]string{"stat"}, args...)...)).stderr)
				got := metricObjects(t, run(t, bperf(append([]string{"stat", "--compat", version}, args...)...)).stderr)
				if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
					t.Errorf("%s (-perf +bperf):\n%s", flags, diff)
				}
			}
		})
	}
}

// shapeOfMetric is what does not change from run to run in the metric of a line.
type shapeOfMetric struct {
	mark, end int // the columns of the # and of the value's end; 0 in CSV
	decimals  int
	unit      string
}

// metricShape returns the shape of the metric of context switches.
func metricShape(t *testing.T, output string) shapeOfMetric {
	t.Helper()
	inText := regexp.MustCompile(`(?m)^ +[0-9,]+ +context-switches +(#) +[0-9]+\.([0-9]+) (.*?) *$`)
	inCSV := regexp.MustCompile(`(?m)^[0-9]+;;context-switches;[0-9]+;100\.00;()[0-9]+\.([0-9]+);(.*)$`)
	withoutPrefix := func(unit string) string { return regexp.MustCompile(`^[KM]/sec`).ReplaceAllString(unit, "/sec") }
	if at := inText.FindStringSubmatchIndex(output); at != nil {
		start := at[0]
		return shapeOfMetric{at[2] - start, at[5] - start, at[5] - at[4], withoutPrefix(output[at[6]:at[7]])}
	}
	at := inCSV.FindStringSubmatchIndex(output)
	if at == nil {
		t.Fatalf("no context switches in\n%s", output)
	}
	return shapeOfMetric{0, 0, at[5] - at[4], withoutPrefix(output[at[6]:at[7]])}
}

// metricObjects returns for each object of a software event with a metric its keys and the unit of the metric.
func metricObjects(t *testing.T, output string) []string {
	t.Helper()
	var all []string
	for line := range strings.Lines(output) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		name, _ := object["event"].(string)
		software := slices.Contains([]string{"cpu-clock", "task-clock", "context-switches", "cpu-migrations", "page-faults"}, name)
		if _, has := object["metric-value"]; !has || !software {
			continue
		}
		var keys []string
		for key, value := range object {
			if s, ok := value.(string); ok && key == "metric-value" && s != "" {
				key += " as a string"
			}
			keys = append(keys, key)
		}
		slices.Sort(keys)
		unit, _ := object["metric-unit"].(string)
		unit = strings.NewReplacer("K/sec", "/sec", "M/sec", "/sec").Replace(unit) // bperf has no prefixes in JSON
		all = append(all, name+": "+unit+": "+strings.Join(keys, ", "))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

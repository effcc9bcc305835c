package cli

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/event/vendor"
	"github.com/bperf/bperf/internal/metric"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// needsX86Tables skips a test of events or metrics of x86, whose tables only bperf for x86 has. It runs on CI's own machine.
func needsX86Tables(t *testing.T) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the events and metrics are those of x86")
	}
}

// statOfCPU runs stat with the tables of a CPU.
func statOfCPU(t *testing.T, cpu string, args ...string) result {
	t.Helper()
	cmd := bperf(append([]string{"stat"}, args...)...)
	cmd.Env = append(cmd.Environ(), "PERF_CPUID="+cpu)
	return run(t, cmd)
}

// TestStatVendorMetrics computes metrics of other CPUs' vendors that need no PMU.
func TestStatVendorMetrics(t *testing.T) {
	needsX86Tables(t)
	const server = "GenuineIntel-6-8F-8" // Sapphire Rapids
	got := statOfCPU(t, server, "-j", "-M", "tma_info_system_time", "sleep", "0.1")
	if !strings.Contains(got.stderr, `"event" : "duration_time"`) || !strings.Contains(got.stderr, `"metric-unit" : "tma_info_system_time", "metric-threshold" : "`) {
		t.Errorf("%+v", got)
	}
	match := regexp.MustCompile(`"metric-value" : "([0-9.]+)"`).FindStringSubmatch(got.stderr)
	if match == nil {
		t.Fatalf("%+v", got)
	}
	if seconds, err := strconv.ParseFloat(match[1], 64); err != nil || seconds < 0.1 {
		t.Errorf("the metric is %s, want at least 0.1 s", match[1])
	}
	for _, c := range []struct {
		cpu, want string
		status    int
		args      []string
	}{
		{server, "--td-level 9: this CPU has metrics for the levels 1 to 6", 1, []string{"--topdown", "--td-level", "9"}},
		{"AuthenticAMD-1-1-1", "--topdown needs the metrics of the group TopdownL1, and bperf has none for AuthenticAMD-1-1-1", 1, []string{"--topdown"}},
		{"AuthenticAMD-1-1-1", "-T needs metrics of transactions, and bperf has none for AuthenticAMD-1-1-1", 1, []string{"-T"}},
		{server, `no metric is named "tma_cor_bound"; nearest: tma_core_bound`, 129, []string{"-M", "tma_cor_bound"}},
	} {
		if got := statOfCPU(t, c.cpu, append(c.args, "true")...); got.status != c.status || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
}

// TestStatTSCFrequency computes a metric that needs the frequency of the TSC, where the kernel or the CPU's name has it.
func TestStatTSCFrequency(t *testing.T) {
	needsX86Tables(t)
	const metricName, skylakeServer = "cpu_operating_frequency", "GenuineIntel-6-55-4"
	literals, err := metric.Literals(os.DirFS("/sys"), os.DirFS("/proc"), metric.Session{})
	if err != nil {
		t.Fatal(err)
	}
	_, named := literals["system_tsc_freq"]
	_, err = perfevent.ClockFrequency()
	unknown := err != nil && !named
	const reason = "this machine does not report a number that they need: " + metricName + " (#system_tsc_freq)"
	got := statOfCPU(t, skylakeServer, "-M", metricName, "true")
	if strings.Contains(got.stderr, reason) != unknown {
		t.Errorf("the frequency is unknown: %v (%v); %+v", unknown, err, got)
	}
}

// fakeMachine is a machine with these core PMUs, all events of which count as cpu-clock: their terms are in config1 and config2, which
// software events ignore.
type fakeMachine struct{ devices, cpu string }

// topdownEvents are the topdown events in sysfs of an Intel CPU.
var topdownEvents = []string{"slots", "topdown-retiring", "topdown-bad-spec", "topdown-fe-bound", "topdown-be-bound", "topdown-heavy-ops",
	"topdown-br-mispredict", "topdown-fetch-lat", "topdown-mem-bound"}

// newFakeMachine returns a machine with one CPU's identification.
func newFakeMachine(t *testing.T, cpu string, pmus ...string) fakeMachine {
	t.Helper()
	require.Root(t)
	m := fakeMachine{t.TempDir(), cpu}
	write := func(text string, path ...string) {
		file := filepath.Join(append([]string{m.devices}, path...)...)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("1", "software", "type")
	for i, pmu := range pmus {
		write("1", pmu, "type")
		write(strconv.Itoa(i), pmu, "cpus")
		for term, format := range map[string]string{"event": "config1:0-7", "umask": "config1:8-15,40-47", "cmask": "config1:24-31",
			"inv": "config1:23", "edge": "config1:18", "any": "config1:21", "frontend": "config2:0-23", "ldlat": "config2:24-39",
			"offcore_rsp": "config2:0-63"} {
			write(format, pmu, "format", term)
		}
		for _, name := range topdownEvents {
			write("event=0x00,umask=0x80", pmu, "events", name)
		}
	}
	if len(pmus) == 1 { // it has all CPUs
		if err := os.Remove(filepath.Join(m.devices, pmus[0], "cpus")); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// run runs a program there.
func (m fakeMachine) run(t *testing.T, program string, args ...string) result {
	t.Helper()
	cmd := bperf()
	if program == "bperf" {
		var err error
		if program, err = os.Executable(); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Path, cmd.Err = "/bin/sh", nil
	cmd.Args = append([]string{"sh", "-c", `mount --bind "$0" /sys/bus/event_source/devices && mount -t bpf bpf /sys/fs/bpf && exec "$@"`, m.devices, program}, args...)
	cmd.Env = append(cmd.Env, "PERF_CPUID="+m.cpu)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	return run(t, cmd)
}

// defaultMetrics returns the metrics that the JSON output has under headings of groups, sorted.
func defaultMetrics(text string) (all []string) {
	group := ""
	for line := range strings.Lines(text) {
		var row struct {
			Group string `json:"metricgroup"`
			Event string
			Value string `json:"metric-value"`
			Unit  string `json:"metric-unit"`
		}
		if json.Unmarshal([]byte(line), &row) != nil {
			continue
		}
		if row.Event != "" {
			group = ""
		}
		group = cmp.Or(row.Group, group)
		if v, err := strconv.ParseFloat(row.Value, 64); group != "" && err == nil && !math.IsNaN(v) {
			all = append(all, row.Unit)
		}
	}
	slices.Sort(all)
	return all
}

// TestStatDefaultMetrics counts without named events on CPUs whose vendor wants metrics there: the same metrics as perf prints.
func TestStatDefaultMetrics(t *testing.T) {
	needsX86Tables(t)
	perf := require.NewestPerf(t)
	for cpu, n := range map[string]int{"GenuineIntel-6-8F-8": 12, "GenuineIntel-6-6A-6": 4, "GenuineIntel-6-55-4": 0, "GenuineIntel-6-1-1": 0} {
		m := newFakeMachine(t, cpu, "cpu")
		for _, options := range []string{"", "-d -d", "--metric-no-group --metric-no-threshold", "-r 2"} {
			args := append(append([]string{"stat", "-j"}, strings.Fields(options)...), "true")
			theirs, ours := m.run(t, perf, args...), m.run(t, "bperf", args...)
			want, got := defaultMetrics(theirs.stderr), defaultMetrics(ours.stderr)
			if len(got) != n || !slices.Equal(got, want) {
				t.Errorf("%s %v: %d metrics, want %d, %v, perf has %v:\n%+v\n%+v", cpu, args, len(got), n, got, want, ours, theirs)
			}
		}
	}
	hybrid := newFakeMachine(t, "GenuineIntel-6-97-2", "cpu_core", "cpu_atom")
	for option, atom := range map[string]bool{"-a": true, "--cputype=core": false} {
		got := hybrid.run(t, "bperf", "stat", option, "true")
		if !strings.Contains(got.stderr, " TopdownL1 (cpu_core) ") || strings.Contains(got.stderr, "TopdownL1 (cpu_atom)") != atom {
			t.Errorf("%s: %+v", option, got)
		}
	}
	server := newFakeMachine(t, "GenuineIntel-6-8F-8", "cpu")
	for _, options := range []string{"-e cpu-clock", "--compat 6.1", "--bpf-counters", "-n"} {
		args := append(append([]string{"stat"}, strings.Fields(options)...), "true")
		if got := server.run(t, "bperf", args...); got.status != 0 || strings.Contains(got.stderr, "Topdown") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	lacking := newFakeMachine(t, "GenuineIntel-6-8F-8")
	if got := lacking.run(t, "bperf", "stat", "true"); got.status != 0 || strings.Contains(strings.ToLower(got.stderr), "topdown") {
		t.Errorf("%+v", got)
	}
	if got := lacking.run(t, "bperf", "stat", "--event-files", "/nonexistent", "true"); got.status == 0 || !strings.Contains(got.stderr, "event files: open /nonexistent") {
		t.Errorf("%+v", got)
	}
}

// metricsOf returns the names and units of the metrics in the JSON output, sorted.
func metricsOf(text string) (all []string) {
	for _, match := range regexp.MustCompile(`"metric-unit" : "([^"]+)"`).FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	slices.Sort(all)
	return all
}

// TestStatMetricModifiers counts the events of metrics with modifiers, as perf does.
func TestStatMetricModifiers(t *testing.T) {
	needsX86Tables(t)
	perf := require.NewestPerf(t)
	m := newFakeMachine(t, "GenuineIntel-6-8F-8", "cpu")
	for list, wantEvent := range map[string]string{
		"TopdownL1:u": "topdown-retiring:u",
		"tma_frontend_bound:k,tma_frontend_bound:u,tma_frontend_bound": "INT_MISC.UOP_DROPPING:k",
		"tma_info_system_kernel_utilization:u":                         "CPU_CLK_UNHALTED.THREAD_P:ku",
		"tma_info_system_time:uk":                                      "duration_time",
		"tma_frontend_bound:D":                                         "topdown-retiring",
	} {
		args := []string{"stat", "-j", "-M", list, "true"}
		theirs, ours := m.run(t, perf, args...), m.run(t, "bperf", args...)
		got, want := metricsOf(ours.stderr), metricsOf(theirs.stderr)
		event := `"event" : "` + wantEvent
		if len(got) == 0 || !slices.Equal(got, want) || !strings.Contains(ours.stderr, event) || !strings.Contains(theirs.stderr, event) {
			t.Errorf("%s:\n%+v\nperf has\n%+v", list, ours, theirs)
		}
	}
	for _, list := range []string{"tma_frontend_bound:z", "insn_per_cycle:z", "tma_frontend_bound:u:k"} {
		if got := m.run(t, "bperf", "stat", "-M", list, "true"); got.status != 129 || !strings.Contains(got.stderr, "there is no modifier") {
			t.Errorf("%s: %+v", list, got)
		}
	}
	got := m.run(t, "bperf", "stat", "-j", "-M", "page_faults_per_second:u,page_faults_per_second:k", "true")
	for _, event := range []string{"page-faults:u", "page-faults:k"} {
		if !regexp.MustCompile(`"event" : "` + event + `".*page_faults_per_second`).MatchString(got.stderr) {
			t.Errorf("%+v", got)
		}
	}
}

// vendorModels has the vendors' names of the CPU models of guests.
var vendorModels = map[string]string{"neoverse-n1": "arm/neoverse-n1", "cortex-a72": "arm/cortex-a57-a72"}

// TestStatVendorEvents counts the same under the vendor's names, in another case than those of sysfs, as under perf's, and computes a
// metric of them. In a guest with the CPU of a vendor, bperf identifies that CPU. Other guests get the names of a Neoverse N1.
func TestStatVendorEvents(t *testing.T) {
	require.ExactPMU(t)
	model := require.CPUModel()
	if model == "" {
		model = "neoverse-n1"
		t.Setenv("PERF_CPUID", "0x00000000410fd0c0")
	}
	machine := event.Host()
	if table := machine.VendorTable(); table == nil || table.Model() != vendorModels[model] {
		t.Fatalf("the CPU %s is %q: the table is %v, want that of %q", model, machine.CPU(), table, vendorModels[model])
	}
	const metricName = "ipc"
	metrics, err := machine.VendorMetrics()
	if err != nil {
		t.Fatal(err)
	}
	hasMetric := slices.ContainsFunc(metrics, func(m vendor.Metric) bool { return m.Name == metricName })
	args := []string{"stat", "-j", "-e", "{instructions:u,INST_RETIRED:u,cycles:u,CPU_CYCLES:u}"}
	if hasMetric {
		args = append(args, "-M", metricName)
	}
	got := run(t, bperf(append(args, "true")...))
	counts := map[string]float64{}
	var ipc string
	for line := range strings.Lines(got.stderr) {
		var row struct {
			Event string
			Value string `json:"counter-value"`
			IPC   string `json:"metric-value"`
			Unit  string `json:"metric-unit"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%v in %+v", err, got)
		}
		counts[row.Event], _ = strconv.ParseFloat(row.Value, 64)
		if row.Unit == "per cycle  ipc" {
			ipc = row.IPC
		}
	}
	if n := counts["INST_RETIRED:u"]; n == 0 || n != counts["instructions:u"] {
		t.Errorf("INST_RETIRED:u differs from instructions:u: %v", counts)
	}
	if n := counts["CPU_CYCLES:u"]; n == 0 || n != counts["cycles:u"] {
		t.Errorf("CPU_CYCLES:u differs from cycles:u: %v", counts)
	}
	if !hasMetric {
		return
	}
	want := counts["INST_RETIRED"] / counts["CPU_CYCLES"]
	if value, err := strconv.ParseFloat(ipc, 64); err != nil || !(math.Abs(value-want) < 1e-3) {
		t.Errorf("the metric is %q, want %v: %+v", ipc, want, got)
	}
}

// TestStatReportMetrics computes metrics from recordings of bperf and perf.
func TestStatReportMetrics(t *testing.T) {
	needsX86Tables(t)
	perf := require.NewestPerf(t)
	m := newFakeMachine(t, "GenuineIntel-6-8F-8", "cpu")
	file := filepath.Join(t.TempDir(), "counts.data")
	level1 := []string{"%  tma_backend_bound", "%  tma_bad_speculation", "%  tma_frontend_bound", "%  tma_retiring"}
	defaults := slices.Sorted(slices.Values(append([]string{"%  tma_heavy_operations", "%  tma_light_operations"}, level1...)))
	for _, c := range []struct {
		program, record, report string
		want                    []string
	}{
		{"bperf", "-M tma_frontend_bound", "-M tma_frontend_bound", level1[2:3]},
		{"bperf", "-M tma_frontend_bound", "-M TopdownL1", level1[:3]}, // the others lack events
		{"bperf", "-M TopdownL1 -a -A", "-M tma_retiring -A", []string{level1[3], level1[3]}[:min(2, runtime.NumCPU())]},
		{"bperf", "-M TopdownL1", "", defaults}, // some of the second level need no other events
		{"bperf", "-M TopdownL1:u", "-M tma_retiring:u", []string{"%  tma_retiring:u"}},
		{"bperf", "-M tma_info_system_time", "-M tma_info_system_time", []string{"tma_info_system_time"}},
		{"bperf", "", "-M TopdownL1", level1},
		{"bperf", "-e page-faults,task-clock", "", nil},
		{perf, "-M TopdownL1", "", defaults},
		{perf, "-M TopdownL1", "-M tma_retiring", level1[3:]},
	} {
		record := append(append([]string{"stat", "record", "-o", file}, strings.Fields(c.record)...), "true")
		if got := m.run(t, c.program, record...); got.status != 0 {
			t.Fatalf("%v: %+v", record, got)
		}
		got := m.run(t, "bperf", append([]string{"stat", "report", "-j", "-i", file}, strings.Fields(c.report)...)...)
		metrics := slices.DeleteFunc(metricsOf(got.stderr), func(s string) bool { return !strings.Contains(s, "tma_") })
		if got.status != 0 || !slices.Equal(metrics, c.want) {
			t.Errorf("%v, report %s: metrics %v, want %v: %+v", record, c.report, metrics, c.want, got)
		}
	}
	m.run(t, "bperf", "stat", "record", "-o", file, "-M", "tma_frontend_bound", "true")
	for list, want := range map[string]string{
		"tma_retiring":         "the metric tma_retiring needs the event topdown-heavy-ops, which is not in the recording",
		"tma_frontend_bound:u": "which is not in the recording",
		"tma_frontend_bond":    "nearest: tma_frontend_bound",
		"Branches":             "no metric of Branches has a value, because the recording lacks some of their events: ",
		"IPC:z":                "there is no modifier 'z'",
	} {
		if got := m.run(t, "bperf", "stat", "report", "-i", file, "-M", list); got.status == 0 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v", list, got)
		}
	}
	m.cpu = ""
	unknown := m.run(t, "bperf", "stat", "report", "-i", "../count/recorded/testdata/7-pipe.data", "-M", "tma_retiring")
	if unknown.status == 0 || !strings.Contains(unknown.stderr, "no metric is named") {
		t.Errorf("%+v", unknown)
	}
}

// TestVendorEventsOfCommands takes an event of the vendor in each command that counts or samples, on a machine that counts it as
// cpu-clock.
func TestVendorEventsOfCommands(t *testing.T) {
	needsX86Tables(t)
	m := newFakeMachine(t, "GenuineIntel-6-8F-8", "cpu")
	const event, config1 = "INT_MISC.UOP_DROPPING", "{ bp_addr, config1 }: 0x10ad"
	spin := program.Program{Body: program.Spin, Times: 20_000_000}.Write(t)
	file := filepath.Join(t.TempDir(), "perf.data")
	for options, period := range map[string]string{"": "1000003", "-c 100000": "100000"} { // the vendor's, and one of the user's
		args := append(append([]string{"record", "-o", file, "-e", event}, strings.Fields(options)...), spin)
		if got := m.run(t, "bperf", args...); got.status != 0 {
			t.Fatalf("%v: %+v", args, got)
		}
		got := m.run(t, "bperf", "evlist", "-v", "-i", file)
		for _, want := range []string{event + ": type: 1 ", "config: 0 ", config1, "{ sample_period, sample_freq }: " + period + ","} {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("%v: no %q in %+v", args, want, got)
			}
		}
	}
	if got := m.run(t, "bperf", "script", "-F", "comm,event", "-i", file); !strings.Contains(got.stdout, event+":") {
		t.Errorf("no sample: %+v", got)
	}
	profile := m.run(t, "bperf", "profile", "-e", event, "-c", "100000", "--format", "tree", spin)
	if profile.status != 0 || !regexp.MustCompile(`# Samples: [1-9]\d*[KM ] of event '`+event+`'`).MatchString(profile.stdout) {
		t.Errorf("%+v", profile)
	}
	shared := m.run(t, "bperf", "stat", "--bpf-counters", "-x,", "-e", event+",cpu-clock", spin)
	if shared.status != 0 || !regexp.MustCompile(`(?m)^[1-9][0-9.]*,msec,`+event+`,\d+,100\.00,`).MatchString(shared.stderr) {
		t.Errorf("%+v", shared)
	}
	label, id := onGetSID(t, "of_vendor", true)
	inside := m.run(t, "bperf", "stat", "-x,", "-e", event, "-b", id, sid1000.Write(t))
	if !regexp.MustCompile(`(?m)^1000,,bpf-runs,` + regexp.QuoteMeta(label) + `,`).MatchString(inside.stderr) {
		t.Errorf("%+v", inside)
	}
	counted := regexp.MustCompile(`(?m)^([0-9.]+|<not supported>),msec,` + event + `,` + regexp.QuoteMeta(label) + `,`).FindStringSubmatch(inside.stderr)
	if counted == nil || require.IsGuest() && counted[1] == "<not supported>" { // the host's kernel may let nobody trace programs
		t.Errorf("%+v", inside)
	}
}

// TestVendorEventsExact counts and samples a known number of instructions under the vendor's name.
func TestVendorEventsExact(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	of := func(args ...string) result {
		t.Helper()
		cmd := bperf(args...)
		cmd.Env = append(cmd.Env, "PERF_CPUID=0x00000000410fd0c0") // Neoverse N1
		got := run(t, cmd)
		if got.status != 0 {
			t.Fatalf("%v: %+v", args, got)
		}
		return got
	}
	program := program.Program{Body: program.Spin, Times: 10_000_000}
	spin := program.Write(t)
	const events, period = "INST_RETIRED:u,CPU_CYCLES:u", 100_000
	count := func(text, event string) string {
		match := regexp.MustCompile(`(?m)^(\d+),,` + event + `,`).FindStringSubmatch(text)
		if match == nil {
			t.Fatalf("no count of %s:\n%s", event, text)
		}
		return match[1]
	}
	want := strconv.FormatUint(program.Instructions(), 10)
	for _, options := range [][]string{{"stat"}, {"stat", "--bpf-counters"}} {
		if options[len(options)-1] == "--bpf-counters" {
			require.BPFFS(t)
		}
		got := of(append(options, "-x,", "-e", events+",instructions:u", spin)...).stderr
		if n, same := count(got, "INST_RETIRED:u"), count(got, "instructions:u"); n != want || same != want {
			t.Errorf("%v: INST_RETIRED:u is %s, instructions:u %s, want %s:\n%s", options, n, same, want, got)
		}
	}
	inRange := func(command, text, pattern string) {
		t.Helper()
		n := len(regexp.MustCompile(pattern).FindAllString(text, -1))
		if match := regexp.MustCompile(pattern).FindStringSubmatch(text); len(match) > 1 {
			n, _ = strconv.Atoi(match[1])
		}
		if most := int(program.Instructions() / period); n < most-1 || n > most {
			t.Errorf("%s: %d samples of INST_RETIRED:u, want %d:\n%.2000s", command, n, most, text)
		}
	}
	file := filepath.Join(t.TempDir(), "perf.data")
	of("record", "-o", file, "-e", events, "-c", strconv.Itoa(period), spin)
	inRange("record", of("script", "-F", "event", "-i", file).stdout, "INST_RETIRED:u:")
	profile := of("profile", "-e", events, "-c", strconv.Itoa(period), "--format", "tree", spin)
	inRange("profile", profile.stdout, `# Samples: (\d+)  of event 'INST_RETIRED:u'`)

	_, id := onGetSID(t, "exact", true)
	call := sid1000.Write(t)
	median := func(event string) int {
		got := of("stat", "-j", "-e", event, "-b", id, call)
		match := regexp.MustCompile(`"event" : "` + event + `".*"run-median" : (\d+)`).FindStringSubmatch(got.stderr)
		if match == nil {
			t.Fatalf("%+v", got)
		}
		n, _ := strconv.Atoi(match[1])
		return n
	}
	// The kernel's path to a reading may be a few instructions longer in one of the sessions.
	if vendor, generic := median("INST_RETIRED"), median("instructions"); vendor == 0 || vendor < generic*9/10 || generic < vendor*9/10 {
		t.Errorf("-b: a run has %d INST_RETIRED and %d instructions", vendor, generic)
	}
}

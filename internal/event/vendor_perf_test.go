package event

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bperf/bperf/internal/event/vendor"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// models are CPUs of the models that are compared with perf: of x86 old ones, servers and hybrid ones, of arm64 all.
var models = map[string]map[string]string{
	"amd64": {
		"bonnell": "GenuineIntel-6-1C-1", "nehalemep": "GenuineIntel-6-1A-1", "sandybridge": "GenuineIntel-6-2A-7",
		"haswellx": "GenuineIntel-6-3F-2", "broadwellx": "GenuineIntel-6-4F-1", "knightslanding": "GenuineIntel-6-57-1",
		"skylake": "GenuineIntel-6-8E-A", "skylakex": "GenuineIntel-6-55-4", "cascadelakex": "GenuineIntel-6-55-7",
		"icelakex": "GenuineIntel-6-6A-6", "sapphirerapids": "GenuineIntel-6-8F-8", "graniterapids": "GenuineIntel-6-AD-1",
		"snowridgex": "GenuineIntel-6-86-1", "alderlake": "GenuineIntel-6-97-2", "meteorlake": "GenuineIntel-6-AA-4",
		"arrowlake": "GenuineIntel-6-C6-2", "lunarlake": "GenuineIntel-6-BD-1", "amdzen1": "AuthenticAMD-23-1-2",
		"amdzen2": "AuthenticAMD-23-31-0", "amdzen3": "AuthenticAMD-25-1-1", "amdzen4": "AuthenticAMD-25-61-2",
		"amdzen5": "AuthenticAMD-26-2-1",
	},
	"arm64": {
		"arm/cortex-a34": "0x00000000410fd020", "arm/cortex-a35": "0x00000000410fd040", "arm/cortex-a53": "0x00000000410fd030",
		"arm/cortex-a55": "0x00000000410fd050", "arm/cortex-a57-a72": "0x00000000410fd080", "arm/cortex-a65-e1": "0x00000000410fd4a0",
		"arm/cortex-a73": "0x00000000410fd090", "arm/cortex-a75": "0x00000000410fd0a0", "arm/cortex-a76": "0x00000000410fd0b0",
		"arm/cortex-a77": "0x00000000410fd0d0", "arm/cortex-a78": "0x00000000410fd410", "arm/cortex-a510": "0x00000000410fd460",
		"arm/cortex-a710": "0x00000000410fd470", "arm/cortex-x1": "0x00000000410fd440", "arm/cortex-x2": "0x00000000410fd480",
		"arm/neoverse-n1": "0x00000000410fd0c0", "arm/neoverse-n2-v2": "0x00000000410fd490", "arm/neoverse-n3": "0x00000000410fd8e0",
		"arm/neoverse-v1": "0x00000000410fd400", "arm/neoverse-v3": "0x00000000410fd830", "ampere/ampereone": "0x00000000c00fac30",
		"ampere/ampereonex": "0x00000000c00fac40", "ampere/emag": "0x00000000500f0000", "cavium/thunderx2": "0x00000000430f0af0",
		"fujitsu/a64fx": "0x00000000460f0010", "fujitsu/monaka": "0x00000000460f0030", "hisilicon/hip08": "0x00000000480fd010",
		"nvidia/t410": "0x000000004e0f0100",
	},
}

// differing are events, and PMUs with events, that perf opens otherwise or not at all, with the reason.
var differing = map[string]string{
	"mem_inst_retired.latency_above_threshold_0": "the source has no threshold: perf makes it the term ldlat=None, which it then refuses",
	"cpu_lowpower": "perf takes the third kind of cores for an uncore unit and finds no PMU uncore_cpu_lowpower",
}

// Every event of the vendor gives the attributes with which perf opens it, on the same PMUs. Short runs take a sample.
func TestVendorEventsBesidePerf(t *testing.T) {
	require.Root(t)
	perf := require.NewestPerf(t)
	names := 0
	for model, cpuid := range models[runtime.GOARCH] {
		t.Run(model, func(t *testing.T) {
			table, err := vendor.ForCPU(cpuid)
			if err != nil {
				t.Fatal(err)
			}
			if table.Model() != model {
				t.Fatalf("%s is a %s", cpuid, table.Model())
			}
			dir := t.TempDir()
			writeDevices(t, dir, table)
			events := namesOf(table)
			if !require.Long() {
				events = sample(events, 24)
			}
			writeRivals(t, dir, events)
			names += len(events)
			for batch := range slices.Chunk(events, 400) {
				compareWithPerf(t, perf, dir, cpuid, batch)
			}
		})
	}
	t.Logf("compared %d events", names)
}

// sample returns n elements that are spread over a list.
func sample(list []string, n int) []string {
	step := len(list)/n + 1
	var chosen []string
	for i := 0; i < len(list); i += step {
		chosen = append(chosen, list[i])
	}
	return chosen
}

// namesOf returns the names of a table's events with their PMUs.
func namesOf(table *vendor.Table) []string {
	var names []string
	for _, pmu := range table.PMUs() {
		for e := range table.Events(pmu) {
			switch {
			case differing[e.Name] != "" || differing[pmu] != "" || e.Compat != "":
			case pmu == "":
				names = append(names, e.Name)
			default:
				names = append(names, pmuName(pmu)+"/"+e.Name+"/")
			}
		}
	}
	return names
}

// pmuName returns the name of a box's PMU for the kind in a table.
func pmuName(kind string) string {
	if first, last, ok := strings.Cut(kind, ","); ok {
		return first + "1_" + last + "0"
	}
	return kind
}

// formats have the terms of PMUs, as the kernel's drivers do.
var formats = map[string]string{
	"amd64": "event:config:0-7 umask:config:8-15,40-47 cmask:config:24-31 inv:config:23 edge:config:18 any:config:21 ldlat:config1:0-15 " +
		"offcore_rsp:config1:0-63 frontend:config1:0-23",
	"AuthenticAMD": "event:config:0-7,32-35 umask:config:8-15 cmask:config:24-31 inv:config:23 edge:config:18",
	"arm64":        "event:config:0-15",
	"uncore": "event:config:0-7,21 umask:config:8-15,32-63 cmask:config:24-31 inv:config:23 edge:config:18 ch_mask:config2:36-47 " +
		"fc_mask:config2:48-50 occ_sel:config:14-15 filter_opc:config1:23-31 filter_nc:config1:46-47 filter_tid:config1:0-5 " +
		"filter_state:config1:17-22",
	"amd_l3":  "event:config:0-7 umask:config:8-15 enallslices:config:46 enallcores:config:47 sliceid:config:48-50 threadmask:config:56-59",
	"amd_df":  "event:config:0-7,32-37 umask:config:8-15,24-27",
	"amd_umc": "event:config:0-7 rdwrmask:config:8-9",
}

// firstType is more than the type of any PMU, so that no event can be opened: perf prints its attributes all the same.
const firstType = 10_000

// writeDevices writes the devices of a machine that has all PMUs of a table, two of each uncore unit.
func writeDevices(t *testing.T, dir string, table *vendor.Table) {
	typ := firstType
	write := func(pmu, terms, cpus string) {
		if _, err := os.Stat(filepath.Join(dir, pmu)); err == nil {
			return
		}
		files := map[string]string{"type": strconv.Itoa(typ)}
		typ++
		if cpus != "" {
			files[cpus] = "0"
		}
		for _, term := range strings.Fields(terms) {
			name, format, _ := strings.Cut(term, ":")
			files["format/"+name] = format
		}
		for name, text := range files {
			path := filepath.Join(dir, pmu, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	core := formats[runtime.GOARCH]
	if strings.HasPrefix(table.Model(), "amd") {
		core = formats["AuthenticAMD"]
	}
	for _, kind := range table.PMUs() {
		switch {
		case kind == "" && runtime.GOARCH == "arm64":
			write("armv8_pmuv3_0", core, "cpus")
		case kind == "":
			write("cpu", core, "")
		case strings.HasPrefix(kind, "cpu_"):
			write(kind, core, "cpus")
		case strings.HasPrefix(kind, "amd_"):
			write(kind, formats[kind], "cpumask")
		case strings.Contains(kind, ","):
			write(pmuName(kind), formats["uncore"], "cpumask")
		case strings.Trim(kind[len(kind)-1:], "0123456789") == "":
			write(kind, formats["uncore"], "cpumask")
		default:
			write(kind+"_0", formats["uncore"], "cpumask")
			write(kind+"_1", formats["uncore"], "cpumask")
		}
	}
}

// writeRivals writes files for every third event into sysfs, as a kernel that has an event of the same name: the vendor's encoding is used.
func writeRivals(t *testing.T, dir string, names []string) {
	for i := 0; i < len(names); i += 3 {
		pmu, name := "cpu", names[i]
		if runtime.GOARCH == "arm64" {
			pmu = "armv8_pmuv3_0"
		}
		if on, rest, ok := strings.Cut(names[i], "/"); ok {
			pmu, name = on, strings.TrimSuffix(rest, "/")
		}
		devices, err := filepath.Glob(filepath.Join(dir, pmu+"*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, device := range devices {
			events := filepath.Join(device, "events")
			if err := os.MkdirAll(events, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(events, strings.ToLower(name)), []byte("event=0x77\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func compareWithPerf(t *testing.T, perf, devices, cpuid string, names []string) {
	t.Helper()
	var got []perfdata.Attr
	m := NewMachine(os.DirFS(devices), nil)
	m.OfCPU(cpuid)
	list, err := m.Parse(strings.Join(names, ","))
	if err != nil {
		t.Error(err)
		return
	}
	for _, e := range list.Events() {
		a := e.Attr
		got = append(got, perfdata.Attr{Type: a.Type, Config: a.Config, Config1: a.Config1, Config2: a.Config2, Config3: a.Config3})
	}
	want := attrsOfPerf(t, perf, devices, cpuid, names)
	if len(got) != len(want) {
		t.Errorf("%d events are %d perf events, perf opens %d", len(names), len(got), len(want))
		return
	}
	// perf opens the boxes of some units in another order.
	byType := func(a, b perfdata.Attr) int { return int(a.Type) - int(b.Type) }
	events := list.Events()
	for start, end := 0, 0; start < len(events); start = end {
		for end = start; end < len(events) && events[end].Term == events[start].Term; end++ {
		}
		slices.SortStableFunc(got[start:end], byType)
		slices.SortStableFunc(want[start:end], byType)
		if !slices.Equal(got[start:end], want[start:end]) {
			t.Errorf("%s: got %s, perf has %s", events[start].Name, formatAttrs(got[start:end]), formatAttrs(want[start:end]))
		}
	}
}

func formatAttrs(attrs []perfdata.Attr) string {
	var texts []string
	for _, a := range attrs {
		texts = append(texts, fmt.Sprintf("%d/%#x,%#x,%#x,%#x", a.Type, a.Config, a.Config1, a.Config2, a.Config3))
	}
	return strings.Join(texts, " ")
}

var attrField = regexp.MustCompile(`(?m)^  (?:\{ bp_\w+, )?(type|config[123]?)(?: \})? +(0x[0-9a-f]+|[0-9]+)`)

// attrsOfPerf returns the attributes with which perf tries to open events, in a mount namespace in which the machine has these devices.
func attrsOfPerf(t *testing.T, perf, devices, cpuid string, names []string) []perfdata.Attr {
	t.Helper()
	// On machines with several kinds of cores perf tries further attributes while it prints those of the first event.
	cmd := exec.Command("sh", "-c", `mount --bind "$1" /sys/bus/event_source/devices && exec "$2" stat -vv -e "$3" true`,
		"sh", devices, perf, "cycles,"+strings.Join(names, ","))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), CPUVariable+"="+cpuid)
	out, _ := cmd.CombinedOutput() // its status is that no event is supported
	var attrs []perfdata.Attr
	for _, block := range bytes.Split(out, []byte("perf_event_attr:\n"))[1:] {
		text, _, _ := bytes.Cut(block, []byte("\n-----"))
		var a perfdata.Attr
		for _, field := range attrField.FindAllSubmatch(text, -1) {
			n, err := strconv.ParseUint(string(field[2]), 0, 64)
			if err != nil {
				t.Fatal(err)
			}
			switch string(field[1]) {
			case "type":
				a.Type = uint32(n)
			case "config":
				a.Config = n
			case "config1":
				a.Config1 = n
			case "config2":
				a.Config2 = n
			case "config3":
				a.Config3 = n
			}
		}
		// Skip cycles, and the attributes with which perf finds out what the kernel can do.
		if a.Type >= firstType {
			attrs = append(attrs, a)
		}
	}
	if len(attrs) == 0 {
		t.Fatalf("perf opens nothing: %s", fmt.Sprintf("%.2000s", out))
	}
	return attrs
}

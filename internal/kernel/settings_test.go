package kernel

import (
	"strings"
	"testing"
	"testing/fstest"
)

// files returns a tree of files.
func files(content map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, text := range content {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return tree
}

func TestReadCapabilities(t *testing.T) {
	tests := []struct {
		status  string
		want    capabilities
		wantErr string
	}{
		{"Name:\tx\nCapPrm:\t1\nCapEff:\t000001fffeffffff\n", 0x1fffeffffff, ""},
		{"CapEff:\t0000000000000000\n", 0, ""},
		{"Name:\tx\n", 0, "no line CapEff"},
		{"CapEff:\tzz\n", 0, "invalid syntax"},
	}
	for _, tt := range tests {
		got, err := readCapabilities(files(map[string]string{"self/status": tt.status}))
		if got != tt.want || (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
			t.Errorf("%q: %#x, %v; want %#x, %q", tt.status, got, err, tt.want, tt.wantErr)
		}
	}
}

func TestHas(t *testing.T) {
	admin := capabilities(1 << capSysAdmin.bit)
	if !admin.has(capBPF, capPerfmon) || admin.has(capSysResource) {
		t.Error("CAP_SYS_ADMIN stands for CAP_BPF and CAP_PERFMON, not for CAP_SYS_RESOURCE")
	}
	if bpf := capabilities(1 << capBPF.bit); !bpf.has(capBPF) || bpf.has(capBPF, capPerfmon) {
		t.Error("has wants all of them")
	}
}

func TestSettings(t *testing.T) {
	all := ^capabilities(0)
	tests := []struct {
		name   string
		find   func(examiner) Finding
		proc   map[string]string
		sys    map[string]string
		caps   capabilities
		state  State
		detail string
		remedy string

		refused bool
		typed   error
	}{
		{name: "paranoid 3", find: examiner.paranoid, proc: map[string]string{"sys/kernel/perf_event_paranoid": "3\n"},
			state: Limited, detail: "3: without CAP_SYS_ADMIN nothing", remedy: "perf_event_paranoid=2"},
		{name: "paranoid 3 with CAP_PERFMON", find: examiner.paranoid, proc: map[string]string{"sys/kernel/perf_event_paranoid": "3\n"},
			caps: 1 << capPerfmon.bit, state: Limited, detail: "3: ", remedy: "perf_event_paranoid=2"},
		{name: "paranoid 2", find: examiner.paranoid, proc: map[string]string{"sys/kernel/perf_event_paranoid": "2\n"},
			state: Limited, detail: "2: without CAP_PERFMON: own processes, in user mode", remedy: "setcap cap_perfmon=ep"},
		{name: "paranoid 2 as root", find: examiner.paranoid, proc: map[string]string{"sys/kernel/perf_event_paranoid": "2\n"}, caps: all,
			state: Works, detail: "2: "},
		{name: "paranoid 1", find: examiner.paranoid, proc: map[string]string{"sys/kernel/perf_event_paranoid": "1\n"},
			state: Limited, detail: "1: without CAP_PERFMON: own processes, kernel included", remedy: "setcap"},
		{name: "paranoid 0", find: examiner.paranoid, proc: map[string]string{"sys/kernel/perf_event_paranoid": "0\n"},
			state: Works, detail: "0: without CAP_PERFMON: all but raw tracepoint data"},
		{name: "paranoid -1", find: examiner.paranoid, proc: map[string]string{"sys/kernel/perf_event_paranoid": "-1\n"},
			state: Works, detail: "-1: everyone"},
		{name: "no paranoid", find: examiner.paranoid, state: Missing, detail: "perf_event_paranoid"},
		{name: "kptr 0", find: examiner.kernelAddresses, proc: map[string]string{"sys/kernel/kptr_restrict": "0\n"},
			state: Works, detail: "has addresses"},
		{name: "kptr 1", find: examiner.kernelAddresses, proc: map[string]string{"sys/kernel/kptr_restrict": "1\n"},
			state: Limited, detail: "no names", remedy: "kptr_restrict=0"},
		{name: "kptr 1 as root", find: examiner.kernelAddresses, proc: map[string]string{"sys/kernel/kptr_restrict": "1\n"}, caps: all,
			state: Works, detail: "CAP_SYSLOG"},
		{name: "kptr 2 as root", find: examiner.kernelAddresses, proc: map[string]string{"sys/kernel/kptr_restrict": "2\n"}, caps: all,
			state: Limited, detail: "2: ", remedy: "kptr_restrict=0"},
		{name: "no lockdown", find: examiner.lockdown, state: Works, detail: "off"},
		{name: "lockdown none", find: examiner.lockdown, sys: map[string]string{"kernel/security/lockdown": "[none] integrity confidentiality\n"},
			state: Works, detail: "none"},
		{name: "integrity", find: examiner.lockdown, sys: map[string]string{"kernel/security/lockdown": "none [integrity] confidentiality\n"},
			state: Works, detail: "integrity"},
		{name: "confidentiality", find: examiner.lockdown, sys: map[string]string{"kernel/security/lockdown": "none integrity [confidentiality]\n"},
			state: Limited, detail: "confidentiality: there are no tracepoints", remedy: "Boot without"},
		{name: "confidentiality, no securityfs", find: examiner.lockdown, refused: true, state: Limited, detail: "confidentiality: ", remedy: "Boot without"},
		{name: "confidentiality, Linux 6.1", find: examiner.lockdown, refused: true, typed: errReadsRefused, state: Missing, detail: "need Linux 6.2",
			remedy: "Boot without"},
		{name: "empty tracefs", find: examiner.tracepoints, refused: true, state: Missing, detail: "tracefs is empty", remedy: "Boot without"},
		{name: "odd lockdown", find: examiner.lockdown, sys: map[string]string{"kernel/security/lockdown": "?\n"},
			state: Missing, detail: `"?\n"`},
		{name: "all capabilities", find: examiner.capabilityList, caps: all, state: Works, detail: "CAP_PERFMON, CAP_BPF, CAP_SYS_RESOURCE"},
		{name: "no capability", find: examiner.capabilityList, state: Missing, detail: "none", remedy: "setcap cap_perfmon,cap_bpf=ep"},
		{name: "only CAP_PERFMON", find: examiner.capabilityList, caps: 1 << capPerfmon.bit,
			state: Limited, detail: "CAP_PERFMON, but not CAP_BPF, CAP_SYS_RESOURCE", remedy: "setcap"},
		{name: "without CAP_SYS_RESOURCE", find: examiner.capabilityList, caps: all &^ (1 << capSysResource.bit),
			state: Limited, detail: "but not CAP_SYS_RESOURCE", remedy: "hard limit"},
		{name: "no tracefs", find: examiner.tracepoints, state: Missing, detail: "not mounted", remedy: "mount -t tracefs"},
		{name: "bad tracepoint", find: examiner.tracepoints, sys: map[string]string{"kernel/tracing/events/sched/sched_switch/id": "x"},
			state: Missing, detail: `is "x", not a number`},
		{name: "no BTF", find: examiner.btf, state: Missing, detail: "btf/vmlinux", remedy: "CONFIG_DEBUG_INFO_BTF"},
		{name: "BTF", find: examiner.btf, sys: map[string]string{"kernel/btf/vmlinux": strings.Repeat("x", 3<<19)}, state: Works, detail: "1.5 MiB"},
		{name: "bpffs", find: examiner.bpffs, proc: map[string]string{"self/mountinfo": "1 1 0:1 / /sys/fs/b\\040pf rw - bpf bpf rw,mode=700\n"},
			state: Works, detail: "on /sys/fs/b pf"},
		{name: "no bpffs", find: examiner.bpffs, proc: map[string]string{"self/mountinfo": "1 1 0:1 / /proc rw - proc proc rw\nshort\n"},
			state: Missing, detail: "not mounted", remedy: "mount -t bpf"},
		{name: "no cgroups", find: examiner.cgroups, proc: map[string]string{"self/mountinfo": "1 1 0:1 / /c rw - cgroup cgroup rw,cpu\n"},
			state: Missing, detail: "no cgroup2", remedy: "mount -t cgroup2"},
		{name: "no sysfs", find: examiner.system, state: Missing, detail: "cpu/online", remedy: "mount -t sysfs"},
		{name: "odd sysfs", find: examiner.system, sys: map[string]string{"devices/system/cpu/online": "\n"}, state: Missing, detail: "is empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.find(examiner{proc: files(tt.proc), sys: files(tt.sys), tracefs: "/sys/kernel/tracing", capabilities: tt.caps, readsRefused: tt.refused, typedReads: tt.typed})
			if got.State != tt.state || !strings.Contains(got.Detail, tt.detail) || !strings.Contains(got.Remedy, tt.remedy) {
				t.Errorf("%+v\nwant %s, %q, %q", got, tt.state, tt.detail, tt.remedy)
			}
			if got.State == Works && got.Remedy != "" {
				t.Errorf("it works and has a remedy: %s", got.Remedy)
			}
		})
	}
}

func TestRemedyWithCapabilities(t *testing.T) {
	with := func(c capabilities) examiner {
		return examiner{proc: files(map[string]string{"sys/kernel/perf_event_paranoid": "4\n"}), capabilities: c}
	}
	if got := with(^capabilities(0)).permission("; or more"); got != Policy {
		t.Errorf("with all capabilities: %s", got)
	}
	if got, want := with(0).permission("; or more"), "Run as root, or allow more: sysctl kernel.perf_event_paranoid=2; or more"; got != want {
		t.Errorf("without capabilities: %s, want %s", got, want)
	}
}

// TestTracepointsOfDebugfs looks for tracepoints where tracefs is mounted, which is not always /sys/kernel/tracing.
func TestTracepointsOfDebugfs(t *testing.T) {
	const tracefs = "/sys/kernel/debug/tracing"
	x := examiner{tracefs: tracefs, sys: files(map[string]string{"kernel/debug/tracing/events/sched/sched_switch/id": "x"})}
	if f := x.tracepoints(); f.State != Missing || f.Detail != `the ID of sched:sched_switch is "x", not a number` {
		t.Errorf("%+v", f)
	}
	x.sys = files(nil)
	if f := x.tracepoints(); f.State != Missing || f.Detail != "tracefs is not mounted on "+tracefs {
		t.Errorf("%+v", f)
	}
}

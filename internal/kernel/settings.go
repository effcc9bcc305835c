package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/procfs"
)

// paranoid explains kernel.perf_event_paranoid (https://docs.kernel.org/admin-guide/sysctl/kernel.html#perf-event-paranoid).
func (x examiner) paranoid() Finding {
	const feature = "kernel.perf_event_paranoid"
	level, err := procfs.Sysctl(x.proc, "kernel/perf_event_paranoid")
	if err != nil {
		return missing(feature, "", "%v", err)
	}
	var rule string
	switch {
	case level > 2:
		rule = "without CAP_SYS_ADMIN nothing may be counted"
	case level == 2:
		rule = "without CAP_PERFMON: own processes, in user mode"
	case level == 1:
		rule = "without CAP_PERFMON: own processes, kernel included"
	case level == 0:
		rule = "without CAP_PERFMON: all but raw tracepoint data"
	default:
		rule = "everyone may count everything"
	}
	if level > 2 && !x.capabilities.has(capSysAdmin) || level > 0 && !x.capabilities.has(capPerfmon) {
		return limited(feature, x.permission("")+"; or sysctl kernel.perf_event_paranoid=0", "%d: %s", level, rule)
	}
	return works(feature, "%d: %s", level, rule)
}

// kernelAddresses explains kernel.kptr_restrict (https://docs.kernel.org/admin-guide/sysctl/kernel.html#kptr-restrict).
func (x examiner) kernelAddresses() Finding {
	const feature = "kernel.kptr_restrict"
	level, err := procfs.Sysctl(x.proc, "kernel/kptr_restrict")
	switch {
	case err != nil:
		return missing(feature, "", "%v", err)
	case level == 0:
		return works(feature, "0: /proc/kallsyms has addresses")
	case level == 1 && x.capabilities.has(capSyslog):
		return works(feature, "1: /proc/kallsyms has addresses, with CAP_SYSLOG")
	default:
		return limited(feature, "sysctl kernel.kptr_restrict=0", "%d: kernel functions will have no names in profiles", level)
	}
}

const unlock = "Boot without lockdown=confidentiality."

// lockdown reports the state of the lockdown module (kernel_lockdown(7)). If its file is mounted, the current state is the one in brackets.
func (x examiner) lockdown() Finding {
	const feature = "lockdown"
	if x.readsRefused {
		return x.confidentiality(feature)
	}
	text, err := fs.ReadFile(x.sys, "kernel/security/lockdown")
	if errors.Is(err, fs.ErrNotExist) {
		return works(feature, "off")
	}
	if err != nil {
		return limited(feature, "Run as root to see it.", "unknown: %v", err)
	}
	_, state, _ := strings.Cut(string(text), "[")
	state, _, ok := strings.Cut(state, "]")
	switch {
	case !ok:
		return missing(feature, "", "/sys/kernel/security/lockdown has no state in brackets: %q", text)
	case state == "confidentiality":
		return x.confidentiality(feature)
	default:
		return works(feature, "%s", state)
	}
}

func (x examiner) confidentiality(feature string) Finding {
	const detail = "confidentiality: there are no tracepoints, and BPF programs of other tools cannot read the kernel's memory; "
	if x.typedReads != nil {
		return missing(feature, unlock, detail+"neither can bperf's: %v", x.typedReads)
	}
	return limited(feature, unlock, detail+"bperf's programs read it with bpf_rdonly_cast")
}

// capabilities is a set of capabilities, as in include/uapi/linux/capability.h.
type capabilities uint64

type capability struct {
	bit  int
	name string
}

var (
	capSysAdmin    = capability{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}
	capSysResource = capability{unix.CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE"}
	capSyslog      = capability{unix.CAP_SYSLOG, "CAP_SYSLOG"}
	capPerfmon     = capability{unix.CAP_PERFMON, "CAP_PERFMON"} // Linux 5.8
	capBPF         = capability{unix.CAP_BPF, "CAP_BPF"}         // Linux 5.8
)

// has reports whether the set has all the given capabilities. CAP_SYS_ADMIN implies those that were split from it.
func (c capabilities) has(all ...capability) bool {
	in := func(one capability) bool { return c>>one.bit&1 == 1 }
	return !slices.ContainsFunc(all, func(one capability) bool {
		return !in(one) && !(in(capSysAdmin) && one != capSysResource)
	})
}

// readCapabilities returns the effective set of this process (proc_pid_status(5)).
func readCapabilities(proc fs.FS) (capabilities, error) {
	status, err := procfs.ReadStatus(proc, "self")
	if err != nil {
		return 0, fmt.Errorf("read the capabilities: %w", err)
	}
	value, err := status.Need("CapEff")
	if err != nil {
		return 0, fmt.Errorf("read the capabilities: /proc/self/status %w", err)
	}
	set, err := strconv.ParseUint(value, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("read the capabilities: %w", err)
	}
	return capabilities(set), nil
}

// Policy explains a refusal to a process that has all capabilities.
const Policy = "This process has the capabilities, but something else refuses: a seccomp filter (a container's profile must allow perf_event_open " +
	"and bpf), a security module, kernel lockdown (/sys/kernel/security/lockdown), or a user namespace, outside which its capabilities do not count"

// Privileged reports whether this process has every capability that counting and BPF need. proc is /proc.
func Privileged(proc fs.FS) bool {
	c, err := readCapabilities(proc)
	return err == nil && c.has(capBPF, capPerfmon, capSysAdmin)
}

// Remedy returns the fix for a permission error: grant, which describes how to give a process the capabilities, or Policy if this process
// has them already.
func Remedy(grant string) string {
	if Privileged(os.DirFS("/proc")) {
		return Policy
	}
	return grant
}

func (x examiner) capabilityList() Finding {
	const feature = "capabilities"
	var have, lack []string
	for _, c := range []capability{capPerfmon, capBPF, capSysResource} {
		if x.capabilities.has(c) {
			have = append(have, c.name)
		} else {
			lack = append(lack, c.name)
		}
	}
	switch {
	case len(lack) == 0:
		return works(feature, "%s", strings.Join(have, ", "))
	case len(lack) == 1 && lack[0] == capSysResource.name:
		return limited(feature, "Needed only to open more files than the hard limit.",
			"%s, but not %s", strings.Join(have, ", "), lack[0])
	case len(have) == 0:
		return missing(feature, "Run as root, or: setcap cap_perfmon,cap_bpf=ep BPERF", "none that bperf could use")
	default:
		return limited(feature, "Run as root, or: setcap cap_perfmon,cap_bpf=ep BPERF",
			"%s, but not %s", strings.Join(have, ", "), strings.Join(lack, ", "))
	}
}

const (
	limitFiles  = unix.RLIMIT_NOFILE
	limitMemory = unix.RLIMIT_MEMLOCK
)

// limit reports a resource limit of this process (getrlimit(2)).
func limit(feature string, which int) Finding {
	var r unix.Rlimit
	if err := unix.Getrlimit(which, &r); err != nil {
		return missing(feature, "", "getrlimit: %v", err)
	}
	if which == limitFiles {
		return works(feature, "%s, at most %s (each counter is one)", amount(r.Cur, ""), amount(r.Max, ""))
	}
	return works(feature, "%s, at most %s (ring buffers; BPF maps before Linux 5.11)", amount(r.Cur, " bytes"), amount(r.Max, " bytes"))
}

func amount(n uint64, unit string) string {
	if n == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10) + unit
}

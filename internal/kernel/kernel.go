// Package kernel finds out which features of the running kernel this process can use. It tries each feature instead of comparing version
// numbers, because distributions backport features and policies forbid them.
package kernel

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/bperf/bperf/internal/procfs"
)

// State is the degree to which a feature can be used.
type State string

// The states of a feature.
const (
	Works   State = "works"
	Limited State = "limited" // only a part of it works, which Detail names
	Missing State = "missing"
)

// Finding is the result for one feature.
type Finding struct {
	Feature string `json:"feature"`
	State   State  `json:"state"`            // works, limited or missing
	Detail  string `json:"detail"`           // how it works, or why it does not
	Remedy  string `json:"remedy,omitempty"` // how to fix it; empty if it works
}

// Report holds the results for all features.
type Report struct {
	Findings []Finding
	CanCount bool // whether anything can be counted at all
}

// examiner examines a kernel. It reads files from proc and sys, but tries features on the running kernel.
type examiner struct {
	proc, sys    fs.FS
	tracefs      string // its mount point, which is in sys
	capabilities capabilities
	readsRefused bool  // the result of readsRefused
	typedReads   error // why programs cannot read the kernel's memory with bpf_rdonly_cast either
}

// Examine tries every feature that bperf uses. It takes up to a second, mostly to read the BTF of the kernel, and leaves nothing behind.
func Examine() (Report, error) {
	x := examiner{proc: os.DirFS("/proc"), sys: os.DirFS("/sys"), tracefs: procfs.Tracefs(), readsRefused: readsRefused()}
	var err error
	if x.capabilities, err = readCapabilities(x.proc); err != nil {
		return Report{}, err
	}
	if x.readsRefused {
		x.typedReads = haveTypedReads()
	}
	own := x.ownThread()
	return Report{
		CanCount: own.State != Missing,
		Findings: []Finding{
			own,
			x.system(),
			x.cgroups(),
			x.tracepoints(),
			x.pmu(),
			x.softwareSampling(),
			x.pmuSampling(),
			x.programs(),
			x.perfEventPrograms(),
			x.btf(),
			x.trampolines(),
			x.runStats(),
			x.bpffs(),
			x.paranoid(),
			x.kernelAddresses(),
			x.lockdown(),
			x.capabilityList(),
			limit("open files", limitFiles),
			limit("locked memory", limitMemory),
		},
	}, nil
}

func works(feature, format string, a ...any) Finding {
	return Finding{Feature: feature, State: Works, Detail: fmt.Sprintf(format, a...)}
}

func limited(feature, remedy, format string, a ...any) Finding {
	return Finding{Feature: feature, State: Limited, Detail: fmt.Sprintf(format, a...), Remedy: remedy}
}

func missing(feature, remedy, format string, a ...any) Finding {
	return Finding{Feature: feature, State: Missing, Detail: fmt.Sprintf(format, a...), Remedy: remedy}
}

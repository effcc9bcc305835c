// Package kernel finds out what this kernel, and this process in it, may do: by trying, not by version
// numbers, as distributions backport, and policies forbid.
package kernel

import (
	"fmt"
	"io/fs"
	"os"
)

// State is how far a feature can be used.
type State string

// The states of a feature.
const (
	Works   State = "works"
	Limited State = "limited" // a part of it, which Detail tells
	Missing State = "missing"
)

// Finding is what was found of one feature.
type Finding struct {
	Feature string `json:"feature"`
	State   State  `json:"state"`
	Detail  string `json:"detail"`           // what there is, or why there is nothing
	Remedy  string `json:"remedy,omitempty"` // what would mend it; empty if it works
}

// Report is what was found of all features.
type Report struct {
	Findings []Finding
	CanCount bool // whether anything can be counted at all
}

// examiner looks at a kernel. The trees are where its files are read; what is tried is tried on the
// kernel that runs.
type examiner struct {
	proc, sys    fs.FS
	capabilities capabilities
	readsRefused bool  // as readsRefused returns
	typedReads   error // why programs cannot read in another way
}

// Examine tries every feature that bperf uses. It takes up to a second, most of it for reading the
// kernel's BTF, and leaves nothing behind.
func Examine() (Report, error) {
	x := examiner{proc: os.DirFS("/proc"), sys: os.DirFS("/sys"), readsRefused: readsRefused()}
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

// Package program counts events inside BPF programs. The probes of a program are two BPF programs, one at its entry and one at
// its exit. They read the session's events on the CPU on which the program runs (bpf/probes.bpf.c).
//
// The package uses these words:
//
//   - A run is one execution of a program, or of one of its functions, from entry to exit.
//   - A session is the counting of one Counter in one program. All sessions in a program share its probes. All sessions of a
//     Counter have the same token.
//   - A member is a session that counts now.
//   - The set is the list of events that the probes read. Each event is at a position of the set, 0 to 63.
//   - The extremes of an event are the least and the greatest count of a run.
//   - The overhead of an event is its count of the probes themselves in a run. Calibration measures it.
//   - The registry is a pinned map through which sessions find each other's probes.
//
// A run that cannot be counted from beginning to end is dropped as a whole. The counts include what the probes do between their
// two readings, unless calibration subtracts it.
package program

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
)

// Target is a BPF program to count, or one of its functions.
type Target struct {
	ID       uint32
	Name     string
	Type     string // of the program; empty for a program of this package
	Tag      string // hash of its instructions, in hexadecimal, as the kernel prints it
	Function string // name of the function to count, or of the program's main function in BTF; empty without BTF
	JITed    bool   // compiled to machine code
	ByID     bool   // selected by its ID: it is an error if it has been unloaded

	ByFunction bool // Function is counted, and String includes its name
	Sub        bool // Function is a sub-program, for which the kernel has no statistics
}

// String returns the name in reports: NAME[ID], or NAME[ID]:FUNCTION.
func (t Target) String() string {
	s := fmt.Sprintf("%s[%d]", t.Name, t.ID)
	if t.ByFunction {
		s += ":" + t.Function
	}
	return s
}

// Untraceable is the error for a BPF program in which events cannot be counted.
type Untraceable struct {
	Target Target
	Reason string // a sentence
	Err    error  // the kernel's error; nil if bperf did not try
}

func (u *Untraceable) Error() string { return "BPF program " + u.Target.String() + ": " + u.Reason }
func (u *Untraceable) Unwrap() error { return u.Err }

// traceable returns why the target cannot be traced, as far as bperf knows without trying, or nil.
func (t Target) traceable() *Untraceable {
	switch {
	case !t.JITed:
		return &Untraceable{Target: t, Reason: "It is interpreted: only programs of the JIT compiler can be traced (sysctl net.core.bpf_jit_enable)."}
	case t.Function == "":
		return &Untraceable{Target: t, Reason: "It was loaded without BTF, which tracing it needs."}
	}
	return nil
}

// untraceable explains the kernel's error of loading or attaching the probes.
func (t Target) untraceable(err error) *Untraceable {
	u := &Untraceable{Target: t, Err: err}
	var verifier *ebpf.VerifierError
	switch {
	case errors.Is(err, syscall.EPERM):
		u.Reason = "The kernel does not let this process trace programs with fentry and fexit (EPERM)."
	case errors.As(err, &verifier) && len(verifier.Log) > 0:
		u.Reason = fmt.Sprintf("The kernel does not trace it: %s (%v).", said(verifier.Log), verifier.Cause)
	default:
		u.Reason = fmt.Sprintf("The kernel does not trace it: %v.", err)
	}
	return u
}

// said returns the verifier's last line about the program.
func said(log []string) string {
	for i := len(log) - 1; i >= 0; i-- {
		if line := strings.TrimSpace(log[i]); line != "" && !strings.HasPrefix(line, "processed ") && !strings.HasPrefix(line, "verification time") {
			return line
		}
	}
	return "no reason given"
}

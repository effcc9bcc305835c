// Package program counts inside BPF programs: for each one a program at its entry and one at its exit, which read the events of the
// session on the CPU where it runs (bpf/probes.bpf.c).
//
// A run that cannot be counted from its beginning to its end is dropped, and never in part in a sum. What the two programs take
// themselves between their readings is in the counts.
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
	Function string // what its BTF calls it, or the function; empty without BTF
	JITed    bool   // it is machine code
	ByID     bool   // it was selected by its ID: it is an error if it has been unloaded

	ByFunction bool // the function is counted, which is shown with its name
	Sub        bool // the function is a sub-program: the kernel has no statistics of it
}

// String names it as reports do.
func (t Target) String() string {
	s := fmt.Sprintf("%s[%d]", t.Name, t.ID)
	if t.ByFunction {
		s += ":" + t.Function
	}
	return s
}

// Untraceable is the reason why events cannot be counted in a BPF program.
type Untraceable struct {
	Target Target
	Reason string // a sentence
	Err    error  // the kernel's answer; nil if it was not asked
}

func (u *Untraceable) Error() string { return "BPF program " + u.Target.String() + ": " + u.Reason }
func (u *Untraceable) Unwrap() error { return u.Err }

// traceable says why not, as far as that is known without asking the kernel.
func (t Target) traceable() *Untraceable {
	switch {
	case !t.JITed:
		return &Untraceable{Target: t, Reason: "It is interpreted: only programs of the JIT compiler can be traced (sysctl net.core.bpf_jit_enable)."}
	case t.Function == "":
		return &Untraceable{Target: t, Reason: "It was loaded without BTF, which tracing it needs."}
	}
	return nil
}

// untraceable puts the kernel's refusal to load or attach the probes into words.
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

// said is the last line of the verifier's that says something of the program.
func said(log []string) string {
	for i := len(log) - 1; i >= 0; i-- {
		if line := strings.TrimSpace(log[i]); line != "" && !strings.HasPrefix(line, "processed ") && !strings.HasPrefix(line, "verification time") {
			return line
		}
	}
	return "no reason given"
}

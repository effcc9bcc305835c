// Package onsample has objects of BPF programs that run on samples, as users would make them: some for tests alone (bpf/onsample.bpf.c, bpf/tool_*.bpf.c),
// and the examples.
package onsample

import (
	"os"
	"path/filepath"
	"testing"
)

//go:generate go tool bpf2go -target bpfel -no-global-types onSample ../../bpf/onsample.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go tool bpf2go -target bpfel -no-global-types toolProfile ../../bpf/tool_profile.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go tool bpf2go -target bpfel -no-global-types toolOffcputime ../../bpf/tool_offcputime.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go tool bpf2go -target bpfel -no-global-types toolLlcstat ../../bpf/tool_llcstat.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go tool bpf2go -target bpfel -no-global-types duringSyscall ../../examples/during_syscall.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go tool bpf2go -target bpfel -no-global-types ipRanges ../../examples/ip_ranges.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go tool bpf2go -target bpfel -no-global-types slowCalls ../../examples/slow_calls.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go tool bpf2go -target bpfel -no-global-types byRequest ../../examples/by_request.bpf.c -- -mcpu=v3 -Wall -Werror "-DHANDLER=\"split:one_part\""
//go:generate go tool bpf2go -target bpfel -no-global-types syscallEvents ../../examples/syscall_events.bpf.c -- -mcpu=v3 -Wall -Werror

// Names of the programs of type perf_event.
const (
	EveryNth  = "every_nth"  // keeps the first of each `modulus` samples, which is 3 if it is not set
	AfterExec = "after_exec" // keeps the samples of processes that have executed a program whose name is `label`, of 7 characters
	Tell      = "tell"       // keeps none, and writes its number, of 8 bytes, and "sample" through the map `told`
	Submit    = "submit"     // the same through the ring buffer `submitted`
	Refused   = "refused"    // the kernel's verifier does not take
)

// Write writes the object for tests to a file of the test's own.
func Write(t testing.TB) (path string) {
	t.Helper()
	return write(t, "onsample.o", _OnSampleBytes)
}

// WriteExample writes a compiled examples/NAME.bpf.c. The function of by_request is one_part of the C program in test/split.
func WriteExample(t testing.TB, name string) (path string) {
	t.Helper()
	objects := map[string][]byte{"during_syscall": _DuringSyscallBytes, "ip_ranges": _IpRangesBytes, "slow_calls": _SlowCallsBytes, "by_request": _ByRequestBytes,
		"syscall_events": _SyscallEventsBytes}
	return write(t, name+".o", objects[name])
}

// WriteTool writes an object whose maps are like those of a tool of bcc: "profile", "offcputime" or "llcstat".
func WriteTool(t testing.TB, name string) (path string) {
	t.Helper()
	objects := map[string][]byte{"profile": _ToolProfileBytes, "offcputime": _ToolOffcputimeBytes, "llcstat": _ToolLlcstatBytes}
	return write(t, name+".o", objects[name])
}

func write(t testing.TB, name string, object []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, object, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Package onsample provides compiled objects of BPF programs that run on samples, as users would write them: some only for tests
// (bpf/onsample.bpf.c, bpf/tool_*.bpf.c), and the examples.
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
	Output    = "output"     // drops all samples, and writes the number of each, 8 bytes, and "sample" to the map `events`
	Submit    = "submit"     // does the same with the ring buffer `submitted`
	Refused   = "refused"    // is rejected by the kernel's verifier
)

// Write writes the object for tests to a temporary file of the test.
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

// WriteTool writes an object whose maps are like those of one of bcc's tools: "profile", "offcputime" or "llcstat".
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

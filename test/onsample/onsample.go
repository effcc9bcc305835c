// Package onsample has objects of BPF programs that run on samples, as users would make them: one for tests alone (bpf/onsample.bpf.c), and the examples.
package onsample

import (
	"os"
	"path/filepath"
	"testing"
)

//go:generate go tool bpf2go -target bpfel -no-global-types onSample ../../bpf/onsample.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go tool bpf2go -target bpfel -no-global-types duringSyscall ../../examples/during_syscall.bpf.c -- -mcpu=v3 -Wall -Werror

// Names of the programs of type perf_event.
const (
	EveryNth  = "every_nth"  // keeps the first of each `modulus` samples, which is 3 if it is not set
	AfterExec = "after_exec" // keeps the samples of processes that have executed a program whose name is `label`, of 7 characters
	Tell      = "tell"       // keeps none, and writes its number, of 8 bytes, and "sample" through the map `told`
	Refused   = "refused"    // the kernel's verifier does not take
)

// Write writes the object for tests to a file of the test's own.
func Write(t testing.TB) (path string) {
	t.Helper()
	return write(t, "onsample.o", _OnSampleBytes)
}

// WriteDuringSyscall writes examples/during_syscall.bpf.c, compiled.
func WriteDuringSyscall(t testing.TB) (path string) {
	t.Helper()
	return write(t, "during_syscall.o", _DuringSyscallBytes)
}

func write(t testing.TB, name string, object []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, object, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

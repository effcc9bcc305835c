package annotate

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/bpfprog/disasm"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/symbol/kernel"
	"github.com/bperf/bperf/test/require"
)

// TestLiveKernel reads a function of the running kernel, which must begin and end as functions do.
func TestLiveKernel(t *testing.T) {
	require.Root(t)
	if _, err := os.Stat("/proc/kcore"); err != nil {
		t.Skip("needs /proc/kcore: ", err)
	}
	text, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := kernel.Parse(bytes.NewReader(text), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	const name = "ksys_read"
	var address uint64
	for e := range procfs.KernelSymbols(bytes.NewReader(text)) {
		if e.Name == name {
			address = e.Address
		}
	}
	s, ok := symbols.Find(address)
	if !ok || s.Name != name {
		t.Fatalf("%s is not in kallsyms", name)
	}
	k := openKernel("/proc")
	code, err := k.read(s.Name, s.Start, s.End)
	if err != nil {
		t.Fatal(err)
	}
	disassemble, err := disasm.For(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	all := disassemble(code, s.Start)
	returns, bad := false, 0
	for _, i := range all {
		returns = returns || strings.HasPrefix(i.Text, "ret") || strings.HasPrefix(i.Text, "jmp")
		if i.Text == "(bad)" {
			bad++
		}
	}
	if len(all) < 10 || !returns || bad > 2 { // in front of the next function there can be a pointer that is its own
		t.Errorf("%d instructions, of which %d are none, of %s", len(all), bad, name)
		for _, i := range all {
			t.Log(i.Address, i.Bytes(), i.Text)
		}
	}
	if _, err := k.read("no_such_function", s.Start, s.End); err == nil {
		t.Error("another function was read at the address")
	}
	if _, err := k.read(s.Name, s.Start, s.Start+1<<30); err == nil {
		t.Error("1 GiB was read")
	}
}

// TestNoKcore reads a function where /proc/kcore does not exist, and where a container hides it.
func TestNoKcore(t *testing.T) {
	require.NoKernel(t)
	proc := t.TempDir()
	if err := os.WriteFile(proc+"/kallsyms", []byte("ffffffff81000000 T first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		if _, err := openKernel(proc).read("first", 0xffffffff81000000, 0xffffffff81000010); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	check("no such file or directory: this kernel was built without it")
	if err := os.WriteFile(proc+"/kcore", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check("/proc/kcore is empty, as in containers")
}

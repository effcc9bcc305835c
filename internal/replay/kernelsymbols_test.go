package replay

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/symbol/kernel"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// TestStoredKernel resolves a kernel address in three runs: the first stores the symbols, the second uses them, and the third finds those of
// another boot.
func TestStoredKernel(t *testing.T) {
	require.Root(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	id := runningBuildID()
	path, key := storedKernel(id)
	if path == "" {
		t.Skip("the kernel has no build ID, or no symbols")
	}
	kallsyms, err := os.ReadFile(kallsymsFile)
	if err != nil {
		t.Fatal(err)
	}
	var address uint64
	for line := range strings.Lines(string(kallsyms)) {
		if name := ""; strings.HasSuffix(line, " T schedule\n") {
			if _, err := fmt.Sscanf(line, "%x T %s", &address, &name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if address == 0 {
		t.Fatal("the kernel hides its symbols, or has no schedule")
	}
	resolve := func() string {
		r := New(written(t, chainEvent(), func(w *perfdata.Writer) {
			w.Write(perfdata.MiscKernel, &perfdata.Sample{IP: address})
		}), Options{})
		defer r.Close()
		name, offset, ok := r.KernelFunction(address)
		if !ok || offset != 0 {
			t.Errorf("%s+%d %v at %#x", name, offset, ok, address)
		}
		return name
	}
	if name := resolve(); name != "schedule" {
		t.Errorf("%s without stored symbols", name)
	}
	if _, err := kernel.Stored(path, key, "", 0); err != nil {
		t.Error(err)
	}
	// The names of stored symbols show that they are used.
	store := func(key []byte) {
		renamed, err := kernel.Parse(bytes.NewReader(bytes.ReplaceAll(kallsyms, []byte(" schedule\n"), []byte(" of_before\n"))), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := renamed.Store(path, key); err != nil {
			t.Fatal(err)
		}
	}
	store(key)
	if name := resolve(); name != "of_before" {
		t.Errorf("%s with stored symbols", name)
	}
	store(append([]byte("another boot"), key...))
	if name := resolve(); name != "schedule" {
		t.Errorf("%s with stored symbols of another boot", name)
	}
	if _, err := kernel.Stored(path, key, "", 0); err != nil {
		t.Errorf("the symbols of this boot did not replace them: %v", err)
	}
}

package replay

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

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
	stored := func() bool {
		_, err := kernel.Stored(path, key, "", 0)
		return err == nil
	}
	eventually(t, "the symbols are stored", stored)
	// The names of stored symbols show that they are used.
	store := func(key []byte) bool {
		renamed, err := kernel.Parse(bytes.NewReader(bytes.ReplaceAll(kallsyms, []byte(" schedule\n"), []byte(" of_before\n"))), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		return renamed.Store(path, key) == nil // not while a run stores its symbols
	}
	eventually(t, "stored symbols are used", func() bool { return store(key) && resolve() == "of_before" })
	eventually(t, "the test stores symbols", func() bool { return store(append([]byte("another boot"), key...)) })
	if name := resolve(); name != "schedule" {
		t.Errorf("%s with stored symbols of another boot", name)
	}
	eventually(t, "the symbols of this boot replace them", stored)
}

// eventually waits until ok returns true. A Replay does not wait for files that take longer than a second: on a busy machine it goes on
// without, and what it stores may appear later.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in five minutes: ", what)
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bperf/bperf/test/require"
)

func TestMain(m *testing.M) {
	if isWorker() {
		worker()
		return
	}
	os.Exit(m.Run())
}

// TestMutants runs bperf on mutants of recordings and of ELF files. The seed is fixed: go run ./test/mutate -seed N makes other mutants.
func TestMutants(t *testing.T) {
	require.NoKernel(t)
	require.Tools(t, "gcc", "g++", "objcopy")
	o := options{seed: 1, recordings: 40, files: 40, bperf: os.Getenv("BPERF"), keep: filepath.Join(os.TempDir(), "bperf-mutants")}
	if require.Long() {
		o.recordings, o.files = 5000, 3000
	}
	r, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	if r.mutants != o.recordings+o.files || r.accepted == 0 {
		t.Errorf("not all mutants were given to bperf, or it refused all")
	}
	for _, failure := range r.failures {
		t.Error(failure)
	}
}

// TestJudges checks which outcomes are failures.
func TestJudges(t *testing.T) {
	for name, o := range map[string]outcome{
		"panic":      {Status: 2, Stderr: "panic: oops\n\ngoroutine 1 [running]:\n"},
		"killed":     {Status: -1, Died: true},
		"time":       {CPU: maxCPU + 1},
		"memory":     {Peak: maxMemory + 1},
		"status":     {Status: 3},
		"no reason":  {Status: 1, Stderr: "Warning: a\n"},
		"no error":   {Status: unreadable},
		"two lines":  {Status: 1, Stderr: "Error: a\nb\n"},
		"raw":        {Stderr: "Warning: \x1b[2J\n"},
		"raw output": {Output: "prints control characters"},
	} {
		if o.wrong() == "" {
			t.Errorf("%s: nothing is wrong with %+v", name, o)
		}
	}
	for _, o := range []outcome{{}, {Status: unreadable, Stderr: "Error: b\n"}, {Status: 1, Stderr: "Warning: a\nError: b\n"}, {CPU: maxCPU, Peak: maxMemory}} {
		if why := o.wrong(); why != "" {
			t.Errorf("%+v: %s", o, why)
		}
	}
}

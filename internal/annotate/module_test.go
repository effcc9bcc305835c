package annotate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/kmod"
)

// TestUnloadedModule annotates a module that is not loaded from its file, but not if the file is of another build.
func TestUnloadedModule(t *testing.T) {
	const base, samples = 0xffffffffc7000000, 5
	dir := t.TempDir()
	module := kmod.Module{Name: "bperf_gone", Spins: 77}
	path := filepath.Join(dir, "bperf_gone.ko")
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.WriteFile(path, module.Unloadable(t), 0o644))
	for name, tt := range map[string]struct {
		buildID   []byte
		functions int
	}{
		"this build":    {module.BuildID(), 1},
		"another build": {kmod.Module{Name: module.Name, Spins: 78}.BuildID(), 0},
		"no build ID":   {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := os.Create(filepath.Join(dir, "perf.data"))
			check(err)
			defer file.Close()
			w, err := perfdata.NewWriter(file, perfdata.Options{Events: []*perfdata.Event{{Name: "cpu-clock", Attr: perfdata.Attr{Type: 1,
				Flags: perfdata.AttrSampleIDAll, SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime}}}})
			check(err)
			check(w.Write(perfdata.MiscKernel, &perfdata.Mmap2{SampleID: perfdata.SampleID{Time: 1}, PID: -1, Start: base, Length: 4096,
				BuildID: tt.buildID, Filename: path}))
			for i := range uint64(samples) {
				check(w.Write(perfdata.MiscKernel, &perfdata.Sample{SampleID: perfdata.SampleID{Time: 2 + i}, IP: base + kmod.SpinOffset}))
			}
			check(w.Close())
			reader, err := perfdata.Open(file.Name())
			check(err)
			defer reader.Close()
			o := &Options{}
			all, err := Collect(replay.New(reader, replay.Options{}), reader, o)
			check(err)
			report, err := all.Report(reader, o)
			check(err)
			if len(report.Functions) != tt.functions {
				t.Fatalf("%d functions, want %d", len(report.Functions), tt.functions)
			}
			if tt.functions == 0 {
				return
			}
			f := report.Functions[0]
			if f.Name != module.Function() || f.Module != "[bperf_gone]" || f.Missing != "" || !strings.HasPrefix(f.Note, "the module is not loaded") ||
				len(f.Instructions) < 4 || f.Instructions[0].Values[0].Samples != samples {
				t.Errorf("%+v", f)
			}
		})
	}
}

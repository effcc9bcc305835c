package record

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/kmod"
	"github.com/bperf/bperf/test/require"
)

const moduleSpins = 10_000_000

// TestModules loads and unloads modules during a recording, including two builds of one. A module is often loaded where another one was. The names of
// unloaded modules come from their files, as long as these are of the same build.
func TestModules(t *testing.T) {
	kmod.Require(t)
	first := kmod.Module{Name: "bperf_first", Spins: moduleSpins}
	other := kmod.Module{Name: "bperf_other", Spins: moduleSpins}
	newer := kmod.Module{Name: "bperf_first", Spins: moduleSpins + 1}
	resident := kmod.Module{Name: "bperf_resident", Spins: 1}
	kmod.Install(t, first, other)
	resident.Load(t)
	cfg, finish := start(t, "cpu-clock", 500_000)
	first.Load(t)
	first.Unload(t)
	other.Load(t)
	other.Unload(t)
	resident.Unload(t)
	newer.Load(t)
	finish()

	lives := readLives(t, cfg.Output)
	if len(lives) != 4 {
		t.Fatalf("%d modules are in the recording, want 4", len(lives))
	}
	for i, want := range []kmod.Module{resident, first, other, newer} {
		l := lives[i]
		id := want.BuildID()
		if want == resident {
			id = nil // that is in the header
		}
		if l.name != want.Name || !bytes.Equal(l.buildID, id) || (l.to == forever) != (want == newer) {
			t.Errorf("module %d: %+v, want %+v with the build ID %x", i, l, want, id)
		}
		if want != resident && l.samples == 0 {
			t.Errorf("no samples are in %s from %d to %d", l.name, l.from, l.to)
		}
	}
	named := map[string]int{"bperf_first": lives[1].samples + lives[3].samples, "bperf_other": lives[2].samples}
	wantSamples(t, "files of the builds that are gone", cfg.Output, named, nil)
	kmod.Install(t, newer, other)
	nameless := map[string]int{"bperf_first": lives[1].samples}
	named["bperf_first"] = lives[3].samples
	wantSamples(t, "a file of the build that is loaded", cfg.Output, named, nameless)
	newer.Unload(t)
	wantSamples(t, "a file of the build that was loaded last", cfg.Output, named, nameless)
	kmod.Install(t)
	wantSamples(t, "no files", cfg.Output, nil, map[string]int{"bperf_first": lives[1].samples + lives[3].samples, "bperf_other": lives[2].samples})
	perf, err := require.FindPerf()
	if err != nil {
		return
	}
	out, err := exec.Command(perf, "report", "-f", "-i", cfg.Output, "--stdio", "-s", "dso").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("[bperf_first]")) || !bytes.Contains(out, []byte("[bperf_other]")) {
		t.Errorf("perf: %v\n%s", err, out)
	}
}

const forever = ^uint64(0)

// life is the time in which a module was loaded.
type life struct {
	name       string
	buildID    []byte
	start, end uint64
	from, to   uint64 // times; 0 if loaded before the recording
	samples    int
}

// readLives returns the test's modules in a recording, in the order of their loads. It reports an error for a sample at an address where one of them was
// loaded at some time, but none when the sample was taken. A module from before the recording still runs its exit function, where the next one can be
// loaded.
func readLives(t *testing.T, file string) []*life {
	t.Helper()
	r, err := perfdata.Open(file)
	check(t, err)
	defer r.Close()
	var lives []*life
	type at struct{ ip, time uint64 }
	var samples []at
	for rec, err := range r.Records() {
		check(t, err)
		switch v := rec.Value.(type) {
		case *perfdata.Sample:
			samples = append(samples, at{v.IP, v.Time})
		case *perfdata.Mmap:
			if isOurs(v.Filename) {
				lives = append(lives, &life{name: moduleName(v.Filename), start: v.Start, end: v.Start + v.Length, from: v.Time, to: forever})
			}
		case *perfdata.Mmap2:
			if isOurs(v.Filename) {
				lives = append(lives, &life{name: moduleName(v.Filename), buildID: bytes.Clone(v.BuildID), start: v.Start, end: v.Start + v.Length, from: v.Time, to: forever})
			}
		case *perfdata.KSymbol:
			if !isOurs(v.Name) {
				continue
			}
			i := slices.IndexFunc(lives, func(l *life) bool { return l.name == moduleName(v.Name) && l.start == v.Addr && l.to == forever })
			if i < 0 || v.Flags != perfdata.KSymbolUnregister {
				t.Errorf("%+v", v)
				continue
			}
			lives[i].to = v.Time
		}
	}
	for _, s := range samples {
		within, alive := false, 0
		for _, l := range lives {
			if s.ip < l.start || s.ip >= l.end {
				continue
			}
			within = within || l.from > 0
			if s.time >= l.from && s.time < l.to {
				alive++
				l.samples++
			}
		}
		if within && alive != 1 {
			t.Errorf("a sample at %#x, time %d, is in %d modules", s.ip, s.time, alive)
		}
	}
	return lives
}

func isOurs(name string) bool { return strings.HasPrefix(moduleName(name), "bperf_") }

// moduleName returns the name of a module, from its file or from its name in brackets.
func moduleName(name string) string {
	return strings.TrimSuffix(filepath.Base(strings.Trim(name, "[]")), ".ko")
}

// wantSamples checks the number of samples in functions, and without a function, of the modules that were loaded during the recording.
func wantSamples(t *testing.T, what, file string, named, nameless map[string]int) {
	t.Helper()
	r, err := perfdata.Open(file)
	check(t, err)
	defer r.Close()
	p, err := replay.New(r, replay.Options{NoStacks: true}).Profile(0)
	check(t, err)
	gotNamed, gotNameless := make(map[string]int), make(map[string]int)
	for _, s := range p.Samples() {
		f := p.Frames()[s.Leaf]
		module := moduleName(p.Strings.At(p.Modules.At(f.Module).Name))
		switch function := p.Strings.At(p.Functions.At(f.Function).Name); {
		case !strings.HasPrefix(module, "bperf_") || module == "bperf_resident":
		case function == "":
			gotNameless[module] += int(s.Count)
		case function == module+"_spin" || function == module+"_exit":
			gotNamed[module] += int(s.Count)
		default:
			t.Errorf("%s: a sample in %s is of the function %s", what, module, function)
		}
	}
	isNone := func(_ string, n int) bool { return n == 0 }
	for _, all := range []map[string]int{gotNamed, gotNameless, named, nameless} {
		maps.DeleteFunc(all, isNone)
	}
	if !maps.Equal(gotNamed, named) || !maps.Equal(gotNameless, nameless) {
		t.Errorf("%s: %v have names and %v have none, want %v and %v", what, gotNamed, gotNameless, named, nameless)
	}
}

// start records an event of the system in the background until finish is called.
func start(t *testing.T, events string, period uint64) (cfg Config, finish func()) {
	t.Helper()
	cfg = config(t, events)
	cfg.Target.System, cfg.Period = true, period
	signals, started, ended := make(chan os.Signal, 1), make(chan struct{}), make(chan error, 1)
	cfg.Signals = signals
	verbose := cfg.Verbose
	cfg.Verbose = func(s string) {
		verbose(s)
		if s == "events are enabled" {
			close(started)
		}
	}
	go func() {
		_, err := Run(cfg)
		ended <- err
	}()
	select {
	case <-started:
	case err := <-ended:
		t.Fatalf("the recording ended: %v", err)
	}
	return cfg, func() {
		t.Helper()
		signals <- os.Interrupt
		check(t, <-ended)
	}
}

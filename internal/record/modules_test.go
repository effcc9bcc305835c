package record

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/bperf/bperf/internal/perfdata"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/test/kmod"
	"github.com/bperf/bperf/test/require"
)

const moduleSpins = 10_000_000

// TestModules loads and unloads modules while it records, two builds of one among them. Where one was, the next is often loaded.
func TestModules(t *testing.T) {
	kmod.Require(t)
	first := kmod.Module{Name: "bperf_first", Spins: moduleSpins}
	other := kmod.Module{Name: "bperf_other", Spins: moduleSpins}
	newer := kmod.Module{Name: "bperf_first", Spins: moduleSpins + 1}
	resident := kmod.Module{Name: "bperf_resident", Spins: 1}
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
	for i, want := range []kmod.Module{resident, first, other, newer} {
		if i >= len(lives) {
			t.Fatalf("%d modules are in the recording, want 4", len(lives))
		}
		l := lives[i]
		id := want.BuildID()
		if want == resident {
			id = nil // that is in the header
		}
		if l.name != "["+want.Name+"]" || !bytes.Equal(l.buildID, id) || (l.to == forever) != (want == newer) {
			t.Errorf("module %d: %+v, want %+v with the build ID %x", i, l, want, id)
		}
		if want != resident && l.samples == 0 {
			t.Errorf("no samples are in %s from %d to %d", l.name, l.from, l.to)
		}
	}
	got := functions(t, cfg.Output)
	if got["[bperf_first] bperf_first_spin"] == 0 {
		t.Errorf("the module that is still loaded has no symbols: %v", got)
	}
	if got["[bperf_first] "] == 0 || got["[bperf_other] "] == 0 || len(got) != 3 {
		t.Errorf("modules that are gone: %v", got)
	}
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

// life is the time for which a module was loaded.
type life struct {
	name       string
	buildID    []byte
	start, end uint64
	from, to   uint64 // times; 0 for what was there before
	samples    int
}

// readLives returns the modules of the test in a recording, in the order in which they were loaded. A sample at an address where one of them was at some time
// is an error if none was there when it was taken.
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
				lives = append(lives, &life{name: v.Filename, start: v.Start, end: v.Start + v.Length, from: v.Time, to: forever})
			}
		case *perfdata.Mmap2:
			if isOurs(v.Filename) {
				lives = append(lives, &life{name: v.Filename, buildID: bytes.Clone(v.BuildID), start: v.Start, end: v.Start + v.Length, from: v.Time, to: forever})
			}
		case *perfdata.KSymbol:
			if !isOurs(v.Name) {
				continue
			}
			i := slices.IndexFunc(lives, func(l *life) bool { return l.name == v.Name && l.start == v.Addr && l.to == forever })
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
			if s.ip < l.start || s.ip >= l.end || l.from == 0 {
				continue
			}
			within = true
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

func isOurs(name string) bool { return len(name) > 7 && name[:7] == "[bperf_" }

// functions returns how many samples each function of the modules has, as "module function", without a function where it is unknown.
func functions(t *testing.T, file string) map[string]int {
	t.Helper()
	r, err := perfdata.Open(file)
	check(t, err)
	defer r.Close()
	p, err := replay.New(r, replay.Options{NoStacks: true}).Profile(0)
	check(t, err)
	all := make(map[string]int)
	for _, s := range p.Samples() {
		f := p.Frames()[s.Leaf]
		name := p.Strings.At(p.Modules.At(f.Module).Name)
		if isOurs(name) {
			all[fmt.Sprint(name, " ", p.Strings.At(p.Functions.At(f.Function).Name))] += int(s.Count)
		}
	}
	t.Log(slices.Sorted(maps.Keys(all)))
	return all
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

package sample

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/kmod"
)

// TestModules samples a module that is loaded during the profile, and two modules that are unloaded before its end, one of which has a file.
func TestModules(t *testing.T) {
	kmod.Require(t)
	stays, goes := kmod.Module{Name: "bperf_stays", Spins: 10_000_000}, kmod.Module{Name: "bperf_goes", Spins: 10_000_000}
	lost := kmod.Module{Name: "bperf_lost", Spins: 10_000_000}
	kmod.Install(t, goes)
	cfg := config(t, "cpu-clock")
	cfg.Record.Target.System, cfg.Record.Period = true, 500_000
	signals, started := make(chan os.Signal, 1), make(chan struct{})
	cfg.Record.Signals = signals
	cfg.Record.Verbose = func(s string) {
		t.Log(s)
		if s == "events are enabled" {
			close(started)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { signals <- os.Interrupt }()
		<-started
		goes.Load(t)
		goes.Unload(t)
		lost.Load(t)
		lost.Unload(t)
		stays.Load(t)
	}()
	p := take(t, cfg).Profile
	<-done
	got := make(map[string]uint64)
	for _, s := range p.Samples() {
		f := p.Frames()[s.Leaf]
		if module := p.Strings.At(p.Modules.At(f.Module).Name); strings.HasPrefix(module, "[bperf_") {
			got[module+" "+p.Strings.At(p.Functions.At(f.Function).Name)] += s.Count
		}
	}
	delete(got, "[bperf_goes] bperf_goes_exit") // it is short: a sample in it is rare
	if len(got) != 3 || got["[bperf_stays] "+stays.Function()] == 0 || got["[bperf_goes] "+goes.Function()] == 0 || got["[bperf_lost] "] == 0 {
		t.Errorf("samples by module and function: %v", slices.Sorted(maps.Keys(got)))
	}
}

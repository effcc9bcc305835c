package serve

import (
	"fmt"
	"log/slog"

	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/serve/metrics"
	"github.com/bperf/bperf/internal/serve/profiles"
	"github.com/bperf/bperf/internal/serve/push"
	"github.com/bperf/bperf/internal/serve/settings"
	"github.com/bperf/bperf/internal/symbol/debuginfod"
)

// profiling takes the profile of the machine and sends it to servers, if there are any.
type profiling struct {
	*profiles.Profiler
	servers *servers
}

// newProfiling returns the profile of the settings. It is nil if they ask for none.
func newProfiling(s *settings.Settings, log *slog.Logger, find func(uint64) (container.Name, bool), to *servers, fetch *debuginfod.Client) (*profiling, error) {
	if !s.Profile.On() {
		return nil, nil
	}
	p := &profiling{servers: to}
	var err error
	p.Profiler, err = profiles.New(profiles.Config{Events: s.Profile.Event, Frequency: s.Profile.Frequency, OffCPU: s.Profile.OffCPU,
		Every: s.Profile.Every, Container: find, Each: p.push, Debuginfod: fetch, Log: log, Keep: keep(s.Budget.Limits.Memory), Symbols: symbols(s.Budget.Limits.Memory)})
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	return p, nil
}

// keep returns the bytes of windows that are kept: an eighth of the memory budget, at most the default.
func keep(memory uint64) uint64 {
	if memory == 0 {
		return profiles.DefaultKeep
	}
	return min(memory/8, profiles.DefaultKeep)
}

// symbols returns the bytes for symbols: a quarter of the memory budget, at most the default. They can take twice as much while they are read.
func symbols(memory uint64) int64 {
	if memory == 0 {
		return profiles.DefaultSymbols
	}
	return int64(min(memory/4, profiles.DefaultSymbols))
}

// push queues the profiles of a window.
func (p *profiling) push(w *profiles.Window) {
	b := push.Batch{Start: w.Start, Length: w.Duration}
	for _, part := range w.Parts {
		b.Profiles = append(b.Profiles, push.Profile{Container: part.Name, Profile: part.Profile})
	}
	p.servers.push(b, false)
}

// windows returns the last profiles, and why there is none at the moment.
func (p *profiling) windows() ([]*profiles.Window, error) { return p.Windows(), p.Err() }

var profilingDesc = metrics.NewDesc("bperf_profiling", "Whether the profile of the machine is being taken.")

// export exports whether the profile is being taken.
func (p *profiling) export(s *metrics.Scrape) {
	s.Whether(profilingDesc, p.Err() == nil)
}

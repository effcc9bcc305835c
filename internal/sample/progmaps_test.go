package sample

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/userprog"
	"github.com/bperf/bperf/test/onsample"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// entriesOf returns the entries of an event that stands for a map.
func entriesOf(t *testing.T, p *profile.Profile, event string) (entries []profile.Sample, sum uint64) {
	t.Helper()
	i := slices.IndexFunc(p.Events, func(e profile.Event) bool { return e.Name == event && e.Entries })
	if i < 0 {
		t.Fatalf("no event %s: %+v", event, p.Events)
	}
	for _, s := range p.Samples() {
		if int(s.Event) == i {
			entries = append(entries, s)
			sum += s.Value
		}
	}
	return entries, sum
}

// tagsOf returns the labels of a sample that have names of their own, as "KEY=VALUE".
func tagsOf(p *profile.Profile, s *profile.Sample) (tags []string) {
	for id := p.Labels()[s.Labels].Tags; id != 0; id = p.Tags.At(id).Next {
		tag := p.Tags.At(id)
		tags = append(tags, p.Strings.At(tag.Key)+"="+p.Strings.At(tag.Value))
	}
	return tags
}

// TestMapOfCounts counts page faults in a map like that of bcc's profile: by process, name and both stacks. The program keeps no sample.
func TestMapOfCounts(t *testing.T) {
	require.AnyArch(t)
	const pages = 200
	cfg := config(t, "page-faults", program.Program{Body: program.Touch, Times: pages}.Write(t))
	useProgram(t, &cfg, onsample.WriteTool(t, "profile"))
	r, err := Run(cfg)
	check(t, err)
	t.Log(r.Totals)
	entries, sum := entriesOf(t, r.Profile, "counts")
	if sum+r.Totals.NotRun < pages || sum != r.Totals.Samples || r.Totals.Filtered != sum {
		t.Errorf("the map counts %d faults, want at least %d: %+v", sum, pages, r.Totals)
	}
	touching := uint64(0)
	for _, s := range entries {
		if comm := r.Profile.Strings.At(r.Profile.Labels()[s.Labels].Comm); comm != "program" {
			t.Errorf("%d faults of %q", s.Value, comm)
		}
		frame := r.Profile.Frames()[s.Leaf]
		if frame.Kind == profile.User && strings.HasSuffix(r.Profile.Strings.At(r.Profile.Modules.At(frame.Module).Path), "/program") {
			touching += s.Value
		}
	}
	if touching+r.Totals.NotRun < pages {
		t.Errorf("%d faults in the program itself, want at least %d", touching, pages)
	}
}

// TestMapOfTimes runs a program like bcc's offcputime, which runs on no samples: a thread's sleep is in the map by its stack, with the name in the value.
func TestMapOfTimes(t *testing.T) {
	require.AnyArch(t)
	const sleeps = 20
	cfg := config(t, "page-faults", program.Program{Body: program.Sleep, Times: sleeps}.Write(t))
	var err error
	cfg.Record.Programs, err = userprog.Read([]string{onsample.WriteTool(t, "offcputime")}, []userprog.Assignment{{Name: "only", Value: "program"}}, true)
	check(t, err)
	t.Cleanup(cfg.Record.Programs.Close)
	cfg.Record.Events, cfg.Record.Target.System = nil, true
	r, err := Run(cfg)
	check(t, err)
	entries, _ := entriesOf(t, r.Profile, "info.delta")
	var slept time.Duration
	var seen strings.Builder // for a failure
	for _, s := range entries {
		if r.Profile.Strings.At(r.Profile.Labels()[s.Labels].Comm) != "program" {
			continue
		}
		fmt.Fprintf(&seen, "\n%v in", time.Duration(s.Value))
		for id := range r.Profile.Stacks.Frames(s.Stack) {
			name := r.Profile.Strings.At(r.Profile.Functions.At(r.Profile.Frames()[id].Function).Name)
			fmt.Fprint(&seen, " ", name)
			if strings.Contains(name, "nanosleep") {
				slept += time.Duration(s.Value)
				break
			}
		}
	}
	// A thread that sets its timer and is late to switch away is blocked for less than it sleeps, or not at all.
	if least := sleeps * time.Millisecond / 2; slept < least {
		t.Errorf("the program slept for %v in nanosleep(2), want at least %v:%s\n%v", slept, least, &seen, r.Totals)
	}
}

// TestMapOfTwoNumbers runs two programs of an object like bcc's llcstat, for two events: each number of the value is an event, and a member of the key that bperf
// does not know is a label.
func TestMapOfTwoNumbers(t *testing.T) {
	require.AnyArch(t)
	const pages = 200
	cfg := config(t, "page-faults,minor-faults", program.Program{Body: program.Touch, Times: pages}.Write(t))
	cfg.Keep |= profile.TID | profile.CPU | profile.Other
	object := onsample.WriteTool(t, "llcstat")
	references, misses := object+":on_cache_ref", object+":on_cache_miss"
	var err error
	cfg.Record.Programs, err = userprog.Read([]string{references, misses}, nil, true)
	check(t, err)
	t.Cleanup(cfg.Record.Programs.Close)
	cfg.Record.Events[0].Events[0].Program, cfg.Record.Events[1].Events[0].Program = references, misses
	r, err := Run(cfg)
	check(t, err)
	t.Log(r.Totals)
	byParity := make(map[string]uint64)
	entries, sum := entriesOf(t, r.Profile, "infos.ref")
	for _, s := range entries {
		l := r.Profile.Labels()[s.Labels]
		if r.Profile.Strings.At(l.Comm) != "program" || l.PID <= 0 || l.TID != l.PID || l.CPU < 0 {
			t.Errorf("an entry of %+v", l)
		}
		byParity[fmt.Sprint(tagsOf(r.Profile, &s))] += s.Value
	}
	if even, odd := byParity["[parity=EVEN]"], byParity["[parity=ODD]"]; even+odd != sum || even != (sum+1)/2 {
		t.Errorf("by the label: %v", byParity)
	}
	_, missed := entriesOf(t, r.Profile, "infos.miss")
	if sum+missed != r.Totals.Samples || min(sum, missed)+r.Totals.NotRun < pages {
		t.Errorf("%d and %d of two events for %d faults: %+v", sum, missed, pages, r.Totals)
	}
}

// TestMapInIntervals has a profile for each interval, in which the map has what was added since the one before.
func TestMapInIntervals(t *testing.T) {
	require.AnyArch(t)
	cfg := config(t, "page-faults", "sh", "-c", fmt.Sprintf("for i in 1 2 3; do sleep 0.2; %s; done", program.Program{Body: program.Touch, Times: 100}.Write(t)))
	useProgram(t, &cfg, onsample.WriteTool(t, "profile"))
	var mu sync.Mutex
	var sums []uint64
	cfg.Every, cfg.Each = 100*time.Millisecond, func(p *profile.Profile) error {
		mu.Lock()
		defer mu.Unlock()
		_, sum := entriesOf(t, p, "counts")
		sums = append(sums, sum)
		return nil
	}
	r, err := Run(cfg)
	check(t, err)
	all := uint64(0)
	for _, n := range sums {
		all += n
	}
	if all != r.Totals.Samples || len(sums) < 2 {
		t.Errorf("%d intervals have %v, which is %d of %d faults", len(sums), sums, all, r.Totals.Samples)
	}
}

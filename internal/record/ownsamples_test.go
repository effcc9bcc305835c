package record

import (
	"os"
	"syscall"
	"testing"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// TestExcludeSelf records calls of this process and of another one.
func TestExcludeSelf(t *testing.T) {
	require.AnyArch(t)
	for _, tt := range []struct {
		name, events string
		exclude      bool
		own          int
	}{
		{"kept", getppid, false, 5},
		{"dropped", getppid, true, 0},
		{"dropped of two events", getppid + ",syscalls:sys_enter_getpgid", true, 0},
		{"dropped of different events", getppid + ",page-faults", true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const times = 50
			path := caller(t, times)
			cfg := config(t, tt.events)
			cfg.Target.System, cfg.Command = true, []string{path}
			cfg.Events[0].Events[0].ExcludeSelf = tt.exclude
			cfg.Verbose = func(text string) {
				if text != "events are enabled" {
					return
				}
				for range 5 {
					syscall.Getppid()
					syscall.Getpgid(0)
				}
				fresh, err := syscall.Mmap(-1, 0, 1, syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
				check(t, err)
				fresh[0] = 1 // a page fault
				check(t, syscall.Munmap(fresh))
			}
			result, err := Run(cfg)
			check(t, err)
			r, err := perfdata.Open(cfg.Output)
			check(t, err)
			defer r.Close()
			samples := map[bool]map[string]int{true: {}, false: {}}
			total := uint64(0)
			for rec, err := range r.Records() {
				check(t, err)
				if s, ok := rec.Value.(*perfdata.Sample); ok {
					samples[s.PID == int32(os.Getpid())][rec.Event.Name]++
					total++
				}
			}
			if samples[true][getppid] != tt.own || samples[false][getppid] < times || total != result.Samples {
				t.Errorf("%v, want %d of this process and %d; %d samples", samples, tt.own, times, result.Samples)
			}
			if len(cfg.Events) == 2 && samples[true][cfg.Events[1].Events[0].Name] == 0 {
				t.Errorf("%v: those of the other event are missing", samples)
			}
		})
	}
}

// TestExcludeSelfDamaged leaves records with a wrong size to the tally.
func TestExcludeSelfDamaged(t *testing.T) {
	o := &ownSamples{pid: 1, pidAt: 16}
	for _, records := range [][]byte{nil, {1}, {9, 0, 0, 0, 0, 0, 0, 0}, {9, 0, 0, 0, 0, 0, 40, 0}, {9, 0, 0, 0, 0, 0, 8, 0, 1}} {
		if first, rest := o.drop(records, nil); string(first) != string(records) || rest != nil {
			t.Errorf("%v became %v and %v", records, first, rest)
		}
	}
}

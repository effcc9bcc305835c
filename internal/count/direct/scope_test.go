package direct

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
)

// twoSockets has CPUs 0 and 1 in one package, 2 and 3 in another.
func twoSockets() (target.Topology, error) {
	return target.ReadTopology(fstest.MapFS{
		"devices/system/cpu/online":                            {Data: []byte("0-3\n")},
		"devices/system/cpu/cpu2/topology/physical_package_id": {Data: []byte("1\n")},
		"devices/system/cpu/cpu3/topology/physical_package_id": {Data: []byte("1\n")},
	})
}

func TestSelectCPUs(t *testing.T) {
	all := target.Target{CPUs: []int{0, 1, 2, 3}}
	some := target.Target{CPUs: []int{1, 3}}
	thread := target.Target{Threads: []target.Thread{{TID: 7}}}
	cgroup := target.Target{CPUs: []int{0, 1}, Cgroups: []target.Cgroup{{Name: "g"}}}
	uncore := event.Event{Name: "unc", PMU: "uncore_imc", Uncore: true, CPUs: []int{0, 2}}
	hybrid := event.Event{Name: "atom", PMU: "cpu_atom", CPUs: []int{2, 3}}
	energy := event.Event{Name: "energy", PMU: "power", Uncore: true, CPUs: []int{0, 1, 2}, PerPkg: true}
	const tasks = "unc: The PMU uncore_imc counts for all that runs, not for single threads or cgroups. Count it for the system (-a) or for CPUs (-C)."
	tests := []struct {
		name  string
		event event.Event
		at    target.Target
		want  []int
		err   string
	}{
		{name: "any", event: event.Event{Name: "any"}, at: all},
		{name: "cpumask", event: uncore, at: all, want: []int{0, 2}},
		{name: "cpumask and list", event: uncore, at: target.Target{CPUs: []int{1, 2, 3}}, want: []int{2}},
		{name: "no CPU in common", event: uncore, at: some,
			err: "unc: The PMU uncore_imc counts on CPU 0,2, of which none is asked for. Count it for the system (-a), or name one of these CPUs with -C."},
		{name: "uncore for a thread", event: uncore, at: thread, err: tasks},
		{name: "uncore for a cgroup", event: uncore, at: cgroup, err: tasks},
		{name: "hybrid", event: hybrid, at: some, want: []int{3}},
		{name: "hybrid for a thread", event: hybrid, at: thread},
		{name: "per package by mask", event: energy, at: all, want: []int{0, 2}},
		{name: "per package by topology", event: event.Event{Name: "p", PerPkg: true}, at: some, want: []int{1, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := selectCPUs(&tt.event, tt.at, twoSockets)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			var unsupported *count.Unsupported
			if tt.err == "" && err != nil || tt.err != "" && (!errors.As(err, &unsupported) || err.Error() != tt.err) {
				t.Errorf("error %v, want %s", err, tt.err)
			}
		})
	}
}

func TestAllScopes(t *testing.T) {
	const n = count.None
	tests := []struct {
		at   target.Target
		want []scope
		text string
	}{
		{target.Target{CPUs: []int{0, 2}}, []scope{{0, n, n}, {2, n, n}}, "on 2 CPUs"},
		{target.Target{Threads: make([]target.Thread, 2)}, []scope{{n, 0, n}, {n, 1, n}}, "for 2 threads"},
		{target.Target{CPUs: []int{0, 2}, Cgroups: make([]target.Cgroup, 2)},
			[]scope{{0, n, 0}, {2, n, 0}, {0, n, 1}, {2, n, 1}}, "on 2 CPUs for 2 cgroups"},
	}
	for _, tt := range tests {
		if got := allScopes(tt.at); !cmp.Equal(got, tt.want, cmp.AllowUnexported(scope{})) {
			t.Errorf("scopes of %+v: %v, want %v", tt.at, got, tt.want)
		}
		if got := describeScopes(tt.at); got != tt.text {
			t.Errorf("described as %q, want %q", got, tt.text)
		}
	}
}

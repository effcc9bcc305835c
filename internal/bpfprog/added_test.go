package bpfprog

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/test/require"
)

// TestAddedByCounting measures. The result depends on the machine, but reading a clock twice takes less than 100 µs anywhere. If the kernel
// counts already, the result is about 0.
func TestAddedByCounting(t *testing.T) {
	require.Root(t)
	added, err := AddedByCounting()
	if err != nil || added < 0 || added > 100_000 {
		t.Errorf("%v, %v", added, err)
	}
	t.Logf("counting adds %v to a run", added)
	r, err := NewReader(Detail{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.all()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.Name == "bperf_empty" {
			t.Errorf("program %d is left behind", p.ID)
		}
	}
}

func TestStatsError(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{unix.EINVAL, "enable the statistics of program runs: invalid argument. The kernel counts runs from Linux 5.8 on"},
		{unix.EPERM, "enable the statistics of program runs: operation not permitted. "},
		{unix.ENOMEM, "enable the statistics of program runs: cannot allocate memory"},
	} {
		if got := statsError(tt.err).Error(); !strings.HasPrefix(got, tt.want) || tt.err != unix.EPERM && got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}

// TestObservationRuns observes one of two programs that run.
func TestObservationRuns(t *testing.T) {
	require.Root(t)
	first, _ := load(t, &ebpf.ProgramSpec{Name: "observe_first", Type: ebpf.RawTracepoint})
	second, _ := load(t, &ebpf.ProgramSpec{Name: "unobserved", Type: ebpf.RawTracepoint})
	s, err := Parse("name:observe_first")
	if err != nil {
		t.Fatal(err)
	}
	o, _, err := Observe(s)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	runs(t, first, 7)
	runs(t, second, 5)
	observed, err := o.Next()
	if err != nil {
		t.Fatal(err)
	}
	if observed.Runs < 12 || len(observed.Programs) != 1 || observed.Programs[0].Use.Runs != 7 { // other programs of the machine may run
		t.Errorf("%d runs of all, want 12 or more; %+v", observed.Runs, observed.Programs)
	}
}

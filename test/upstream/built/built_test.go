package built

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

func TestNothingForOtherArchitectures(t *testing.T) {
	const want = `nothing of upstream for architecture "riscv64": there are amd64 and arm64`
	if _, err := Perf("riscv64"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestRunKeepsWhatWasSaid(t *testing.T) {
	cmd := exec.Command("sh", "-c", "echo no space >&2; exit 3")
	want := cmd.Path + " -c echo no space >&2; exit 3: exit status 3\nno space"
	if err := run(cmd); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestPerfCountsWithBPF counts a program that causes most of the system's events while it runs.
func TestPerfCountsWithBPF(t *testing.T) {
	perf := require.UpstreamPerf(t)
	touch := program.Program{Body: program.Touch, Times: program.MaxPages}
	spin := program.Program{Body: program.Spin, Times: 20_000_000}
	tests := []struct {
		event string
		run   program.Program
		least uint64
		pmu   bool
	}{
		{"page-faults", touch, program.MaxPages, false},
		{"instructions:u", spin, spin.Instructions(), true},
	}
	for _, tt := range tests {
		t.Run(tt.event, func(t *testing.T) {
			if tt.pmu {
				require.PMU(t)
			}
			out, err := exec.Command(perf, "stat", "--bpf-counters", "-x;", "-e", tt.event, "-a", tt.run.Write(t)).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			value, _, _ := strings.Cut(string(out), ";")
			got, err := strconv.ParseUint(value, 10, 64)
			if err != nil || got < tt.least || got > 2*tt.least {
				t.Errorf("got %s, want %d to twice that", out, tt.least)
			}
		})
	}
}

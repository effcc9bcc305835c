package sample

import (
	"context"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// perfPath is the distribution's perf, or the one that guests have.
func perfPath(t *testing.T) string {
	t.Helper()
	if require.IsGuest() {
		return require.UpstreamPerf(t)
	}
	return require.Perf(t)
}

// recording is a command that perf record samples, and what it has found.
type recording struct{ perf, file, event, period string }

func (r *recording) command(args ...string) []string {
	return append([]string{r.perf, "record", "-q", "-e", r.event, "-c", r.period, "-o", r.file, "--"}, args...)
}

// addresses are how many samples perf script prints of each instruction pointer of a program.
func (r *recording) addresses(t *testing.T, comm string) map[uint64]uint64 {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, r.perf, "script", "-F", "comm,ip", "-i", r.file)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.Output()
	check(t, err)
	all := make(map[uint64]uint64)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != comm {
			continue
		}
		ip, err := strconv.ParseUint(fields[1], 16, 64)
		check(t, err)
		all[ip]++
	}
	return all
}

// count is how many of the samples are in the range.
func (r Range) count(addresses map[uint64]uint64) (n uint64) {
	for ip, count := range addresses {
		if ip >= r.Start && ip < r.End {
			n += count
		}
	}
	return n
}

// samplesOf is how many samples of a program there are.
func samplesOf(p *profile.Profile, comm string) (n uint64) {
	for _, s := range p.Samples() {
		if p.Strings.At(p.Labels()[s.Labels].Comm) == comm {
			n += s.Count
		}
	}
	return n
}

// TestRangeOfFaults counts the faults at one address, of which perf counts as many.
func TestRangeOfFaults(t *testing.T) {
	const pages = 200
	touch := program.Program{Body: program.Touch, Times: pages}.Write(t)
	perf := recording{perfPath(t), filepath.Join(t.TempDir(), "perf.data"), "page-faults:u", "1"}
	first := config(t, perf.event, perf.command(touch)...)
	take(t, first)
	var at Range
	for ip, n := range perf.addresses(t, "program") {
		if n == pages {
			at = Range{ip, ip + 1}
		}
	}
	cfg := config(t, perf.event, perf.command(touch)...)
	cfg.Ranges = []Range{at}
	r := take(t, cfg)
	all := perf.addresses(t, "program")
	if got, want := samplesOf(r.Profile, "program"), at.count(all); got != want || got != pages || r.Totals.Filtered == 0 {
		t.Errorf("%d samples at %x, perf has %d of %v: %+v", got, at, want, all, r.Totals)
	}
}

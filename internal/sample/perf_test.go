package sample

import (
	"context"
	"fmt"
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

// recording is a perf.data file of a command, made by perf record.
type recording struct{ perf, file, event, period string }

func (r *recording) command(args ...string) []string {
	return append([]string{r.perf, "record", "-q", "-e", r.event, "-c", r.period, "-o", r.file, "--"}, args...)
}

// addresses returns the number of samples that perf script prints for each instruction pointer of a program.
func (r *recording) addresses(t *testing.T, comm string) map[uint64]uint64 {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, r.perf, "script", "-F", "comm,ip", "-i", r.file)
	cmd.WaitDelay = time.Minute
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

// count returns the number of samples in a range.
func (r Range) count(addresses map[uint64]uint64) (n uint64) {
	for ip, count := range addresses {
		if ip >= r.Start && ip < r.End {
			n += count
		}
	}
	return n
}

// samplesOf returns the number of samples of a program.
func samplesOf(p *profile.Profile, comm string) (n uint64) {
	for _, s := range p.Samples() {
		if p.Strings.At(p.Labels()[s.Labels].Comm) == comm {
			n += s.Count
		}
	}
	return n
}

// most returns the address with the most samples.
func most(addresses map[uint64]uint64) Range {
	var at, count uint64
	for ip, n := range addresses {
		if n > count {
			at, count = ip, n
		}
	}
	return Range{at, at + 1}
}

// TestRangeOfFaults counts the faults at one address, and compares with perf.
func TestRangeOfFaults(t *testing.T) {
	require.AnyArch(t)
	const pages = 200
	touch := program.Program{Body: program.Touch, Times: pages}.Write(t)
	perf := recording{perfPath(t), filepath.Join(t.TempDir(), "perf.data"), "page-faults:u", "1"}
	first := config(t, perf.event, perf.command(touch)...)
	take(t, first)
	at := most(perf.addresses(t, "program"))
	cfg := config(t, perf.event, perf.command(touch)...)
	cfg.Ranges = []Range{at}
	r := take(t, cfg)
	all := perf.addresses(t, "program")
	if got, want := samplesOf(r.Profile, "program"), at.count(all); got != want || got != pages || r.Totals.Filtered == 0 {
		t.Errorf("%d samples at %x, perf has %d of %v: %+v", got, at, want, all, r.Totals)
	}
}

// TestRangeOfKernel counts the faults in a kernel function that clears memory which a program has not touched yet.
func TestRangeOfKernel(t *testing.T) {
	perf := recording{perfPath(t), filepath.Join(t.TempDir(), "perf.data"), "page-faults:k", "1"}
	command := perf.command("dd", "if=/dev/zero", "of=/dev/null", "bs=400k", "count=1", "status=none")
	first := take(t, config(t, perf.event, command...))
	var name string
	all := byFunction(first.Profile)
	for f, n := range all {
		if n > all[name] {
			name = f
		}
	}
	in, found, err := ParseRange(name, "/proc/kallsyms")
	if err != nil || !found {
		t.Fatalf("%q is no function: %v", name, err)
	}
	cfg := config(t, perf.event, command...)
	cfg.Ranges = []Range{in}
	r := take(t, cfg)
	faults := perf.addresses(t, "dd")
	if got, want := samplesOf(r.Profile, "dd"), in.count(faults); got != want || got < 50 {
		t.Errorf("%d samples in %s, perf has %d of %v: %+v", got, name, want, faults, r.Totals)
	}
}

// TestRangeOfCycles samples cycles with a period, and counts the samples at one instruction of a loop. The loop makes no system calls, because the emulated
// PMU delivers overflows of a second event there that it did not notice before.
func TestRangeOfCycles(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	const period = 20_011
	spin := program.Program{Body: program.Spin, Times: 20_000_000}
	perf := recording{perfPath(t), filepath.Join(t.TempDir(), "perf.data"), "cycles:u", fmt.Sprint(period)}
	command := perf.command(spin.Write(t))
	alone := config(t, perf.event, command...)
	alone.Record.Period = 1 << 40 // no samples
	take(t, alone)
	at := most(perf.addresses(t, "program"))
	cfg := config(t, perf.event, command...)
	cfg.Record.Period, cfg.Ranges = period, []Range{at}
	r := take(t, cfg)
	all := perf.addresses(t, "program")
	got, want := samplesOf(r.Profile, "program"), at.count(all)
	if 100*got < 99*want || 100*got > 101*want || want < 200 {
		t.Errorf("%d samples at %x, perf has %d of %v: %+v", got, at, want, all, r.Totals)
	}
}

package shared

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/test/require"
)

// tokensOf returns the tokens of the sessions of a directory's hosts, including ended ones. It ignores other users of BPF.
func tokensOf(t testing.TB, dir string) (all []ebpf.MapID) {
	t.Helper()
	for id, err := ebpf.MapGetNextID(0); err == nil; id, err = ebpf.MapGetNextID(id) {
		if !tokenLives(uint32(id)) {
			continue
		}
		if d, err := describe(uint32(id)); err == nil && slices.Contains(d.Command, dir) {
			all = append(all, id)
		}
	}
	return all
}

// perfEvents returns the number of this process's descriptors of perf events.
func perfEvents(t testing.TB) (n int) {
	t.Helper()
	descriptors, err := filepath.Glob("/proc/self/fd/*")
	check(t, err)
	for _, d := range descriptors {
		if of, _ := os.Readlink(d); of == "anon_inode:[perf_event]" { // an error means that it has been closed
			n++
		}
	}
	return n
}

// TestSoak starts and ends sessions on all kinds of targets, several at a time, and kills half of them at any moment. The
// surviving sessions must have correct counts, and in the end nothing may be left.
func TestSoak(t *testing.T) {
	n, rounds := 120, 3
	switch {
	case require.Long():
		n, rounds = 500, 10
	case require.IsGuest():
		n, rounds = 24, 3 // a session takes a second in an emulated guest
	}
	dir := bpffs(t)
	before := perfEvents(t)
	name, group := cgroup(t, "")
	p := startPuppet(t)
	t.Cleanup(p.end) // before the cgroup is removed
	join(t, group, p.pid)
	tid := p.thread()
	targets := []target.Spec{pids(p.pid), tids(tid), groups(name), system, {CPUs: resolve(t, system).CPUs[:1]}}
	survivors := []*Counter{
		start(t, dir, getppid, targets[0], inherit), start(t, dir, getppid, targets[1], inherit), start(t, dir, getppid, targets[2], Options{}),
	}
	var want uint64
	for round := range rounds {
		var hosts sync.WaitGroup
		for worker := range 4 {
			hosts.Go(func() {
				r := rand.New(rand.NewPCG(uint64(round), uint64(worker)))
				for range n / rounds / 4 {
					soakSession(t, r, dir, targets[r.IntN(len(targets))], r.IntN(2) == 0)
				}
			})
		}
		p.call(1, 1000)
		hosts.Wait()
		check(t, kernel.WaitForBPF()) // until their programs are freed: hundreds at a time stop Linux 6.18
		p.call(1, 10)
		want += 1010
	}
	known := pinned(t, dir) // these objects live as long as a session survives
	for i, c := range survivors {
		expect(t, c, fmt.Sprint("survivor ", i), want)
		check(t, c.Close())
	}
	expectGone(t, known)
	for deadline := time.Now().Add(time.Minute); len(tokensOf(t, dir)) > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if left := tokensOf(t, dir); len(left) > 0 {
		t.Errorf("there still are the sessions of the maps %v", left)
	}
	if after := perfEvents(t); after != before {
		t.Errorf("this process has %d perf events, %d before", after, before)
	}
	expectEmpty(t, dir)
}

// soakSession runs one session in a separate process.
func soakSession(t *testing.T, r *rand.Rand, dir string, s target.Spec, killed bool) {
	h := startHost(t, dir)
	events := []string{getppid, "page-faults", "context-switches,task-clock", "cpu-clock"}
	o := Options{Options: count.Options{Inherit: len(s.PIDs)+len(s.TIDs) > 0}}
	if !killed {
		h.start(events[r.IntN(len(events))], s, o)
		h.end()
		return
	}
	check(t, h.order(events[r.IntN(len(events))], s, o))
	time.Sleep(time.Duration(r.Int64N(int64(60 * time.Millisecond))))
	h.kill()
}

package direct

import (
	"fmt"
	"testing"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// BenchmarkThreads opens, reads and closes an event for each of 2,000 threads.
func BenchmarkThreads(b *testing.B) {
	require.Root(b)
	p := startPuppet(b, 2000)
	spec := target.Spec{PIDs: []int{p.pid()}}
	list := single(software("context-switches", perfdata.SoftwareContextSwitches))
	benchmark(b, list, spec, count.Options{Inherit: true})
}

// BenchmarkCgroups does the same for 10 events in each of 60 cgroups.
func BenchmarkCgroups(b *testing.B) {
	require.Root(b)
	spec := target.Spec{System: true}
	for i := range 60 {
		spec.Cgroups = append(spec.Cgroups, makeCgroup(b, fmt.Sprint(i)).Name)
	}
	var events []*event.Event
	for range 10 {
		events = append(events, software("context-switches", perfdata.SoftwareContextSwitches))
	}
	benchmark(b, single(events...), spec, count.Options{})
}

func benchmark(b *testing.B, list event.List, spec target.Spec, o count.Options) {
	at := resolve(b, spec)
	b.Run("resolve", func(b *testing.B) {
		for b.Loop() {
			resolve(b, spec)
		}
	})
	b.Run("open and close", func(b *testing.B) {
		for b.Loop() {
			c, err := Open(list, at, o)
			check(b, err)
			check(b, c.Close())
		}
	})
	c, err := Open(list, at, o)
	check(b, err)
	defer c.Close()
	b.Run("enable and disable", func(b *testing.B) {
		for b.Loop() {
			check(b, c.Enable())
			check(b, c.Disable())
		}
	})
	check(b, c.Enable())
	cells, err := c.Read(nil)
	check(b, err)
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			cells, err = c.Read(cells[:0])
			check(b, err)
		}
		b.ReportMetric(float64(len(cells)), "counters")
	})
}

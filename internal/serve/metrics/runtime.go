package metrics

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// runtimeMetric is a metric of the Go runtime: the sum of several of the package runtime/metrics.
type runtimeMetric struct {
	Desc
	counter bool
	of      []string
}

// runtimeMetrics are those that Prometheus' library for Go exports, so that dashboards find them. They are a list of constants, because
// other commands of bperf start faster if nothing of it is made before main.
var runtimeMetrics = []runtimeMetric{
	{Desc{name: "go_goroutines", help: "Goroutines."}, false, []string{"/sched/goroutines:goroutines"}},
	{Desc{name: "go_threads", help: "Threads of the Go runtime."}, false, []string{"/sched/threads/total:threads"}},
	{Desc{name: "go_sched_gomaxprocs_threads", help: "Threads that may run Go code at once (GOMAXPROCS)."}, false, []string{"/sched/gomaxprocs:threads"}},
	{Desc{name: "go_gc_gogc_percent", help: "Garbage that may be on the heap, relative to what is in use (GOGC)."}, false, []string{"/gc/gogc:percent"}},
	{Desc{name: "go_gc_gomemlimit_bytes", help: "Memory limit of the Go runtime (GOMEMLIMIT)."}, false, []string{"/gc/gomemlimit:bytes"}},
	{Desc{name: "go_memstats_sys_bytes", help: "Memory that the kernel gave the Go runtime."}, false, []string{"/memory/classes/total:bytes"}},
	{Desc{name: "go_memstats_alloc_bytes", help: "Heap objects in use or not yet collected."}, false, []string{heapObjects}},
	{Desc{name: "go_memstats_heap_alloc_bytes", help: "The same as go_memstats_alloc_bytes."}, false, []string{heapObjects}},
	{Desc{name: "go_memstats_alloc_bytes_total", help: "Heap objects ever made."}, true, []string{"/gc/heap/allocs:bytes"}},
	{Desc{name: "go_memstats_mallocs_total", help: "Number of heap objects ever made."}, true, []string{"/gc/heap/allocs:objects", tinyObjects}},
	{Desc{name: "go_memstats_frees_total", help: "Number of heap objects ever freed."}, true, []string{"/gc/heap/frees:objects", tinyObjects}},
	{Desc{name: "go_memstats_heap_objects", help: "Number of heap objects in use or not yet collected."}, false, []string{"/gc/heap/objects:objects"}},
	{Desc{name: "go_memstats_heap_sys_bytes", help: "Memory for the heap."}, false, []string{heapObjects, heapUnused, heapReleased, heapFree}},
	{Desc{name: "go_memstats_heap_idle_bytes", help: "Memory for the heap without objects."}, false, []string{heapReleased, heapFree}},
	{Desc{name: "go_memstats_heap_inuse_bytes", help: "Memory for the heap with objects."}, false, []string{heapObjects, heapUnused}},
	{Desc{name: "go_memstats_heap_released_bytes", help: "Memory for the heap that the kernel got back."}, false, []string{heapReleased}},
	{Desc{name: "go_memstats_next_gc_bytes", help: "Size of the heap at which garbage is collected next."}, false, []string{"/gc/heap/goal:bytes"}},
	{Desc{name: "go_memstats_stack_inuse_bytes", help: "Memory for stacks of goroutines."}, false, []string{stacks}},
	{Desc{name: "go_memstats_stack_sys_bytes", help: "Memory for all stacks."}, false, []string{stacks, "/memory/classes/os-stacks:bytes"}},
	{Desc{name: "go_memstats_mspan_inuse_bytes", help: "mspan structures in use."}, false, []string{mspan}},
	{Desc{name: "go_memstats_mspan_sys_bytes", help: "Memory for mspan structures."}, false, []string{mspan, "/memory/classes/metadata/mspan/free:bytes"}},
	{Desc{name: "go_memstats_mcache_inuse_bytes", help: "mcache structures in use."}, false, []string{mcache}},
	{Desc{name: "go_memstats_mcache_sys_bytes", help: "Memory for mcache structures."}, false, []string{mcache, "/memory/classes/metadata/mcache/free:bytes"}},
	{Desc{name: "go_memstats_buck_hash_sys_bytes", help: "Memory for profiles of the Go runtime."}, false, []string{"/memory/classes/profiling/buckets:bytes"}},
	{Desc{name: "go_memstats_gc_sys_bytes", help: "Memory for collecting garbage."}, false, []string{"/memory/classes/metadata/other:bytes"}},
	{Desc{name: "go_memstats_other_sys_bytes", help: "Memory for other things of the Go runtime."}, false, []string{"/memory/classes/other:bytes"}},
}

// Metrics of the package runtime/metrics that several metrics are made of.
const (
	heapObjects  = "/memory/classes/heap/objects:bytes"
	heapUnused   = "/memory/classes/heap/unused:bytes"
	heapReleased = "/memory/classes/heap/released:bytes"
	heapFree     = "/memory/classes/heap/free:bytes"
	tinyObjects  = "/gc/heap/tiny/allocs:objects"
	stacks       = "/memory/classes/heap/stacks:bytes"
	mspan        = "/memory/classes/metadata/mspan/inuse:bytes"
	mcache       = "/memory/classes/metadata/mcache/inuse:bytes"
)

// Each of these descriptions never changes.
var (
	goInfo = NewDesc("go_info", "The version of Go.", "version")
	goGC   = NewDesc("go_gc_duration_seconds", "Pauses for collecting garbage.")
	lastGC = NewDesc("go_memstats_last_gc_time_seconds", "When garbage was last collected.")
)

// Runtime exports metrics of the Go runtime.
func Runtime(s *Scrape) {
	s.Gauge(goInfo, 1, runtime.Version())
	var all []metrics.Sample
	for i := range runtimeMetrics {
		for _, name := range runtimeMetrics[i].of {
			all = append(all, metrics.Sample{Name: name})
		}
	}
	metrics.Read(all)
	for i := range runtimeMetrics {
		m, sum := &runtimeMetrics[i], 0.0
		for range m.of {
			sum += float64(all[0].Value.Uint64())
			all = all[1:]
		}
		if m.counter {
			s.Counter(&m.Desc, sum)
		} else {
			s.Gauge(&m.Desc, sum)
		}
	}
	gc := debug.GCStats{PauseQuantiles: make([]time.Duration, 5)}
	debug.ReadGCStats(&gc)
	s.Gauge(lastGC, float64(gc.LastGC.UnixNano())/1e9)
	pauses := &dto.Summary{SampleCount: new(uint64(gc.NumGC)), SampleSum: new(gc.PauseTotal.Seconds())}
	for i, pause := range gc.PauseQuantiles {
		pauses.Quantile = append(pauses.Quantile, &dto.Quantile{Quantile: new(float64(i) / 4), Value: new(pause.Seconds())})
	}
	f := s.family(goGC, dto.MetricType_SUMMARY)
	f.Metric = append(f.Metric, &dto.Metric{Summary: pauses})
}

// Package metrics exports what the daemon counts, as Prometheus metrics.
package metrics

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bperf/bperf/internal/count/process"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/serve/node"
)

// Collector exports the counts of a node. It implements prometheus.Collector. What could not be counted is absent, never 0.
type Collector struct {
	read  func() (*node.Snapshot, error)
	limit int

	mu         sync.Mutex
	containers *tally[uint64, containerLabels]
	programs   *tally[uint32, programLabels]
	inside     *tally[uint32, programLabels]
	events     int    // of the last snapshot
	leftOut    uint64 // series, since the collector was made
}

// New returns a collector of what read returns. A scrape has at most limit series of containers, BPF programs and CPUs.
func New(read func() (*node.Snapshot, error), limit int) *Collector {
	return &Collector{
		read:       read,
		limit:      limit,
		containers: newTally[uint64, containerLabels](),
		programs:   newTally[uint32, programLabels](),
		inside:     newTally[uint32, programLabels](),
	}
}

// containerLabels are the labels of the metrics of containers, in the order of containerNames.
type containerLabels struct{ id, podUID, namespace, pod, container, cgroup string }

// labelsOf returns the labels of a container. Only a unit of systemd, which has no ID, is known by its cgroup.
func labelsOf(n *container.Name) containerLabels {
	l := containerLabels{label(n.ID), label(n.PodUID), label(n.Namespace), label(n.Pod), label(n.Container), ""}
	if l.id == "" {
		l.cgroup = label(n.Path)
	}
	return l
}

// programLabels are the labels of the metrics of BPF programs.
type programLabels struct{ name, kind, tag string }

var programNames = []string{"name", "type", "tag"}

var containerNames = []string{"container_id", "pod_uid", "namespace", "pod", "container", "cgroup"}

// desc describes a metric.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Each of these descriptions never changes.
var (
	containerEvents = desc("bperf_container_events_total",
		"Events of a container, as counted: not scaled up if the event was multiplexed.", append([]string{"event"}, containerNames...)...)
	containerEnabled = desc("bperf_container_event_enabled_seconds_total",
		"Time that an event was enabled for a container.", append([]string{"event"}, containerNames...)...)
	containerRunning = desc("bperf_container_event_running_seconds_total",
		"Time that an event was enabled and on a hardware counter for a container.", append([]string{"event"}, containerNames...)...)
	containerCPU = desc("bperf_container_cpu_seconds_total",
		"CPU time of a container.", containerNames...)
	containerSwitches = desc("bperf_container_context_switches_total",
		"Times that a thread of a container left a CPU.", containerNames...)

	containerOffCPU = desc("bperf_container_offcpu_seconds_total",
		"Time that threads of a container were on no CPU, counted when they have run again: runnable waits for a CPU, blocked cannot be interrupted.",
		append([]string{"reason"}, containerNames...)...)

	nodeEvents = desc("bperf_node_events_total",
		"Events on a CPU, as counted: not scaled up if the event was multiplexed.", "event", "cpu")
	nodeEnabled = desc("bperf_node_event_enabled_seconds_total",
		"Time that an event was enabled on a CPU.", "event", "cpu")
	nodeRunning = desc("bperf_node_event_running_seconds_total",
		"Time that an event was enabled and on a hardware counter of a CPU.", "event", "cpu")

	programRuns = desc("bperf_bpf_program_runs_total",
		"Runs of loaded BPF programs while the kernel counted them.", programNames...)
	programTime = desc("bperf_bpf_program_run_seconds_total",
		"Run time of loaded BPF programs while the kernel measured it.", programNames...)

	eventSupported = desc("bperf_event_supported",
		"Whether an event of the configuration is counted; if not, the reason.", "event", "reason")
	insideSupported = desc("bperf_bpf_program_event_supported",
		"Whether an event of the configuration is counted inside BPF programs; if not, the reason.", "event", "reason")
	featureSupported = desc("bperf_feature_supported",
		"Whether bperf counts containers, and BPF programs; if not, or not all of them, the reason.", "feature", "reason")
	lost = desc("bperf_lost_total",
		"What could not be counted.", "what")
	seriesLeftOut = desc("bperf_series_left_out_total",
		"Series that scrapes did not return because of the limit.")

	measured = desc("bperf_bpf_measured_seconds_total",
		"Time that the kernel counted the runs of BPF programs and measured their time.")

	selfCPU = desc("bperf_self_cpu_seconds_total",
		"CPU time of bperf itself, user and system.")
	selfMemory = desc("bperf_self_memory_bytes",
		"Resident memory of bperf itself.")
	selfBPF = desc("bperf_self_bpf_run_seconds_total",
		"Run time of bperf's own BPF programs, as far as the kernel measured it.", "program")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		containerEvents, containerEnabled, containerRunning, containerCPU, containerSwitches, containerOffCPU, nodeEvents, nodeEnabled, nodeRunning,
		programRuns, programTime, measured, eventSupported, insideSupported, featureSupported, lost, seriesLeftOut, selfCPU, selfMemory, selfBPF,
	} {
		out <- d
	}
	for _, d := range insideDescs {
		out <- d
	}
}

// Collect implements prometheus.Collector. If the node cannot be read, the scrape fails with the reason.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock() // counts are added up from snapshot to snapshot
	defer c.mu.Unlock()
	snap, err := c.read()
	if err != nil {
		out <- prometheus.NewInvalidMetric(seriesLeftOut, fmt.Errorf("read the counts of this node: %w", err))
		return
	}
	s := &scrape{out: out, room: c.limit}
	s.self(snap.Self)
	s.losses(snap.Losses)
	events := s.supported(snap.Events, eventSupported)
	s.feature("containers", snap.NoContainers)
	s.feature("bpf_programs", snap.NoPrograms)
	s.cpus(snap.CPUs, events)
	c.exportPrograms(s, snap.Programs)
	c.exportInside(s, snap)
	if len(snap.Events) != c.events {
		c.events, c.containers = len(snap.Events), newTally[uint64, containerLabels]()
	}
	c.exportContainers(s, snap.Containers, events)
	c.leftOut += s.leftOut
	s.counter(seriesLeftOut, float64(c.leftOut))
}

// counts of a BPF program or a container: runs and time, or switches and CPU time. A container has the times off the CPUs too, and three
// counts for each event.
const (
	number = iota
	duration
	firstOffCPU
	firstEvent = firstOffCPU + process.Reasons
)

func (c *Collector) exportPrograms(s *scrape, programs []node.Program) {
	for _, p := range programs {
		c.programs.add(p.ID, programLabels{label(p.Name), label(p.Type), label(p.Tag)}, []uint64{number: p.Runs, duration: nanoseconds(p.Time)})
	}
	for _, sum := range c.programs.settle() {
		if sum.counts[number] == 0 || !s.fits(2) {
			continue // it did not run while the kernel counted, which happens for a part of the time only
		}
		l := sum.labels
		s.counter(programRuns, float64(sum.counts[number]), l.name, l.kind, l.tag)
		s.counter(programTime, seconds(sum.counts[duration]), l.name, l.kind, l.tag)
	}
}

func (c *Collector) exportContainers(s *scrape, containers []node.Container, events []event) {
	for i := range containers {
		n := &containers[i]
		counts := make([]uint64, firstEvent+3*c.events)
		counts[number], counts[duration] = n.Switches, nanoseconds(n.CPUTime)
		for why, t := range n.OffCPU {
			counts[firstOffCPU+why] = nanoseconds(t)
		}
		for _, e := range events {
			if e.index < len(n.Readings) {
				putReading(counts[firstEvent+3*e.index:], n.Readings[e.index])
			}
		}
		c.containers.add(n.Cgroup, labelsOf(&n.Name), counts)
	}
	for _, sum := range c.containers.settle() {
		if s.fits(2 + process.Reasons + 3*len(events)) {
			s.container(sum, events)
		}
	}
}

// event is an event that is counted.
type event struct {
	name  string
	index int // of its readings
}

// scrape is one collection of all metrics.
type scrape struct {
	out     chan<- prometheus.Metric
	room    int    // for more series
	leftOut uint64 // series
}

// fits takes room for n series. Series of one CPU, container or program are exported together or not at all.
func (s *scrape) fits(n int) bool {
	if n > s.room {
		s.leftOut += uint64(n)
		return false
	}
	s.room -= n
	return true
}

func (s *scrape) counter(d *prometheus.Desc, value float64, labels ...string) {
	s.send(d, prometheus.CounterValue, value, labels)
}

func (s *scrape) gauge(d *prometheus.Desc, value float64, labels ...string) {
	s.send(d, prometheus.GaugeValue, value, labels)
}

func (s *scrape) send(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels []string) {
	m, err := prometheus.NewConstMetric(d, kind, value, labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	s.out <- m
}

func (s *scrape) self(self node.Self) {
	if self.CPUTime > 0 {
		s.counter(selfCPU, self.CPUTime.Seconds())
	}
	if self.Memory > 0 {
		s.gauge(selfMemory, float64(self.Memory))
	}
	if self.Window > 0 {
		s.counter(measured, self.Window.Seconds())
	}
	programs := map[string]time.Duration{}
	for name, t := range self.Programs {
		programs[label(name)] += t
	}
	for name, t := range programs {
		s.counter(selfBPF, t.Seconds(), name)
	}
}

// feature exports whether something is there; reason says why it is not.
func (s *scrape) feature(name, reason string) {
	var supported float64
	if reason == "" {
		supported = 1
	}
	s.gauge(featureSupported, supported, name, label(reason))
}

func (s *scrape) losses(losses []node.Loss) {
	counts := map[string]uint64{}
	for _, l := range losses {
		counts[label(l.What)] += l.Count
	}
	for what, n := range counts {
		s.counter(lost, float64(n), what)
	}
}

// supported exports which events are counted and returns them. An event that has the label of an earlier one is left out.
func (s *scrape) supported(all []node.Event, d *prometheus.Desc) []event {
	var counted []event
	seen := map[string]bool{}
	for i, e := range all {
		name := label(e.Name)
		if seen[name] {
			continue
		}
		seen[name] = true
		if e.Reason != "" {
			s.gauge(d, 0, name, label(e.Reason))
			continue
		}
		s.gauge(d, 1, name, "")
		counted = append(counted, event{name, i})
	}
	return counted
}

func (s *scrape) cpus(cpus []node.CPU, events []event) {
	for _, cpu := range cpus {
		if !s.fits(3 * len(events)) {
			continue
		}
		for _, e := range events {
			if e.index < len(cpu.Readings) {
				s.reading(cpu.Readings[e.index], nodeEvents, nodeEnabled, nodeRunning, e.name, fmt.Sprint(cpu.Number))
			}
		}
	}
}

func (s *scrape) container(sum *sum[containerLabels], events []event) {
	labels := []string{"", sum.labels.id, sum.labels.podUID, sum.labels.namespace, sum.labels.pod, sum.labels.container, sum.labels.cgroup}
	if sum.counts[number] > 0 || sum.counts[duration] > 0 {
		s.counter(containerCPU, seconds(sum.counts[duration]), labels[1:]...)
		s.counter(containerSwitches, float64(sum.counts[number]), labels[1:]...)
		for why := range process.Reasons {
			labels[0] = process.Reason(why).String()
			s.counter(containerOffCPU, seconds(sum.counts[firstOffCPU+why]), labels...)
		}
	}
	s.readings(sum.counts[firstEvent:], events, containerEvents, containerEnabled, containerRunning, labels)
}

// putReading writes a reading into counts. readings reads it there.
func putReading(counts []uint64, r perfevent.Reading) {
	copy(counts, []uint64{r.Value, r.Enabled, r.Running})
}

// readings exports the readings of events, which counts has from its beginning on. The first label is the event.
func (s *scrape) readings(counts []uint64, events []event, value, enabled, running *prometheus.Desc, labels []string) {
	for _, e := range events {
		c := counts[3*e.index:]
		labels[0] = e.name
		s.reading(perfevent.Reading{Value: c[0], Enabled: c[1], Running: c[2]}, value, enabled, running, labels...)
	}
}

// reading exports a reading. Without time enabled, nothing was asked of the counter. Without time running, its value means nothing.
func (s *scrape) reading(r perfevent.Reading, value, enabled, running *prometheus.Desc, labels ...string) {
	if r.Enabled == 0 {
		return
	}
	s.counter(enabled, seconds(r.Enabled), labels...)
	s.counter(running, seconds(r.Running), labels...)
	if r.Running > 0 {
		s.counter(value, float64(r.Value), labels...)
	}
}

// seconds returns nanoseconds in seconds.
func seconds(ns uint64) float64 { return float64(ns) / float64(time.Second) }

// nanoseconds returns a duration that cannot be negative in nanoseconds.
func nanoseconds(d time.Duration) uint64 { return uint64(min(max(d, 0), math.MaxInt64)) }

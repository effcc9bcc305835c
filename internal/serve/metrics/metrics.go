// Package metrics exports what the daemon counts, as Prometheus metrics.
package metrics

import (
	"fmt"
	"math"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/bperf/bperf/internal/count/process"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/serve/node"
)

// Collector exports the counts of a node, and what others add. It implements prometheus.Gatherer. What could not be counted is absent, never
// 0.
type Collector struct {
	read  func() (*node.Snapshot, error)
	limit int
	more  []func(*Scrape)

	mu         sync.Mutex
	containers *tally[uint64, containerLabels]
	programs   *tally[uint32, programLabels]
	inside     *tally[uint32, programLabels]
	events     int    // of the last snapshot
	leftOut    uint64 // series, since the collector was made
}

// New returns a collector of what read returns, and of what each function of more adds to a scrape. A scrape has at most limit series of
// containers, BPF programs and CPUs.
func New(read func() (*node.Snapshot, error), limit int, more ...func(*Scrape)) *Collector {
	return &Collector{
		read:       read,
		limit:      limit,
		more:       more,
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

// Each of these descriptions never changes.
var (
	containerEvents = NewDesc("bperf_container_events_total",
		"Events of a container, as counted: not scaled up if the event was multiplexed.", append([]string{"event"}, containerNames...)...)
	containerEnabled = NewDesc("bperf_container_event_enabled_seconds_total",
		"Time that an event was enabled for a container.", append([]string{"event"}, containerNames...)...)
	containerRunning = NewDesc("bperf_container_event_running_seconds_total",
		"Time that an event was enabled and on a hardware counter for a container.", append([]string{"event"}, containerNames...)...)
	containerCPU = NewDesc("bperf_container_cpu_seconds_total",
		"CPU time of a container.", containerNames...)
	containerSwitches = NewDesc("bperf_container_context_switches_total",
		"Times that a thread of a container left a CPU.", containerNames...)

	containerOffCPU = NewDesc("bperf_container_offcpu_seconds_total",
		"Time that threads of a container were on no CPU, counted when they have run again: runnable waits for a CPU, blocked cannot be interrupted.",
		append([]string{"reason"}, containerNames...)...)

	nodeCPU    = NewDesc("", "", "cpu") // the labels of nodeEvents and others but the event
	nodeEvents = NewDesc("bperf_node_events_total",
		"Events on a CPU, as counted: not scaled up if the event was multiplexed.", "event", "cpu")
	nodeEnabled = NewDesc("bperf_node_event_enabled_seconds_total",
		"Time that an event was enabled on a CPU.", "event", "cpu")
	nodeRunning = NewDesc("bperf_node_event_running_seconds_total",
		"Time that an event was enabled and on a hardware counter of a CPU.", "event", "cpu")

	programRuns = NewDesc("bperf_bpf_program_runs_total",
		"Runs of loaded BPF programs while the kernel counted them.", programNames...)
	programTime = NewDesc("bperf_bpf_program_run_seconds_total",
		"Run time of loaded BPF programs while the kernel measured it.", programNames...)

	eventSupported = NewDesc("bperf_event_supported",
		"Whether an event of the configuration is counted; if not, the reason.", "event", "reason")
	insideSupported = NewDesc("bperf_bpf_program_event_supported",
		"Whether an event of the configuration is counted inside BPF programs; if not, the reason.", "event", "reason")
	featureSupported = NewDesc("bperf_feature_supported",
		"Whether bperf counts containers, and BPF programs; if not, or not all of them, the reason.", "feature", "reason")
	lost = NewDesc("bperf_lost_total",
		"What could not be counted.", "what")
	seriesLeftOut = NewDesc("bperf_series_left_out_total",
		"Series that scrapes did not return because of the limit.")

	measured = NewDesc("bperf_bpf_measured_seconds_total",
		"Time that the kernel counted the runs of BPF programs and measured their time.")

	selfCPU = NewDesc("bperf_self_cpu_seconds_total",
		"CPU time of bperf itself, user and system.")
	selfMemory = NewDesc("bperf_self_memory_bytes",
		"Resident memory of bperf itself.")
	selfBPF = NewDesc("bperf_self_bpf_run_seconds_total",
		"Run time of bperf's own BPF programs, as far as the kernel measured it.", "program")
)

// Gather implements prometheus.Gatherer. If the node cannot be read, the scrape fails with the reason.
func (c *Collector) Gather() ([]*dto.MetricFamily, error) {
	c.mu.Lock() // counts are added up from snapshot to snapshot
	defer c.mu.Unlock()
	snap, err := c.read()
	if err != nil {
		return nil, fmt.Errorf("read the counts of this node: %w", err)
	}
	s := &Scrape{families: make(map[*Desc]*dto.MetricFamily), room: c.limit}
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
	s.Counter(seriesLeftOut, float64(c.leftOut))
	for _, export := range c.more {
		export(s)
	}
	return s.sorted(), nil
}

// counts of a BPF program or a container: runs and time, or switches and CPU time. A container has the times off the CPUs too, and three
// counts for each event.
const (
	number = iota
	duration
	firstOffCPU
	firstEvent = firstOffCPU + process.Reasons
)

func (c *Collector) exportPrograms(s *Scrape, programs []node.Program) {
	for _, p := range programs {
		c.programs.add(p.ID, programLabels{label(p.Name), label(p.Type), label(p.Tag)}, []uint64{number: p.Runs, duration: nanoseconds(p.Time)})
	}
	for _, sum := range c.programs.settle() {
		if sum.counts[number] == 0 || !s.fits(2) {
			continue // it did not run while the kernel counted, which happens for a part of the time only
		}
		l := sum.labels
		s.Counter(programRuns, float64(sum.counts[number]), l.name, l.kind, l.tag)
		s.Counter(programTime, seconds(sum.counts[duration]), l.name, l.kind, l.tag)
	}
}

func (c *Collector) exportContainers(s *Scrape, containers []node.Container, events []event) {
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
	label *dto.LabelPair
	index int // of its readings
}

// fits takes room for n series. Series of one CPU, container or program are exported together or not at all.
func (s *Scrape) fits(n int) bool {
	if n > s.room {
		s.leftOut += uint64(n)
		return false
	}
	s.room -= n
	return true
}

func (s *Scrape) self(self node.Self) {
	if self.CPUTime > 0 {
		s.Counter(selfCPU, self.CPUTime.Seconds())
	}
	if self.Memory > 0 {
		s.Gauge(selfMemory, float64(self.Memory))
	}
	if self.Window > 0 {
		s.Counter(measured, self.Window.Seconds())
	}
	programs := map[string]time.Duration{}
	for name, t := range self.Programs {
		programs[label(name)] += t
	}
	for name, t := range programs {
		s.Counter(selfBPF, t.Seconds(), name)
	}
}

// feature exports whether something is there; reason says why it is not.
func (s *Scrape) feature(name, reason string) {
	s.Whether(featureSupported, reason == "", name, label(reason))
}

func (s *Scrape) losses(losses []node.Loss) {
	counts := map[string]uint64{}
	for _, l := range losses {
		counts[label(l.What)] += l.Count
	}
	for what, n := range counts {
		s.Counter(lost, float64(n), what)
	}
}

// supported exports which events are counted and returns them. An event that has the label of an earlier one is left out.
func (s *Scrape) supported(all []node.Event, d *Desc) []event {
	var counted []event
	seen := map[string]bool{}
	for i, e := range all {
		name := label(e.Name)
		if seen[name] {
			continue
		}
		seen[name] = true
		s.Whether(d, e.Reason == "", name, label(e.Reason))
		if e.Reason == "" {
			counted = append(counted, event{newLabel("event", name), i})
		}
	}
	return counted
}

func (s *Scrape) cpus(cpus []node.CPU, events []event) {
	for _, cpu := range cpus {
		if !s.fits(3 * len(events)) {
			continue
		}
		number := nodeCPU.pairs(fmt.Sprint(cpu.Number))
		for _, e := range events {
			if e.index < len(cpu.Readings) {
				s.reading(cpu.Readings[e.index], nodeEvents, nodeEnabled, nodeRunning, with(number, e.label))
			}
		}
	}
}

func (s *Scrape) container(sum *sum[containerLabels], events []event) {
	l := sum.labels
	labels := containerCPU.pairs(l.id, l.podUID, l.namespace, l.pod, l.container, l.cgroup)
	if sum.counts[number] > 0 || sum.counts[duration] > 0 {
		s.add(containerCPU, seconds(sum.counts[duration]), labels)
		s.add(containerSwitches, float64(sum.counts[number]), labels)
		for why, reason := range reasons {
			s.add(containerOffCPU, seconds(sum.counts[firstOffCPU+why]), with(labels, reason))
		}
	}
	s.readings(sum.counts[firstEvent:], events, containerEvents, containerEnabled, containerRunning, labels)
}

// reasons are the labels of process.Reason.
var reasons = func() (all [process.Reasons]*dto.LabelPair) {
	for why := range all {
		all[why] = newLabel("reason", process.Reason(why).String())
	}
	return all
}()

// putReading writes a reading into counts. readings reads it there.
func putReading(counts []uint64, r perfevent.Reading) {
	copy(counts, []uint64{r.Value, r.Enabled, r.Running})
}

// readings exports the readings of events, which counts has from its beginning on. labels lack the event.
func (s *Scrape) readings(counts []uint64, events []event, value, enabled, running *Desc, labels []*dto.LabelPair) {
	for _, e := range events {
		c := counts[3*e.index:]
		s.reading(perfevent.Reading{Value: c[0], Enabled: c[1], Running: c[2]}, value, enabled, running, with(labels, e.label))
	}
}

// reading exports a reading. Without time enabled, nothing was asked of the counter. Without time running, its value means nothing.
func (s *Scrape) reading(r perfevent.Reading, value, enabled, running *Desc, labels []*dto.LabelPair) {
	if r.Enabled == 0 {
		return
	}
	s.add(enabled, seconds(r.Enabled), labels)
	s.add(running, seconds(r.Running), labels)
	if r.Running > 0 {
		s.add(value, float64(r.Value), labels)
	}
}

// seconds returns nanoseconds in seconds.
func seconds(ns uint64) float64 { return float64(ns) / float64(time.Second) }

// nanoseconds returns a duration that cannot be negative in nanoseconds.
func nanoseconds(d time.Duration) uint64 { return uint64(min(max(d, 0), math.MaxInt64)) }

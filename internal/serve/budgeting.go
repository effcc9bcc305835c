package serve

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	goruntime "runtime/metrics"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/serve/budget"
	"github.com/bperf/bperf/internal/serve/metrics"
	"github.com/bperf/bperf/internal/serve/node"
	"github.com/bperf/bperf/internal/serve/profiles"
	"github.com/bperf/bperf/internal/serve/settings"
)

// budgetPeriod is the time between two measurements of the daemon's cost.
const budgetPeriod = 10 * time.Second

// budgeting measures what the daemon takes, and says what it may do. All but its metrics is for one goroutine.
type budgeting struct {
	log         *slog.Logger
	tick        <-chan time.Time     // ends a period
	measure     func() (cost, error) // since any time
	memoryLimit int64                // of the Go runtime before there was a budget, in bytes

	controller *budget.Controller
	ladder     []budget.Plan // by level
	last       cost          // at the end of the last period
	perSwitch  float64       // the last that is known
	changing   bool          // the last period ended with a change that is not complete, or had one in it
	failed     bool          // the last measurement failed

	status atomic.Pointer[budget.Status] // nil until counting has begun
}

// cost is what the daemon and the node have taken up to a moment.
type cost struct {
	time      time.Time
	cpu       time.Duration // CPU time of the process
	sessions  time.Duration // CPU time of the processes of sessions
	memory    uint64        // resident, without pages of files, in bytes
	perSwitch float64       // run time of own BPF programs for each context switch, in seconds; 0 if unknown
	switches  uint64        // context switches of the node
	cpus      int           // that are online
}

func newBudgeting(log *slog.Logger, measure func() (cost, error)) *budgeting {
	return &budgeting{log: log, tick: time.Tick(budgetPeriod), measure: measure, memoryLimit: debug.SetMemoryLimit(-1)}
}

// cost measures the daemon.
func (d *Daemon) cost() (cost, error) {
	g := d.current.Load()
	if g == nil {
		return cost{}, errStarting
	}
	self, err := g.collector.Self()
	if err != nil {
		return cost{}, err
	}
	stat, err := procfs.ReadStat(os.DirFS("/proc"))
	if err != nil {
		return cost{}, err
	}
	return cost{time.Now(), self.CPUTime, d.remote.Stats().CPUTime, self.Unfiled, self.PerSwitch, stat.Switches, len(stat.CPUs)}, nil
}

// begin begins at level 0 with what the settings ask for. pushed says that servers get the profile.
func (b *budgeting) begin(limits budget.Limits, all budget.Plan, pushed bool) {
	b.ladder = budget.Ladder(all, pushed)
	b.controller = budget.New(limits, len(b.ladder)-1)
	b.controller.LastForCPU()
	b.last, b.changing = cost{}, true // the start is no measure of what follows
	b.status.Store(&budget.Status{Limits: limits, All: all, Plan: all})
	debug.SetMemoryLimit(goMemoryLimit(limits.Memory, liveHeap(), b.memoryLimit))
}

// end undoes what concerns the whole process.
func (b *budgeting) end() { debug.SetMemoryLimit(b.memoryLimit) }

// goMemoryLimit returns the limit for the Go runtime, which makes it collect garbage earlier. It is below the budget, because it is not a
// strict one, and so much that memory at the limit does not keep the level up. without is the limit without budget.
//
// live are the bytes of the heap that are in use. When little more than these is allowed, the runtime spends half of the time on collecting
// garbage, without success. Then it gets more room: the level, and not the runtime, is to bring the memory down.
func goMemoryLimit(memory, live uint64, without int64) int64 {
	if memory == 0 {
		return without
	}
	return min(int64(max(memory/4*3, live+live/2+leastRoom)), without)
}

// leastRoom is the room for garbage and for what the Go runtime itself takes, in bytes.
const leastRoom = 8 << 20

// liveHeap returns the bytes of the heap that the last garbage collection found in use.
func liveHeap() uint64 {
	sample := []goruntime.Sample{{Name: "/gc/heap/live:bytes"}}
	goruntime.Read(sample)
	return sample[0].Value.Uint64()
}

// next ends a period, and returns the plan of the next one. settled says that the last plan has taken effect.
func (b *budgeting) next(settled bool) budget.Plan {
	now, err := b.measure()
	if err != nil && !b.failed {
		b.log.Warn("the cost of bperf is not known: the budget gives up nothing, and takes up nothing", "error", err)
	}
	b.failed = err != nil
	last := b.status.Load()
	debug.SetMemoryLimit(goMemoryLimit(last.Limits.Memory, liveHeap(), b.memoryLimit))
	status := budget.Status{Limits: last.Limits, All: last.All, Why: last.Why}
	m := budget.Measurement{Pending: b.changing || !settled}
	if err == nil {
		switch {
		case !last.Plan.Switches:
			b.perSwitch = 0
		case now.perSwitch > 0:
			b.perSwitch = now.perSwitch
		}
		shares(&status, &b.last, &now, b.perSwitch)
		if !last.Plan.Switches { // none of its programs runs
			status.Programs = status.Process
			status.Programs.Of = 0
		}
		status.Memory = budget.Known(float64(now.memory))
		m.CPU, m.Memory = status.CPU(), status.Memory
	}
	b.last = now
	before := b.controller.Level()
	status.Level = b.controller.Next(m)
	status.Plan = b.ladder[status.Level]
	if status.Level == 0 {
		status.Why = ""
	} else if status.Level > before {
		status.Why = exceeded(&status, now.time)
	}
	b.status.Store(&status)
	b.changing = status.Level != before || !settled
	plan := status.Plan
	details := []any{"level", status.Level, "frequency", plan.Frequency, "inside", plan.Inside, "events", plan.Events, "profile", plan.Profile, "containers", plan.Switches,
		"cpu", fmt.Sprintf("%.2f%%", 100*m.CPU.Of), "memory", fmt.Sprintf("%.1fM", m.Memory.Of/(1<<20))}
	switch {
	case status.Level > before:
		b.log.Warn("over the budget: bperf gives up something", details...)
	case status.Level < before:
		b.log.Info("under the budget: bperf takes up something again", details...)
	}
	return plan
}

// exceeded returns which limits are exceeded, and by what.
func exceeded(s *budget.Status, at time.Time) string {
	var all []string
	if cpu := s.CPU(); s.Limits.CPU > 0 && cpu.Of > s.Limits.CPU {
		all = append(all, fmt.Sprintf("%.2f %% of the CPU time (the budget is %.4g %%)", 100*cpu.Of, 100*s.Limits.CPU))
	}
	if s.Limits.Memory > 0 && s.Memory.Of > float64(s.Limits.Memory) {
		all = append(all, fmt.Sprintf("%.1f MiB of memory (the budget is %d MiB)", s.Memory.Of/(1<<20), s.Limits.Memory>>20))
	}
	return fmt.Sprintf("at %s bperf took %s", at.UTC().Format("15:04:05 UTC"), strings.Join(all, " and "))
}

// shares sets what the process, its BPF programs and the sessions have taken of the CPU time of the node between two moments. That of the
// programs is estimated from the number of context switches.
func shares(s *budget.Status, before, now *cost, perSwitch float64) {
	available := now.time.Sub(before.time).Seconds() * float64(now.cpus)
	if before.time.IsZero() || available <= 0 || now.switches < before.switches {
		return
	}
	s.Process = budget.Known((now.cpu - before.cpu).Seconds() / available)
	s.Sessions = budget.Known((now.sessions - before.sessions).Seconds() / available)
	if perSwitch > 0 {
		s.Programs = budget.Known(perSwitch * float64(now.switches-before.switches) / available)
	}
}

// wanted returns the plan of what the settings ask for.
func (d *Daemon) wanted(s *settings.Settings, collector *node.Collector) budget.Plan {
	p := budget.Plan{Inside: s.Inside.Programs != "", Events: collector.Counted(), Profile: d.profile != nil, Switches: true}
	if s.Profile.Event != "" {
		p.Frequency = s.Profile.Frequency
	}
	return p
}

// beginBudget begins to keep the budget of the settings, with all that they ask for.
func (d *Daemon) beginBudget(s *settings.Settings, collector *node.Collector) {
	all := d.wanted(s, collector)
	d.budget.begin(s.Budget.Limits, all, len(s.Push) > 0)
	d.setRate(s, all)
}

// setRate makes the profiler follow a plan.
func (d *Daemon) setRate(s *settings.Settings, plan budget.Plan) {
	if d.profile == nil {
		return
	}
	rate := profiles.Rate{On: plan.Profile, Frequency: plan.Frequency}
	if plan.Frequency == 0 { // nothing is sampled, but a session has a frequency
		rate.Frequency = s.Profile.Frequency
	}
	d.profile.SetRate(rate)
}

// keepBudget ends a period: it measures, and gives up or takes up something.
func (d *Daemon) keepBudget() {
	g := d.current.Load()
	plan := d.budget.next(d.profile == nil || d.profile.Settled())
	d.setRate(g.settings, plan)
	if plan.Events == g.collector.Counted() && plan.Switches == g.collector.Switches() {
		d.setInside(g.collector, plan)
		return
	}
	began := time.Now()
	collector, err := d.open(g.settings, plan)
	if err != nil {
		d.budget.changing = true
		d.log.Warn("what is counted stays: other counters cannot be opened", "error", err)
		return
	}
	d.setInside(collector, plan)
	d.use(g.settings, collector, began)
	if err := g.collector.Close(); err != nil {
		d.log.Warn("close the counters that were replaced", "error", err)
	}
}

// setInside makes the collector count inside BPF programs, or not.
func (d *Daemon) setInside(c *node.Collector, plan budget.Plan) {
	if err := c.GiveUpInside(!plan.Inside); err != nil {
		d.log.Warn("end counting inside BPF programs", "error", err)
	}
}

// Metrics of the budget.
var (
	levelDesc = metrics.NewDesc("bperf_budget_level",
		"What bperf gives up to keep its budget: 0 is nothing, and each level gives up more than the one below.")
	cpuRatioDesc = metrics.NewDesc("bperf_budget_cpu_ratio",
		"Share of the CPU time of all CPUs that bperf took in the last period. That of its BPF programs is an estimate.", "part")
	givenUpDesc = metrics.NewDesc("bperf_budget_given_up",
		"Share of what the configuration asks for that is given up to keep the budget.", "what")
	memoryDesc = metrics.NewDesc("bperf_budget_memory_bytes",
		"Resident memory of bperf without pages of files, which the kernel can drop.")
	cpuLimitDesc = metrics.NewDesc("bperf_budget_cpu_limit_ratio",
		"Budget: the share of the CPU time of all CPUs that bperf may take.")
	memoryLimitDesc = metrics.NewDesc("bperf_budget_memory_limit_bytes",
		"Budget: the resident memory that bperf may take, without pages of files.")
)

// export exports what the budget allows, and what the daemon takes.
func (b *budgeting) export(scrape *metrics.Scrape) {
	s := b.status.Load()
	if s == nil {
		return
	}
	scrape.Gauge(levelDesc, float64(s.Level))
	if s.Process.Known {
		scrape.Gauge(cpuRatioDesc, s.Process.Of, "process")
	}
	if s.Sessions.Known {
		scrape.Gauge(cpuRatioDesc, s.Sessions.Of, "sessions")
	}
	if s.Programs.Known {
		scrape.Gauge(cpuRatioDesc, s.Programs.Of, "bpf_programs")
	}
	if s.Memory.Known {
		scrape.Gauge(memoryDesc, s.Memory.Of)
	}
	givenUp := s.Plan.GivesUp(s.All)
	scrape.Gauge(givenUpDesc, givenUp.Frequency, "sampling_frequency")
	scrape.Gauge(givenUpDesc, givenUp.Inside, "inside_bpf_programs")
	scrape.Gauge(givenUpDesc, givenUp.Events, "events")
	scrape.Gauge(givenUpDesc, givenUp.Stacks, "stacks")
	scrape.Gauge(givenUpDesc, givenUp.Containers, "containers")
	if s.Limits.CPU > 0 {
		scrape.Gauge(cpuLimitDesc, s.Limits.CPU)
	}
	if s.Limits.Memory > 0 {
		scrape.Gauge(memoryLimitDesc, float64(s.Limits.Memory))
	}
}

package cli

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/event/vendor"
	"github.com/bperf/bperf/internal/metric"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/stat"
)

// metricChooser finds the metrics of -M, and what to count for them.
type metricChooser struct {
	machine *event.Machine
	options metric.Options
	session metric.Session
	note    func(string)

	catalog *metric.Catalog // of the CPU's vendor; nil before it is needed
	facts   *metric.Facts
	all     []vendor.Metric // that read has read
}

// load reads the metrics of the CPU's vendor and what their expressions ask of the machine.
func (c *metricChooser) load() error {
	if c.catalog != nil {
		return nil
	}
	// Without this right or such a clock, the kernel reports none: only metrics that need it then have no value.
	c.session.ClockFrequency, _ = perfevent.ClockFrequency()
	proc := os.DirFS("/proc")
	literals, err := metric.Literals(os.DirFS("/sys"), proc, c.session)
	if err != nil {
		return err
	}
	c.options.NMIWatchdog, c.options.SMT = metric.NMIWatchdog(proc), literals["smt_on"] != 0
	known := make(map[string]bool)
	c.facts = &metric.Facts{Literals: literals, IsCPU: func(pattern string) bool { return vendor.Fits(c.machine.CPU(), pattern) }, HasEvent: func(name string) bool {
		has, asked := known[name]
		if !asked {
			_, err := c.machine.Parse(name)
			has = err == nil
			known[name] = has
		}
		return has
	}}
	if err := c.read(); err != nil {
		return err
	}
	c.catalog = metric.NewCatalog(c.all, c.facts)
	return nil
}

// read reads the metrics of the CPU's vendor.
func (c *metricChooser) read() (err error) {
	if c.all == nil {
		c.all, err = c.machine.VendorMetrics()
	}
	return err
}

// split sorts the names of -M: metrics of bperf, and metrics and groups of metrics of the CPU's vendor. Modifiers can follow them. An alias
// of bperf's, as "IPC", is the vendor's metric of that name if there is one.
func (c *metricChooser) split(list string) (own, ofVendor []string, err error) {
	for written := range strings.SplitSeq(list, ",") {
		written = strings.TrimSpace(written)
		name, _, err := event.CutModifiers(written)
		if err != nil {
			return nil, nil, err
		}
		if stat.HasMetric(name) {
			own = append(own, written)
			continue
		}
		if err := c.load(); err != nil {
			return nil, nil, err
		}
		switch {
		case len(c.catalog.Find(name)) > 0:
			ofVendor = append(ofVendor, written)
		case stat.HasAlias(name):
			own = append(own, written)
		default:
			return nil, nil, c.unknown(name)
		}
	}
	return own, ofVendor, nil
}

// unknown is the error for a name that is no metric.
func (c *metricChooser) unknown(name string) error {
	return stat.UnknownMetric(name, c.catalog.Names())
}

// cpu names the CPU in messages.
func (c *metricChooser) cpu() string {
	return cmp.Or(c.machine.CPU(), "this CPU, which it does not know")
}

// topdownPrefix is that of the groups of metrics for --topdown: TopdownL1, TopdownL2 …
const topdownPrefix = "TopdownL"

// topdown returns the group of metrics of a level of --topdown.
func (c *metricChooser) topdown(level int) (string, error) {
	if err := c.load(); err != nil {
		return "", err
	}
	highest := 0
	for _, g := range c.catalog.Groups() {
		if n, err := strconv.Atoi(strings.TrimPrefix(g, topdownPrefix)); err == nil && strings.HasPrefix(g, topdownPrefix) {
			highest = max(highest, n)
		}
	}
	switch {
	case highest == 0:
		return "", fmt.Errorf("--topdown needs the metrics of the group TopdownL1, and bperf has none for %s", c.cpu())
	case level < 1 || level > highest:
		return "", fmt.Errorf("--td-level %d: this CPU has metrics for the levels 1 to %d", level, highest)
	}
	return topdownPrefix + strconv.Itoa(level), nil
}

// transactionGroup is the group of metrics for -T.
const transactionGroup = "transaction"

// transaction returns the group of metrics of -T.
func (c *metricChooser) transaction() (string, error) {
	if err := c.load(); err != nil {
		return "", err
	}
	if len(c.catalog.Find(transactionGroup)) == 0 {
		return "", fmt.Errorf("-T needs metrics of transactions, and bperf has none for %s", c.cpu())
	}
	return transactionGroup, nil
}

// addTopdown adds the metrics of --topdown and -T.
func (o *statOptions) addTopdown(c *chosenEvents) error {
	var groups []string
	if o.topdown {
		group, err := c.metrics.topdown(o.topdownLevel)
		if err != nil {
			return err
		}
		groups = append(groups, group)
	}
	if o.transaction {
		group, err := c.metrics.transaction()
		if err != nil {
			return err
		}
		groups = append(groups, group)
	}
	if groups == nil {
		return nil
	}
	return c.addVendorMetrics(groups)
}

// addMetrics adds the events of the metrics that are named, and the metrics themselves.
func (c *chosenEvents) addMetrics(list string) error {
	own, ofVendor, err := c.metrics.split(list)
	if err != nil {
		return err
	}
	if len(own) > 0 {
		if err := c.addOwnMetrics(strings.Join(own, ",")); err != nil {
			return err
		}
	}
	if len(ofVendor) == 0 {
		return nil
	}
	return c.addVendorMetrics(ofVendor)
}

// addOwnMetrics adds metrics of bperf.
func (c *chosenEvents) addOwnMetrics(list string) error {
	names, err := stat.MetricNames(list)
	if err != nil {
		return err
	}
	c.named = append(c.named, names...)
	events, err := stat.MetricEvents(list, c.metrics.options)
	if err != nil {
		return err
	}
	for _, e := range events {
		if err := c.parse(e); err != nil {
			return err
		}
	}
	return nil
}

// addVendorMetrics adds metrics and groups of metrics of the CPU's vendor.
func (c *chosenEvents) addVendorMetrics(names []string) error {
	selection, err := c.metrics.catalog.Select(names, c.metrics.options)
	if err != nil {
		return err
	}
	if err := selection.CheckValues(names, "this machine", c.metrics.note); err != nil {
		return err
	}
	if c.vendor == nil {
		c.vendor = stat.NewVendorMetrics(c.metrics.facts)
	}
	for _, m := range selection.Metrics {
		c.named = append(c.named, m.Title())
	}
	return c.addSelection(selection)
}

// addSelection adds the events of metrics of the CPU's vendor.
func (c *chosenEvents) addSelection(s *metric.Selection) error {
	list, err := c.vendor.Add(s, c.terms, c.machine.Parse)
	if err != nil {
		return err
	}
	for _, e := range list.Events() {
		c.terms = max(c.terms, e.Term+1)
	}
	c.list = append(c.list, list...)
	return nil
}

// hasDefaultMetrics reports whether a session without named events also counts the metrics that the CPU's vendor wants there. perf 6.1 does
// not. Inside BPF programs and with shared counters, bperf does not, because each event costs time there.
func (o *statOptions) hasDefaultMetrics() bool {
	return !o.inPrograms && !o.bpfCounters && o.likePerf != stat.Perf61
}

// addDefaultMetrics adds the metrics that the CPU's vendor wants in a session without named events. It leaves out those whose events the
// machine lacks.
func (c *chosenEvents) addDefaultMetrics() error {
	if !c.machine.MayHaveDefaultMetrics() {
		return nil
	}
	if err := c.metrics.read(); err != nil || !slices.ContainsFunc(c.metrics.all, metric.IsDefault) {
		return err // most CPUs have none, and the start need not wait for what expressions ask of the machine
	}
	if err := c.metrics.load(); err != nil {
		return err
	}
	selection, err := c.metrics.catalog.SelectDefaults(c.metrics.options)
	if err != nil || len(selection.Metrics) == 0 {
		return err
	}
	c.vendor = stat.NewDefaultMetrics(c.metrics.facts)
	return c.addSelection(selection)
}

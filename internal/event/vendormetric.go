package event

import (
	"slices"

	"github.com/bperf/bperf/internal/event/vendor"
)

// VendorMetrics returns the metrics that the vendor of the CPU publishes, except those of PMUs that the machine does not have, and of kinds
// of cores that OnlyCore leaves out. It returns an error if event files cannot be used.
func (m *Machine) VendorMetrics() ([]vendor.Metric, error) {
	var metrics []vendor.Metric
	for metric := range m.VendorTable().Metrics() {
		if m.counts(&metric) {
			metrics = append(metrics, metric)
		}
	}
	return metrics, m.filesErr
}

// MayHaveDefaultMetrics reports whether VendorMetrics may return metrics for a session without named events. They count on cores, for which
// many virtual machines show no PMU; the start of a command there need not wait for the vendor's table. Event files that the user named are
// read in any case, because it is an error if they cannot be used.
func (m *Machine) MayHaveDefaultMetrics() bool {
	return len(m.corePMUs()) > 0 || m.files != nil && m.files.Named
}

// counts reports whether the machine has the PMU of a metric, in the version that the metric is for.
func (m *Machine) counts(of *vendor.Metric) bool {
	if of.PMU == "" && of.Compat == "" {
		return true
	}
	if slices.ContainsFunc(m.corePMUs(), func(core *pmu) bool { return core.name == of.PMU && m.excludes(core) }) {
		return false
	}
	for _, name := range m.pmuNames() {
		if of.PMU != "" && !isBox(name, of.PMU) {
			continue
		}
		if compatible(m.devices, name, of.Compat) {
			return true
		}
	}
	return false
}

// CPU identifies the machine's first CPU as perf does, such as "GenuineIntel-6-8E-A". It is empty if that is not known.
func (m *Machine) CPU() string {
	if m.cpuid == nil {
		return ""
	}
	return m.cpuid(0)
}

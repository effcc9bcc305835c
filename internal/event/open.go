package event

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
)

// InUserMode returns a copy of the event restricted to user mode, with the modifier u in its name. perf does the same for users who may not
// measure the kernel. InUserMode returns nil if the event is already restricted or happens only in the kernel.
func (e *Event) InUserMode() *Event {
	if e.Attr.Flags&(perfdata.AttrExcludeKernel|perfdata.AttrExcludeUser) != 0 || e.KernelOnly() {
		return nil
	}
	restricted := *e
	restricted.Attr.Flags |= perfdata.AttrExcludeKernel | perfdata.AttrExcludeHV
	if !strings.ContainsAny(restricted.Name, ":/") {
		restricted.Name += ":"
	}
	restricted.Name += "u"
	return &restricted
}

// KernelOnly reports whether the event happens only in the kernel, never in user mode.
func (e *Event) KernelOnly() bool {
	if e.Attr.Type == perfdata.TypeTracepoint {
		return true
	}
	return e.Attr.Type == perfdata.TypeSoftware && slices.Contains([]uint64{
		perfdata.SoftwareContextSwitches, perfdata.SoftwareCPUMigrations, perfdata.SoftwareCgroupSwitches}, e.Attr.Config)
}

// SetFilter sets the event's filter, if it has one, on opened.
func (e *Event) SetFilter(opened *perfevent.Event) error {
	if e.Filter == "" {
		return nil
	}
	if err := opened.SetFilter(e.Filter); err != nil {
		return fmt.Errorf("%s: the kernel does not take the filter %q: %w. Filters are for tracepoints; "+
			"the fields of one are in /sys/kernel/tracing/events/%s/format", e.Name, e.Filter, err, strings.ReplaceAll(e.Tracepoint, ":", "/"))
	}
	return nil
}

package report

import (
	"fmt"
	"math/bits"
	"strings"
	"sync"

	"github.com/bperf/bperf/perfdata"
)

// AttrText returns a function that describes the attributes of an event of a recording, as perf does in the dump of a pipe. Several goroutines
// may call it, once the recording's features are read.
func AttrText(r *perfdata.Reader) func(*perfdata.Attr) string {
	printer := sync.OnceValue(func() *eventPrinter {
		e := &eventPrinter{}
		_ = e.readFeatures(r.Features()) // names that cannot be read are left out
		return e
	})
	return func(a *perfdata.Attr) string {
		var b strings.Builder
		for _, field := range printer().attrFields(a) {
			name, value, _ := strings.Cut(field, ": ")
			b.WriteString(", " + name + " = " + value)
		}
		return b.String()
	}
}

// attrFields returns the type, size and config of a perf_event_attr and its other fields that are not 0, as "name: value" in the order of the
// structure. Names are those of include/uapi/linux/perf_event.h.
func (e *eventPrinter) attrFields(a *perfdata.Attr) []string {
	fields := []string{e.typeField(a), fmt.Sprintf("size: %d", a.Size), e.configField(a)}
	number := func(name string, value uint64) {
		if value != 0 {
			fields = append(fields, fmt.Sprintf("%s: %d", name, value))
		}
	}
	hex := func(name string, value uint64) {
		if value != 0 {
			fields = append(fields, fmt.Sprintf("%s: %#x", name, value))
		}
	}
	set := func(name string, value uint64, names []string) {
		if value != 0 {
			fields = append(fields, name+": "+bitNames(value, names))
		}
	}
	number("{ sample_period, sample_freq }", a.SamplePeriod)
	set("sample_type", perfsOrder(a.SampleType), sampleTypeNames)
	set("read_format", uint64(a.ReadFormat), []string{"TOTAL_TIME_ENABLED", "TOTAL_TIME_RUNNING", "ID", "GROUP", "LOST"})
	for i, name := range attrFlagNames {
		if name == "precise_ip" {
			number(name, uint64(a.PreciseIP()))
		} else if name != "" {
			number(name, uint64(a.Flags)>>i&1)
		}
	}
	number("{ wakeup_events, wakeup_watermark }", uint64(a.WakeupEvents))
	number("bp_type", uint64(a.BPType))
	hex("{ bp_addr, config1 }", a.Config1)
	hex("{ bp_len, config2 }", a.Config2)
	set("branch_sample_type", uint64(a.BranchSampleType), branchNames)
	hex("sample_regs_user", a.SampleRegsUser)
	number("sample_stack_user", uint64(a.SampleStackUser))
	if a.ClockID != 0 {
		fields = append(fields, fmt.Sprintf("clockid: %d", a.ClockID))
	}
	hex("sample_regs_intr", a.SampleRegsIntr)
	number("aux_watermark", uint64(a.AuxWatermark))
	number("sample_max_stack", uint64(a.SampleMaxStack))
	number("aux_sample_size", uint64(a.AuxSampleSize))
	number("sig_data", a.SigData)
	number("aux_start_paused", uint64(a.AuxAction)&1)
	number("aux_pause", uint64(a.AuxAction)>>1&1)
	number("aux_resume", uint64(a.AuxAction)>>2&1)
	hex("config3", a.Config3)
	hex("config4", a.Config4)
	return fields
}

// typeField returns the type with the name of its PMU in the recording.
func (e *eventPrinter) typeField(a *perfdata.Attr) string {
	names := []string{"PERF_TYPE_HARDWARE", "PERF_TYPE_SOFTWARE", "PERF_TYPE_TRACEPOINT", "PERF_TYPE_HW_CACHE", "PERF_TYPE_RAW",
		"PERF_TYPE_BREAKPOINT"}
	if a.Type < perfdata.TypeRaw {
		return fmt.Sprintf("type: %d (%s)", a.Type, names[a.Type])
	}
	if pmu, known := e.pmus[a.Type]; known {
		return fmt.Sprintf("type: %d (%s)", a.Type, pmu)
	}
	if a.Type < uint32(len(names)) {
		return fmt.Sprintf("type: %d (%s)", a.Type, names[a.Type])
	}
	return fmt.Sprintf("type: %d", a.Type)
}

// configField returns the config with the name of the event, for types whose events the kernel or the recording names.
func (e *eventPrinter) configField(a *perfdata.Attr) string {
	field := fmt.Sprintf("config: %#x", a.Config)
	if a.Config == 0 {
		field = "config: 0"
	}
	name := e.configName(a)
	if name == "" {
		return field
	}
	return field + " (" + name + ")"
}

func (e *eventPrinter) configName(a *perfdata.Attr) string {
	switch a.Type {
	case perfdata.TypeSoftware:
		return prefixed("PERF_COUNT_SW_", a.Config, softwareNames)
	case perfdata.TypeTracepoint:
		if format := e.traces.Format(a.Config); format != nil {
			return format.System + ":" + format.Name
		}
	case perfdata.TypeHardware, perfdata.TypeHWCache:
		event := a.Config & (1<<perfdata.PMUTypeShift - 1)
		name := prefixed("PERF_COUNT_HW_", event, hardwareNames)
		if a.Type == perfdata.TypeHWCache {
			name = cacheName(event)
		}
		if pmu, known := e.pmus[uint32(a.Config>>perfdata.PMUTypeShift)]; known && name != "" && event != a.Config {
			return pmu + "/" + name + "/"
		}
		return name
	}
	return ""
}

// prefixed returns the name at an index after a prefix, or "" if there is none.
func prefixed(prefix string, index uint64, names []string) string {
	if index >= uint64(len(names)) {
		return ""
	}
	return prefix + names[index]
}

// cacheName returns the names of the parts of a cache event: the cache in bits 0 to 7, the operation in 8 to 15, the result in 16 to 23.
func cacheName(event uint64) string {
	const prefix = "PERF_COUNT_HW_CACHE_"
	result := prefixed(prefix+"RESULT_", event>>16, []string{"ACCESS", "MISS"})
	operation := prefixed(prefix+"OP_", event>>8&0xff, []string{"READ", "WRITE", "PREFETCH"})
	cache := prefixed(prefix, event&0xff, []string{"L1D", "L1I", "LL", "DTLB", "ITLB", "BPU", "NODE"})
	if result == "" || operation == "" || cache == "" {
		return ""
	}
	return result + " | " + operation + " | " + cache
}

// bitNames returns the names of the bits that are set, lowest first. Bits without a name are in hexadecimal at the end.
func bitNames(value uint64, names []string) string {
	var set []string
	for left := value; left != 0; left &= left - 1 {
		i := bits.TrailingZeros64(left)
		if i >= len(names) {
			set = append(set, fmt.Sprintf("%#x", left))
			break
		}
		set = append(set, names[i])
	}
	return strings.Join(set, "|")
}

// hardwareNames are the names of enum perf_hw_id.
var hardwareNames = []string{"CPU_CYCLES", "INSTRUCTIONS", "CACHE_REFERENCES", "CACHE_MISSES", "BRANCH_INSTRUCTIONS", "BRANCH_MISSES", "BUS_CYCLES",
	"STALLED_CYCLES_FRONTEND", "STALLED_CYCLES_BACKEND", "REF_CPU_CYCLES"}

// softwareNames are the names of enum perf_sw_ids.
var softwareNames = []string{"CPU_CLOCK", "TASK_CLOCK", "PAGE_FAULTS", "CONTEXT_SWITCHES", "CPU_MIGRATIONS", "PAGE_FAULTS_MIN", "PAGE_FAULTS_MAJ",
	"ALIGNMENT_FAULTS", "EMULATION_FAULTS", "DUMMY", "BPF_OUTPUT", "CGROUP_SWITCHES"}

// sampleTypeNames are the names of enum perf_event_sample_format, with IDENTIFIER where perf prints it.
var sampleTypeNames = []string{"IP", "TID", "TIME", "ADDR", "READ", "CALLCHAIN", "ID", "CPU", "PERIOD", "STREAM_ID", "RAW", "BRANCH_STACK",
	"REGS_USER", "STACK_USER", "IDENTIFIER", "REGS_INTR", "DATA_SRC", "WEIGHT", "TRANSACTION", "PHYS_ADDR", "AUX", "CGROUP", "DATA_PAGE_SIZE",
	"CODE_PAGE_SIZE", "WEIGHT_STRUCT"}

// perfsOrder moves the bits of a sample type to the order of sampleTypeNames: IDENTIFIER and REGS_INTR come after STACK_USER, before WEIGHT
// and DATA_SRC, whose bits are below theirs.
func perfsOrder(t perfdata.SampleType) uint64 {
	const moved = perfdata.SampleWeight | perfdata.SampleDataSrc | perfdata.SampleIdentifier | perfdata.SampleTransaction | perfdata.SampleRegsIntr
	value := uint64(t &^ moved)
	order := []perfdata.SampleType{perfdata.SampleIdentifier, perfdata.SampleRegsIntr, perfdata.SampleDataSrc, perfdata.SampleWeight,
		perfdata.SampleTransaction}
	for i, bit := range order {
		if t.Has(bit) {
			value |= uint64(perfdata.SampleWeight) << i
		}
	}
	return value
}

// branchNames are the names of enum perf_branch_sample_type.
var branchNames = []string{"USER", "KERNEL", "HV", "ANY", "ANY_CALL", "ANY_RETURN", "IND_CALL", "ABORT_TX", "IN_TX", "NO_TX", "COND", "CALL_STACK",
	"IND_JUMP", "CALL", "NO_FLAGS", "NO_CYCLES", "TYPE_SAVE", "HW_INDEX", "PRIV_SAVE", "COUNTERS"}

// attrFlagNames are the names of the fields that AttrFlags holds, by their lowest bit.
var attrFlagNames = []string{"disabled", "inherit", "pinned", "exclusive", "exclude_user", "exclude_kernel", "exclude_hv", "exclude_idle", "mmap",
	"comm", "freq", "inherit_stat", "enable_on_exec", "task", "watermark", "precise_ip", "", "mmap_data", "sample_id_all", "exclude_host",
	"exclude_guest", "exclude_callchain_kernel", "exclude_callchain_user", "mmap2", "comm_exec", "use_clockid", "context_switch",
	"write_backward", "namespaces", "ksymbol", "bpf_event", "aux_output", "cgroup", "text_poke", "build_id", "inherit_thread", "remove_on_exec",
	"sigtrap", "defer_callchain", "defer_output"}

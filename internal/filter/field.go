package filter

import "github.com/bperf/bperf/perfdata"

// field is a property of a sample, or of the task that is sampled.
type field struct {
	name    string
	aliases []string
	names   bool                // its values are names, which Filter.Load resolves to numbers
	sample  perfdata.SampleType // sample type that makes the kernel fill in the field

	source source
	member string // sourceData: member of struct perf_sample_data, with dots
	older  source // replaces sourceData on kernels where programs cannot read it; noSource if there is no replacement
	shift  uint8  // lowest bit of the field in the loaded word
	bits   uint8  // number of bits; 0 for all
	extra  uint8  // position of two more bits, which become the field's highest; only mem_snoop has them; 0 for none
	words  map[string]uint64
}

// source says from where the program loads a field.
type source int

const (
	noSource source = iota
	sourceData
	sourceIP     // struct bpf_perf_event_data, include/uapi/linux/bpf_perf_event.h
	sourcePeriod // the same
	sourceAddr   // the same
	sourceTask   // bpf_get_current_pid_tgid
	sourceUser   // bpf_get_current_uid_gid
	sourceCPU    // bpf_get_smp_processor_id
	sourceCgroup // bpf_get_current_cgroup_id
)

const (
	weights = perfdata.SampleWeightStruct
	memory  = perfdata.SampleDataSrc
)

// fields are the fields of perf's filters, and data_src and bpf_prog. The bits of memory accesses are those of union perf_mem_data_src
// (include/uapi/linux/perf_event.h).
var fields = []*field{
	{name: "ip", sample: perfdata.SampleIP, source: sourceData, member: "ip", older: sourceIP},
	{name: "id", sample: perfdata.SampleEventID, source: sourceData, member: "id"},
	{name: "tid", sample: perfdata.SampleTID, source: sourceData, member: "tid_entry.tid", older: sourceTask, bits: 32},
	{name: "pid", sample: perfdata.SampleTID, source: sourceData, member: "tid_entry.pid", older: sourceTask, shift: 32, bits: 32},
	{name: "cpu", source: sourceCPU},
	{name: "time", sample: perfdata.SampleTime, source: sourceData, member: "time"},
	{name: "addr", sample: perfdata.SampleAddr, source: sourceAddr},
	{name: "period", source: sourcePeriod},
	{name: "txn", sample: perfdata.SampleTransaction, source: sourceData, member: "txn"},
	{name: "weight", aliases: []string{"weight1"}, sample: weights, source: sourceData, member: "weight.full", bits: 32},
	{name: "weight2", aliases: []string{"ins_lat"}, sample: weights, source: sourceData, member: "weight.full", shift: 32, bits: 16},
	{name: "weight3", aliases: []string{"p_stage_cyc", "retire_lat"}, sample: weights, source: sourceData, member: "weight.full", shift: 48, bits: 16},
	{name: "phys_addr", sample: perfdata.SamplePhysAddr | perfdata.SampleAddr, source: sourceData, member: "phys_addr"},
	{name: "code_page_size", aliases: []string{"code_pgsz"}, sample: perfdata.SampleCodePageSize, source: sourceData, member: "code_page_size"},
	{name: "data_page_size", aliases: []string{"data_pgsz"}, sample: perfdata.SampleDataPageSize | perfdata.SampleAddr,
		source: sourceData, member: "data_page_size"},
	{name: "data_src", sample: memory, source: sourceData, member: "data_src.val"},
	{name: "mem_op", sample: memory, source: sourceData, member: "data_src.val", bits: 5,
		words: map[string]uint64{"na": 1, "load": 2, "store": 4, "pfetch": 8, "exec": 16}},
	{name: "mem_lvl", sample: memory, source: sourceData, member: "data_src.val", shift: 33, bits: 4,
		words: map[string]uint64{"l1": 1, "l2": 2, "l3": 3, "l4": 4, "uncached": 8, "cxl": 9, "io": 10, "any_cache": 11, "lfb": 12, "ram": 13, "pmem": 14, "na": 15}},
	{name: "mem_snoop", sample: memory, source: sourceData, member: "data_src.val", shift: 19, bits: 5, extra: 38,
		words: map[string]uint64{"na": 1, "none": 2, "hit": 4, "miss": 8, "hitm": 16, "fwd": 32, "peer": 64}},
	{name: "mem_remote", sample: memory, source: sourceData, member: "data_src.val", shift: 37, bits: 1, words: map[string]uint64{"remote": 1}},
	{name: "mem_lock", sample: memory, source: sourceData, member: "data_src.val", shift: 24, bits: 2, words: map[string]uint64{"na": 1, "locked": 2}},
	{name: "mem_dtlb", sample: memory, source: sourceData, member: "data_src.val", shift: 26, bits: 7, words: map[string]uint64{"na": 1, "any_hit": 2,
		"any_miss": 4, "l1_hit": 2 | 8, "l1_miss": 4 | 8, "l2_hit": 2 | 16, "l2_miss": 4 | 16, "walk": 32, "fault": 64}},
	{name: "mem_blk", sample: memory, source: sourceData, member: "data_src.val", shift: 40, bits: 3,
		words: map[string]uint64{"na": 1, "by_data": 2, "by_addr": 4}},
	{name: "mem_hops", sample: memory, source: sourceData, member: "data_src.val", shift: 43, bits: 3,
		words: map[string]uint64{"hops0": 1, "hops1": 2, "hops2": 3, "hops3": 4}},
	{name: "uid", source: sourceUser, bits: 32},
	{name: "gid", source: sourceUser, shift: 32, bits: 32},
	{name: "cgroup", names: true, source: sourceCgroup},
	{name: "bpf_prog", names: true, sample: perfdata.SampleIP},
}

// byName maps names and aliases to fields.
var byName = func() map[string]*field {
	found := make(map[string]*field)
	for _, f := range fields {
		found[f.name] = f
		for _, a := range f.aliases {
			found[a] = f
		}
	}
	return found
}()

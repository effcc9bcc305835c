package replay

import (
	"encoding/binary"

	"github.com/bperf/bperf/perfdata"
)

// IsOffCPUDump reports whether the samples of an event are of blocked threads as the BPF programs of perf record --off-cpu write them from perf
// 6.16 on: what they tell is in their raw data, and what the kernel put around that is of the thread that came next.
func IsOffCPUDump(e *perfdata.Event) bool {
	return e != nil && e.Name == "offcpu-time" && e.Attr.Type == perfdata.TypeSoftware && e.Attr.Config == perfdata.SoftwareBPFOutput &&
		e.Attr.SampleType.Has(perfdata.SampleRaw)
}

// readOffCPU takes the blocked thread, for how long it was blocked in ns, its callchain and its cgroup out of the raw data. A sample that is too short for
// these is left as it is. The mode of the CPU is that of the first mark: the kernel tells of its own, where the thread came next.
func readOffCPU(record *perfdata.Record, s *perfdata.Sample, order binary.ByteOrder) {
	const head = 24 // pid, tid, period, length of the callchain
	raw := s.Raw
	if len(raw) < head {
		return
	}
	n := order.Uint64(raw[16:])
	if n >= uint64(len(raw)-head)/8 {
		return
	}
	s.PID, s.TID, s.Period = int32(order.Uint32(raw)), int32(order.Uint32(raw[4:])), order.Uint64(raw[8:])
	s.Callchain = make([]uint64, n)
	for i := range s.Callchain {
		s.Callchain[i] = order.Uint64(raw[head+8*i:])
	}
	s.Cgroup = order.Uint64(raw[head+8*n:])
	s.Fields |= perfdata.SampleTID | perfdata.SamplePeriod | perfdata.SampleCallchain
	s.IP = 0
	if n < 2 {
		return
	}
	s.IP = s.Callchain[1]
	switch s.Callchain[0] {
	case perfdata.ContextUser:
		record.Misc = record.Misc&^7 | perfdata.MiscUser
	case perfdata.ContextKernel:
		record.Misc = record.Misc&^7 | perfdata.MiscKernel
	}
}

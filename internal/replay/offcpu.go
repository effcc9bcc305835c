package replay

import (
	"encoding/binary"

	"github.com/bperf/bperf/perfdata"
)

// IsOffCPUDump reports whether the samples of an event describe blocked threads, as the BPF programs of perf record --off-cpu write them
// since perf 6.16. The description is in the raw data. The fields that the kernel adds are those of the thread that ran next.
func IsOffCPUDump(e *perfdata.Event) bool {
	return e != nil && e.Name == "offcpu-time" && e.Attr.Type == perfdata.TypeSoftware && e.Attr.Config == perfdata.SoftwareBPFOutput &&
		e.Attr.SampleType.Has(perfdata.SampleRaw)
}

// readOffCPU fills a sample from its raw data: the blocked thread, the blocked time in ns, the callchain and the cgroup. A sample that is
// too short for these stays as it is. The CPU mode comes from the callchain's first mark, because the kernel records its own mode, at the
// switch to the next thread.
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

package replay

import "github.com/bperf/bperf/perfdata"

// subject returns the thread of a record other than a sample, as perf script names it: the thread that the record creates, ends or changes,
// otherwise the one in the trailer.
func subject(v perfdata.Value) (pid, tid int32, ok bool) {
	switch v := v.(type) {
	case *perfdata.Mmap:
		return v.PID, v.TID, true
	case *perfdata.Mmap2:
		return v.PID, v.TID, true
	case *perfdata.Comm:
		return v.PID, v.TID, true
	case *perfdata.Fork:
		return v.PID, v.TID, true
	case *perfdata.Exit:
		return v.PID, v.TID, true
	case *perfdata.Namespaces:
		return v.PID, v.TID, true
	}
	if id := Trailer(v); id != nil {
		return id.PID, id.TID, true
	}
	return 0, 0, false
}

// Trailer returns the sample ID that the kernel appends to records other than samples. It is nil for records that perf itself writes.
func Trailer(v perfdata.Value) *perfdata.SampleID {
	switch v := v.(type) {
	case *perfdata.Lost:
		return &v.SampleID
	case *perfdata.LostSamples:
		return &v.SampleID
	case *perfdata.Throttle:
		return &v.SampleID
	case *perfdata.Unthrottle:
		return &v.SampleID
	case *perfdata.Read:
		return &v.SampleID
	case *perfdata.Switch:
		return &v.SampleID
	case *perfdata.SwitchCPUWide:
		return &v.SampleID
	case *perfdata.KSymbol:
		return &v.SampleID
	case *perfdata.BPFEvent:
		return &v.SampleID
	case *perfdata.Cgroup:
		return &v.SampleID
	case *perfdata.TextPoke:
		return &v.SampleID
	case *perfdata.Aux:
		return &v.SampleID
	case *perfdata.ITraceStart:
		return &v.SampleID
	case *perfdata.AuxOutputHWID:
		return &v.SampleID
	case *perfdata.CallchainDeferred:
		return &v.SampleID
	case *perfdata.Mmap:
		return &v.SampleID
	case *perfdata.Mmap2:
		return &v.SampleID
	case *perfdata.Comm:
		return &v.SampleID
	case *perfdata.Fork:
		return &v.SampleID
	case *perfdata.Exit:
		return &v.SampleID
	case *perfdata.Namespaces:
		return &v.SampleID
	}
	return nil
}

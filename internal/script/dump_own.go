package script

import (
	"fmt"
	"strings"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
)

// unhandled is what perf script prints after records that it does nothing with.
const unhandled = ": unhandled!\n"

// dumpOwn prints what a record of perf itself says. Some lines end where the next record begins, as in perf.
func (t *text) dumpOwn(item *replay.Item, out []byte) []byte {
	switch v := item.Value.(type) {
	case *perfdata.HeaderAttr:
		return append(out, printable.Text(t.o.AttrText(&v.Attr))...)
	case *perfdata.HeaderFeature:
		if len(v.Data) > 0 { // else the end of the features
			out = fmt.Appendf(out, ", # %s\n", v.ID)
		}
		return out
	case *perfdata.FinishedRound:
		if t.o.Unsorted {
			return append(out, unhandled...)
		}
		return append(out, '\n')
	case *perfdata.FinishedInit:
		return append(out, unhandled...)
	case *perfdata.IDIndex:
		return dumpIDIndex(v, out)
	case *perfdata.ThreadMap:
		ids, plural := make([]string, len(v.Threads)), "s"
		for i := range v.Threads {
			ids[i] = fmt.Sprint(v.Threads[i].TID)
		}
		if len(ids) == 1 {
			plural = ""
		}
		return fmt.Appendf(out, " nr: %d thread%s: %s\n", len(ids), plural, strings.Join(ids, ", "))
	case *perfdata.CPUMap:
		return fmt.Appendf(out, ": %s\n", cpuList(v))
	case *perfdata.EventUpdate:
		return dumpUpdate(v, out)
	case *perfdata.TimeConv:
		out = fmt.Appendf(out, "\n... Time Shift      %d\n... Time Multiplier %d\n... Time Zero       %d\n", v.Shift, v.Mult, v.Zero)
		return append(out, unhandled...)
	case *perfdata.BPFMetadata:
		out = fmt.Appendf(out, " prog %s\n", printable.Text(v.Program))
		for i, e := range v.Entries {
			out = fmt.Appendf(out, "  entry %d: %20s = %s\n", i, printable.Text(e.Key), printable.Text(e.Value))
		}
		return append(out, unhandled...)
	case *perfdata.Auxtrace:
		return fmt.Appendf(out, " size: %s  offset: %s  ref: %s  idx: %d  tid: %d  cpu: %d\n", alternate(v.Size), alternate(v.Offset), alternate(v.Reference),
			v.Index, v.TID, v.CPU)
	}
	return out
}

func dumpIDIndex(v *perfdata.IDIndex, out []byte) []byte {
	out = fmt.Appendf(out, " nr: %d\n", len(v.Entries))
	for i, e := range v.Entries {
		out = fmt.Appendf(out, " ... id: %d  idx: %d  cpu: %d  tid: %d", e.ID, e.Index, e.CPU, e.TID)
		if i < len(v.Guests) {
			out = fmt.Appendf(out, "  machine_pid: %d  vcpu: %d", v.Guests[i].MachinePID, v.Guests[i].VCPU)
		}
		out = append(out, '\n')
	}
	return out
}

func dumpUpdate(v *perfdata.EventUpdate, out []byte) []byte {
	out = fmt.Appendf(out, "\n... id:    %d\n", v.ID)
	switch v.Kind {
	case perfdata.EventUpdateUnit:
		return fmt.Appendf(out, "... unit:  %s\n", printable.Text(v.Unit))
	case perfdata.EventUpdateScale:
		return fmt.Appendf(out, "... scale: %f\n", v.Scale)
	case perfdata.EventUpdateName:
		return fmt.Appendf(out, "... name:  %s\n", printable.Text(v.Name))
	case perfdata.EventUpdateCPUs:
		return fmt.Appendf(out, "... %s\n", cpuList(&v.CPUs))
	}
	return append(out, "... unknown type\n"...)
}

func cpuList(m *perfdata.CPUMap) string {
	list := procfs.FormatCPUList(m.CPUs)
	switch {
	case m.Any && list == "":
		return "-1"
	case m.Any:
		return "-1," + list
	}
	return list
}

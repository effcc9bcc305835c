package script

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
)

// record prints a record other than a sample, if Options.Records selects it.
func (t *text) record(item *replay.Item, out []byte) []byte {
	if !t.o.Records.selects(item.Value) {
		return out
	}
	if _, round := item.Value.(*perfdata.FinishedRound); round {
		return append(out, "PERF_RECORD_FINISHED_ROUND\n"...)
	}
	return t.details(item, append(append(t.recordStart(item, out), "PERF_RECORD_"...), item.Type.String()...))
}

// details prints what a record says.
func (t *text) details(item *replay.Item, out []byte) []byte {
	switch v := item.Value.(type) {
	case *perfdata.Mmap:
		return fmt.Appendf(out, " %d/%d: [%s(%s) @ %s]: %c %s\n", v.PID, v.TID, alternate(v.Start), alternate(v.Length), alternate(v.Offset),
			access(!v.Data), printable.Text(v.Filename))
	case *perfdata.Mmap2:
		return fmt.Appendf(out, " %d/%d: [%s(%s) @ %s%s]: %s %s\n", v.PID, v.TID, alternate(v.Start), alternate(v.Length), alternate(v.Offset),
			identity(v), protection(v), printable.Text(v.Filename))
	case *perfdata.Comm:
		exec := ""
		if v.Exec {
			exec = " exec"
		}
		return fmt.Appendf(out, "%s: %s:%d/%d\n", exec, printable.Text(v.Comm), v.PID, v.TID)
	case *perfdata.Fork:
		return fmt.Appendf(out, "(%d:%d):(%d:%d)\n", v.PID, v.TID, v.ParentPID, v.ParentTID)
	case *perfdata.Exit:
		return fmt.Appendf(out, "(%d:%d):(%d:%d)\n", v.PID, v.TID, v.ParentPID, v.ParentTID)
	case *perfdata.KSymbol:
		return fmt.Appendf(out, " addr %x len %d type %d flags 0x%x name %s\n", v.Addr, v.Size, v.Type, v.Flags, printable.Text(v.Name))
	case *perfdata.BPFEvent:
		return fmt.Appendf(out, " type %d, flags %d, id %d\n", v.Type, v.Flags, v.ID)
	case *perfdata.BPFMetadata:
		out = fmt.Appendf(out, " prog %s\n", printable.Text(v.Program))
		for _, e := range v.Entries {
			out = fmt.Appendf(out, "  entry: %20s : %s\n", printable.Text(e.Key), printable.Text(e.Value))
		}
	case *perfdata.Switch:
		return fmt.Appendf(out, " %s\n", direction(v.Out, v.Preempt))
	case *perfdata.SwitchCPUWide:
		other := "prev"
		if v.Out {
			other = "next"
		}
		return fmt.Appendf(out, " %s  %s pid/tid: %5d/%-5d\n", direction(v.Out, v.Preempt), other, v.PID, v.TID)
	case *perfdata.Namespaces:
		return appendNamespaces(fmt.Appendf(out, " %d/%d - nr_namespaces: %d\n\t\t[", v.PID, v.TID, len(v.Links)), v.Links)
	case *perfdata.Cgroup:
		return fmt.Appendf(out, " cgroup: %d %s\n", v.ID, printable.Text(v.Path))
	case *perfdata.Lost:
		return fmt.Appendf(out, " lost %d\n", v.Records)
	case *perfdata.LostSamples:
		return fmt.Appendf(out, " lost %d\n", v.Samples)
	case *perfdata.TextPoke:
		return t.textPoke(item, v, fmt.Appendf(out, " %#x ", v.Addr))
	}
	return out
}

// selects reports whether a record is selected.
func (r *Records) selects(v perfdata.Value) bool {
	switch v.(type) {
	case *perfdata.Mmap, *perfdata.Mmap2:
		return r.Mmap
	case *perfdata.Comm, *perfdata.Fork, *perfdata.Exit:
		return r.Task
	case *perfdata.KSymbol, *perfdata.BPFEvent, *perfdata.BPFMetadata:
		return r.BPF
	case *perfdata.Switch, *perfdata.SwitchCPUWide:
		return r.Switch
	case *perfdata.Namespaces:
		return r.Namespace
	case *perfdata.Cgroup:
		return r.Cgroup
	case *perfdata.Lost, *perfdata.LostSamples:
		return r.Lost
	case *perfdata.FinishedRound:
		return r.Round
	case *perfdata.TextPoke:
		return r.TextPoke
	}
	return false
}

// recordStart prints thread and time with the fields of the record's event, or else of the first event.
func (t *text) recordStart(item *replay.Item, out []byte) []byte {
	id := perfdata.SampleID{}
	if trailer := replay.Trailer(item.Value); trailer != nil {
		id = *trailer
	}
	event := item.Event
	if event == nil {
		if events := t.reader.Events(); len(events) > 0 {
			event = events[0]
		}
	}
	first := *item
	record := *item.Record
	record.Event = event
	first.Record = &record
	return t.start(&first, t.fields[kindOf(event)], &id, out)
}

// alternate formats a number like %#x of C: 0 has no 0x.
func alternate(v uint64) string {
	if v == 0 {
		return "0"
	}
	return "0x" + strconv.FormatUint(v, 16)
}

func access(executable bool) byte {
	if executable {
		return 'x'
	}
	return 'r'
}

func identity(v *perfdata.Mmap2) string {
	if v.BuildID != nil {
		return " <" + hex.EncodeToString(v.BuildID) + ">"
	}
	return fmt.Sprintf(" %02x:%02x %d %d", v.Major, v.Minor, v.Inode, v.InodeGeneration)
}

// protection formats the protection of a mapping as in /proc/PID/maps.
func protection(v *perfdata.Mmap2) string {
	text := []byte("---p")
	for i, bit := range []uint32{1, 2, 4} { // PROT_READ, PROT_WRITE, PROT_EXEC
		if v.Protection&bit != 0 {
			text[i] = "rwx"[i]
		}
	}
	if v.Flags&1 != 0 { // MAP_SHARED
		text[3] = 's'
	}
	return string(text)
}

func direction(out, preempt bool) string {
	switch {
	case !out:
		return "IN         "
	case preempt:
		return "OUT preempt"
	}
	return "OUT        "
}

var namespaceNames = []string{"net", "uts", "ipc", "pid", "user", "mnt", "cgroup"}

func appendNamespaces(out []byte, links []perfdata.NamespaceLink) []byte {
	for i, l := range links {
		if i > 0 && i%4 == 0 {
			out = append(out, "\n\t\t "...)
		}
		name := "unknown"
		if i < len(namespaceNames) {
			name = namespaceNames[i]
		}
		end := ", "
		if i == len(links)-1 {
			end = "]\n"
		}
		out = fmt.Appendf(out, "%d/%s: %d/%s%s", i, name, l.Device, alternate(l.Inode), end)
	}
	return out
}

// textPoke prints where the kernel changed its code, and the bytes before and after.
func (t *text) textPoke(item *replay.Item, v *perfdata.TextPoke, out []byte) []byte {
	out = appendSymbol(out, exactly(t.Resolve(item, perfdata.MiscKernel, v.Addr)), true)
	out = fmt.Appendf(out, " old len %d new len %d\n", len(v.Old), len(v.New))
	out = fmt.Appendf(out, "        old bytes: % x\n", v.Old)
	return fmt.Appendf(out, "        new bytes: % x\n", v.New)
}

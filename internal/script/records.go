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
	start := len(out)
	body := func(format string, args ...any) []byte {
		out = t.recordStart(item, out)
		return fmt.Appendf(append(append(out, "PERF_RECORD_"...), item.Type.String()...), format, args...)
	}
	want := &t.o.Records
	switch v := item.Value.(type) {
	case *perfdata.Mmap:
		if want.Mmap {
			return body(" %d/%d: [%s(%s) @ %s]: %c %s\n", v.PID, v.TID, alternate(v.Start), alternate(v.Length), alternate(v.Offset), access(!v.Data), printable.Text(v.Filename))
		}
	case *perfdata.Mmap2:
		if want.Mmap {
			return body(" %d/%d: [%s(%s) @ %s%s]: %s %s\n", v.PID, v.TID, alternate(v.Start), alternate(v.Length), alternate(v.Offset), identity(v),
				protection(v), printable.Text(v.Filename))
		}
	case *perfdata.Comm:
		if want.Task {
			exec := ""
			if v.Exec {
				exec = " exec"
			}
			return body("%s: %s:%d/%d\n", exec, printable.Text(v.Comm), v.PID, v.TID)
		}
	case *perfdata.Fork:
		if want.Task {
			return body("(%d:%d):(%d:%d)\n", v.PID, v.TID, v.ParentPID, v.ParentTID)
		}
	case *perfdata.Exit:
		if want.Task {
			return body("(%d:%d):(%d:%d)\n", v.PID, v.TID, v.ParentPID, v.ParentTID)
		}
	case *perfdata.KSymbol:
		if want.BPF {
			return body(" addr %x len %d type %d flags 0x%x name %s\n", v.Addr, v.Size, v.Type, v.Flags, printable.Text(v.Name))
		}
	case *perfdata.BPFEvent:
		if want.BPF {
			return body(" type %d, flags %d, id %d\n", v.Type, v.Flags, v.ID)
		}
	case *perfdata.BPFMetadata:
		if want.BPF {
			out = body(" prog %s\n", printable.Text(v.Program))
			for _, e := range v.Entries {
				out = fmt.Appendf(out, "  entry: %20s : %s\n", printable.Text(e.Key), printable.Text(e.Value))
			}
			return out
		}
	case *perfdata.Switch:
		if want.Switch {
			return body(" %s\n", direction(v.Out, v.Preempt))
		}
	case *perfdata.SwitchCPUWide:
		if want.Switch {
			other := "prev"
			if v.Out {
				other = "next"
			}
			return body(" %s  %s pid/tid: %5d/%-5d\n", direction(v.Out, v.Preempt), other, v.PID, v.TID)
		}
	case *perfdata.Namespaces:
		if want.Namespace {
			return appendNamespaces(body(" %d/%d - nr_namespaces: %d\n\t\t[", v.PID, v.TID, len(v.Links)), v.Links)
		}
	case *perfdata.Cgroup:
		if want.Cgroup {
			return body(" cgroup: %d %s\n", v.ID, printable.Text(v.Path))
		}
	case *perfdata.Lost:
		if want.Lost {
			return body(" lost %d\n", v.Records)
		}
	case *perfdata.LostSamples:
		if want.Lost {
			return body(" lost %d\n", v.Samples)
		}
	case *perfdata.FinishedRound:
		if want.Round {
			return append(out, "PERF_RECORD_FINISHED_ROUND\n"...)
		}
	case *perfdata.TextPoke:
		if want.TextPoke {
			return t.textPoke(item, v, body(" %#x ", v.Addr))
		}
	}
	return out[:start]
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

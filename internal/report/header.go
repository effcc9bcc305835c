package report

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/perfdata"
)

// Header writes what a recording says about itself, as comment lines in perf's format. With topology, it also writes how the CPUs and the
// memory of the machine are connected.
func Header(w io.Writer, r *perfdata.Reader, topology bool) error {
	out := bufio.NewWriter(w)
	out.WriteString("# ========\n")
	h := header{out, r.Features(), r.ByteOrder()}
	h.machine()
	h.events(r.Events())
	h.groups()
	h.programs()
	if topology {
		h.topology()
	}
	h.times()
	h.rest(topology)
	out.WriteString("# ========\n#\n")
	return out.Flush()
}

type header struct {
	w     *bufio.Writer
	f     *perfdata.Features
	order binary.ByteOrder
}

func (h header) line(format string, values ...any) {
	h.w.WriteString("# " + printable.Text(fmt.Sprintf(format, values...)) + "\n")
}

// broken prints the error of a feature that cannot be read. It does nothing if err is nil.
func (h header) broken(id perfdata.FeatureID, err error) {
	if err != nil {
		h.line("%s: %v", id, err)
	}
}

// feature decodes a feature; ok is false if the feature is absent or cannot be read.
func feature[T perfdata.FeatureValue](h header, id perfdata.FeatureID) (value T, ok bool) {
	v, err := h.f.Get(id)
	h.broken(id, err)
	value, ok = v.(T)
	return value, ok
}

// section decodes a feature that is a list, up to the first error.
func section[T any](h header, id perfdata.FeatureID, decode func([]byte, binary.ByteOrder) ([]T, error)) []T {
	b, there := h.f.Raw(id)
	if !there {
		return nil
	}
	all, err := decode(b, h.order)
	h.broken(id, err)
	return all
}

func (h header) machine() {
	for _, text := range []struct {
		title string
		id    perfdata.FeatureID
	}{
		{"hostname", perfdata.FeatureHostname}, {"os release", perfdata.FeatureOSRelease}, {"perf version", perfdata.FeatureVersion},
		{"arch", perfdata.FeatureArch},
	} {
		if value := h.f.Text(text.id); value != "" {
			h.line("%s : %s", text.title, value)
		}
	}
	if cpus, ok := feature[perfdata.NRCPUs](h, perfdata.FeatureNRCPUs); ok {
		h.line("nrcpus online : %d", cpus.Online)
		h.line("nrcpus avail : %d", cpus.Available)
	}
	if value := h.f.Text(perfdata.FeatureCPUDesc); value != "" {
		h.line("cpudesc : %s", value)
	}
	if value := h.f.Text(perfdata.FeatureCPUID); value != "" {
		h.line("cpuid : %s", value)
	}
	if memory, ok := feature[perfdata.TotalMem](h, perfdata.FeatureTotalMem); ok {
		h.line("total memory : %d kB", memory)
	}
	if command, ok := feature[perfdata.CommandLine](h, perfdata.FeatureCmdline); ok {
		h.line("cmdline : %s ", strings.Join(command, " "))
	}
}

func (h header) events(events []*perfdata.Event) {
	for _, e := range events {
		rate := fmt.Sprintf("sample_period = %d", e.Attr.SamplePeriod)
		if e.Attr.Has(perfdata.AttrFreq) {
			rate = fmt.Sprintf("sample_freq = %d", e.Attr.SamplePeriod)
		}
		h.line("event : name = %s, id = { %s }, type = %d, config = %#x, %s", e.Name, joined(e.IDs), e.Attr.Type, e.Attr.Config, rate)
	}
}

func joined[T any](values []T) string {
	var words []string
	for _, v := range values {
		words = append(words, fmt.Sprint(v))
	}
	return strings.Join(words, ", ")
}

func (h header) groups() {
	groups, _ := feature[perfdata.GroupDescriptions](h, perfdata.FeatureGroupDesc)
	for _, g := range groups {
		h.line("group: %s leader = %d, members = %d", g.Name, g.Leader, g.Members)
	}
}

// programs lists the BPF programs with the addresses of their functions.
func (h header) programs() {
	specs := make(map[uint32]*btf.Spec)
	types := section(h, perfdata.FeatureBPFBTF, linear.DecodeBTF)
	for _, b := range types {
		spec, err := linear.LoadBTF(b.Data)
		h.broken(perfdata.FeatureBPFBTF, err)
		specs[b.ID] = spec
	}
	for _, info := range section(h, perfdata.FeatureBPFProgInfo, linear.DecodePrograms) {
		p, err := info.Program(specs[info.BTF])
		h.broken(perfdata.FeatureBPFProgInfo, err)
		if len(p.Functions) == 1 {
			f := p.Functions[0]
			h.line("bpf_prog_info %d: %s addr %#x size %d", p.ID, f.Symbol, f.Address, f.Size)
			continue
		}
		h.line("bpf_prog_info %d:", p.ID)
		for i, f := range p.Functions {
			h.w.WriteString("# \t" + printable.Text(fmt.Sprintf("sub_prog %d: %s addr %#x size %d", i, f.Symbol, f.Address, f.Size)) + "\n")
		}
	}
	for _, b := range types {
		h.line("btf info of id %d", b.ID)
	}
}

func (h header) times() {
	times, ok := feature[perfdata.SampleTimes](h, perfdata.FeatureSampleTime)
	if !ok {
		return
	}
	h.line("time of first sample : %d.%06d", times.First/1e9, times.First%1e9/1e3)
	h.line("time of last sample : %d.%06d", times.Last/1e9, times.Last%1e9/1e3)
	h.line("sample duration : %10.3f ms", float64(times.Last-times.First)/1e6)
}

// rest names the features that the lines above do not show.
func (h header) rest(topology bool) {
	shown := map[perfdata.FeatureID]bool{
		perfdata.FeatureHostname: true, perfdata.FeatureOSRelease: true, perfdata.FeatureVersion: true, perfdata.FeatureArch: true,
		perfdata.FeatureNRCPUs: true, perfdata.FeatureCPUDesc: true, perfdata.FeatureCPUID: true, perfdata.FeatureTotalMem: true,
		perfdata.FeatureCmdline: true, perfdata.FeatureEventDesc: true, perfdata.FeatureGroupDesc: true, perfdata.FeatureBPFProgInfo: true,
		perfdata.FeatureBPFBTF: true, perfdata.FeatureSampleTime: true,
	}
	var others []string
	for _, id := range h.f.IDs() {
		if !shown[id] && !(topology && slices.Contains(topologies, id)) {
			others = append(others, id.String())
		}
	}
	if len(others) > 0 {
		h.line("other features: %s", strings.Join(others, " "))
	}
}

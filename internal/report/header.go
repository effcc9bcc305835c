package report

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/perfdata"
)

// HeaderOptions select what Header writes.
type HeaderOptions struct {
	Topology bool      // also how the CPUs, caches and memory of the machine are connected
	Captured time.Time // when the recording was last written; zero if unknown
}

// Header writes what a recording says about itself, as comment lines: those of perf 7.2, in its order. As in perf, the features of a pipe
// follow after the block.
func Header(w io.Writer, r *perfdata.Reader, o HeaderOptions) error {
	out := bufio.NewWriter(w)
	out.WriteString("# ========\n")
	h := header{out, r, r.Features()}
	h.file(o.Captured)
	const end = "# ========\n#\n"
	if r.Piped() {
		out.WriteString(end)
	}
	var others, missing []string
	for id := perfdata.FeatureTracingData; id <= perfdata.FeatureCLNSize; id++ {
		if _, there := h.f.Raw(id); !there {
			missing = append(missing, id.String()+" ")
		} else if print, known := printers[id]; !known {
			others = append(others, id.String())
		} else if topologies[id] && !o.Topology {
			h.line("%s info available, use -I to display", id)
		} else {
			print(h)
		}
	}
	for _, id := range h.f.IDs() {
		if id > perfdata.FeatureCLNSize {
			others = append(others, id.String())
		}
	}
	if len(others) > 0 {
		h.line("other features: %s", strings.Join(others, " "))
	}
	if !r.Piped() {
		h.line("missing features: %s", strings.Join(missing, ""))
		out.WriteString(end)
	}
	return out.Flush()
}

type header struct {
	w *bufio.Writer
	r *perfdata.Reader
	f *perfdata.Features
}

// topologies are the features that the header shows only on demand, because they are long.
var topologies = map[perfdata.FeatureID]bool{perfdata.FeatureCPUTopology: true, perfdata.FeatureNUMATopology: true, perfdata.FeatureCache: true,
	perfdata.FeatureMemTopology: true, perfdata.FeatureHybridTopology: true}

// printers print the features. As in perf, some are not printed.
var printers = map[perfdata.FeatureID]func(header){
	perfdata.FeatureTracingData:    func(header) {},
	perfdata.FeatureBuildID:        func(header) {},
	perfdata.FeatureDirFormat:      func(header) {}, // readers of directories do not get here
	perfdata.FeatureHostname:       text("hostname", perfdata.FeatureHostname),
	perfdata.FeatureOSRelease:      text("os release", perfdata.FeatureOSRelease),
	perfdata.FeatureVersion:        text("perf version", perfdata.FeatureVersion),
	perfdata.FeatureArch:           text("arch", perfdata.FeatureArch),
	perfdata.FeatureNRCPUs:         header.numbers,
	perfdata.FeatureCPUDesc:        text("cpudesc", perfdata.FeatureCPUDesc),
	perfdata.FeatureCPUID:          text("cpuid", perfdata.FeatureCPUID),
	perfdata.FeatureTotalMem:       header.totalMemory,
	perfdata.FeatureCmdline:        header.commandLine,
	perfdata.FeatureEventDesc:      header.events,
	perfdata.FeatureCPUTopology:    header.cpus,
	perfdata.FeatureNUMATopology:   header.nodes,
	perfdata.FeatureBranchStack:    func(h header) { h.line("contains samples with branch stack") },
	perfdata.FeaturePMUMappings:    header.pmus,
	perfdata.FeatureGroupDesc:      header.groups,
	perfdata.FeatureAuxtrace:       func(h header) { h.line("contains AUX area data (e.g. instruction trace)") },
	perfdata.FeatureStat:           func(h header) { h.line("contains stat data") },
	perfdata.FeatureCache:          header.caches,
	perfdata.FeatureSampleTime:     header.times,
	perfdata.FeatureMemTopology:    header.memory,
	perfdata.FeatureClockID:        header.clockResolution,
	perfdata.FeatureBPFProgInfo:    header.programs,
	perfdata.FeatureBPFBTF:         header.types,
	perfdata.FeatureCompressed:     header.compression,
	perfdata.FeatureCPUPMUCaps:     header.cpuCaps,
	perfdata.FeatureClockData:      header.clock,
	perfdata.FeatureHybridTopology: header.hybrid,
	perfdata.FeaturePMUCaps:        header.pmuCaps,
	perfdata.FeatureEMachine:       header.machine,
	perfdata.FeatureCLNSize:        header.cacheLine,
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
	all, err := decode(b, h.r.ByteOrder())
	h.broken(id, err)
	return all
}

// file prints where the parts of the file are. Pipes have no such parts.
func (h header) file(captured time.Time) {
	if !captured.IsZero() {
		h.line("captured on    : %s", captured.Local().Format(time.ANSIC))
	}
	offset, size := h.r.Data()
	h.line("header version : 1")
	h.line("data offset    : %d", offset)
	h.line("data size      : %d", size)
	h.line("feat offset    : %d", offset+size)
}

func text(title string, id perfdata.FeatureID) func(header) {
	return func(h header) {
		if value, ok := feature[perfdata.Text](h, id); ok {
			h.line("%s : %s", title, value)
		}
	}
}

func (h header) numbers() {
	if cpus, ok := feature[perfdata.NRCPUs](h, perfdata.FeatureNRCPUs); ok {
		h.line("nrcpus online : %d", cpus.Online)
		h.line("nrcpus avail : %d", cpus.Available)
	}
}

func (h header) totalMemory() {
	if memory, ok := feature[perfdata.TotalMem](h, perfdata.FeatureTotalMem); ok {
		h.line("total memory : %d kB", memory)
	}
}

func (h header) commandLine() {
	if command, ok := feature[perfdata.CommandLine](h, perfdata.FeatureCmdline); ok {
		h.line("cmdline : %s ", strings.ReplaceAll(strings.Join(command, " "), "'", `\'`))
	}
}

func (h header) events() {
	attrText := AttrText(h.r)
	events, _ := feature[perfdata.EventDescriptions](h, perfdata.FeatureEventDesc)
	for i := range events {
		e := &events[i]
		ids := ""
		if len(e.IDs) > 0 {
			ids = ", id = { " + joined(e.IDs) + " }"
		}
		h.line("event : name = %s, %s%s", e.Name, ids, attrText(&e.Attr))
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
	e := eventPrinter{all: h.r.Events()}
	h.broken(perfdata.FeatureGroupDesc, e.readFeatures(h.f))
	for _, event := range e.all {
		if g, leads := e.groups[event.Index]; leads && g.Members > 1 {
			h.line("group: %s", e.group(event))
		}
	}
}

// programs lists the BPF programs with the addresses of their functions.
func (h header) programs() {
	specs := make(map[uint32]*btf.Spec)
	for _, b := range section(h, perfdata.FeatureBPFBTF, linear.DecodeBTF) {
		spec, err := linear.LoadBTF(b.Data)
		h.broken(perfdata.FeatureBPFBTF, err)
		specs[b.ID] = spec
	}
	programs := section(h, perfdata.FeatureBPFProgInfo, linear.DecodePrograms)
	if len(programs) == 0 {
		h.line("bpf_prog_info empty")
	}
	for _, info := range programs {
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
}

func (h header) types() {
	types := section(h, perfdata.FeatureBPFBTF, linear.DecodeBTF)
	if len(types) == 0 {
		h.line("btf info empty")
	}
	for _, b := range types {
		h.line("btf info of id %d", b.ID)
	}
}

func (h header) times() {
	if times, ok := feature[perfdata.SampleTimes](h, perfdata.FeatureSampleTime); ok {
		h.line("time of first sample : %d.%06d", times.First/1e9, times.First%1e9/1e3)
		h.line("time of last sample : %d.%06d", times.Last/1e9, times.Last%1e9/1e3)
		h.line("sample duration : %10.3f ms", float64(times.Last-times.First)/1e6)
	}
}

func (h header) compression() {
	if c, ok := feature[perfdata.Compression](h, perfdata.FeatureCompressed); ok {
		kind := "Unknown"
		if c.Type == 1 {
			kind = "Zstd"
		}
		h.line("compressed : %s, level = %d, ratio = %d", kind, c.Level, c.Ratio)
	}
}

func (h header) machine() {
	if m, ok := feature[perfdata.EMachine](h, perfdata.FeatureEMachine); ok {
		h.line("e_machine : %d", m.Machine)
		h.line("  e_flags : %d", m.Flags)
	}
}

func (h header) cacheLine() {
	if size, ok := feature[perfdata.CacheLineSize](h, perfdata.FeatureCLNSize); ok {
		h.line("cacheline size: %d", size)
	}
}

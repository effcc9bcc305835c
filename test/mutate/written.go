package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/binaries"
)

func moduleDir() (string, error) { return binaries.ModuleDir() }

// readRecordings returns sound recordings: perf's recordings in the tree, some that it writes with all types of records, and the files in more.
func readRecordings(root string, more []string) ([][]byte, error) {
	var files []string
	for _, pattern := range []string{"perfdata/testdata/*.data", "internal/count/recorded/testdata/*.data"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s has no recordings %s", root, pattern)
		}
		files = append(files, found...)
	}
	var all [][]byte
	for _, file := range append(files, more...) {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	for _, w := range []written{{}, {compress: 1}, {pipe: true}, {path: "/usr/bin/nothing"}} {
		b, err := w.recording()
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return append(all, bigEndian()), nil
}

// written describes a recording that this package writes.
type written struct {
	pipe     bool
	compress int
	path     string // the mapped file
	code     []code // ranges that are mapped and sampled
}

// code is a range of a file.
type code struct{ offset, address, size uint64 }

// base is the difference between an address in memory and in the file.
const base = 0x7f0000000000

// pid is the ID of the process and of its thread.
const pid = 100

func (w written) recording() ([]byte, error) {
	const regs = 1<<24 - 1 // all general registers of x86-64 (enum perf_event_x86_regs)
	attr := perfdata.Attr{
		Type: 1, SamplePeriod: 1000, SampleType: (perfdata.SampleWeightStruct<<1 - 1) &^ (perfdata.SampleWeight | perfdata.SampleEventID),
		ReadFormat: perfdata.ReadTotalTimeEnabled | perfdata.ReadTotalTimeRunning | perfdata.ReadID | perfdata.ReadGroup | perfdata.ReadLost,
		Flags:      perfdata.AttrSampleIDAll | perfdata.AttrDeferCallchain, BranchSampleType: perfdata.BranchHWIndex | perfdata.BranchCounters,
		SampleRegsUser: regs, SampleRegsIntr: 3, SampleStackUser: 1024,
	}
	o := perfdata.Options{Compress: w.compress, Events: []*perfdata.Event{{Name: "cpu-clock", IDs: []uint64{7}, Attr: attr}, {Name: "page-faults", IDs: []uint64{8}, Attr: attr}}}
	o.StartFeatures = map[perfdata.FeatureID]perfdata.FeatureValue{perfdata.FeatureArch: perfdata.Text("x86_64")}
	out := &file{}
	var p *perfdata.Writer
	var err error
	if w.pipe {
		p, err = perfdata.NewPipeWriter(out, o)
	} else {
		p, err = perfdata.NewWriter(out, o)
	}
	if err != nil {
		return nil, err
	}
	id := perfdata.SampleID{Fields: attr.SampleType, PID: pid, TID: pid, Time: 1e9, ID: 7, CPU: 1}
	if len(w.code) == 0 {
		w.code = []code{{0, 0, 1 << 20}}
	}
	for _, v := range w.machine(id) {
		if err := p.Write(perfdata.MiscUser, v); err != nil {
			return nil, err
		}
	}
	for n := range 64 {
		id.Time += 1000
		id.ID = 7 + uint64(n&1)
		if err := p.Write(perfdata.MiscUser, w.sample(id, n, regs)); err != nil {
			return nil, err
		}
	}
	for id, v := range map[perfdata.FeatureID]perfdata.FeatureValue{perfdata.FeatureArch: perfdata.Text("x86_64"), perfdata.FeatureNRCPUs: perfdata.NRCPUs{Online: 2, Available: 2},
		perfdata.FeatureCmdline: perfdata.CommandLine{"perf", "record"}} {
		if err := p.SetFeature(id, v); err != nil {
			return nil, err
		}
	}
	return out.b, p.Close()
}

// machine returns records of types other than samples.
func (w written) machine(id perfdata.SampleID) []perfdata.Value {
	const program = 0xffffffffc0001000
	values := []perfdata.Value{
		&perfdata.Comm{SampleID: id, PID: pid, TID: pid, Comm: "mutant"},
		&perfdata.Fork{SampleID: id, PID: pid + 1, ParentPID: pid, TID: pid + 1, ParentTID: pid},
		&perfdata.Cgroup{SampleID: id, ID: 5, Path: "/a"},
		&perfdata.Namespaces{SampleID: id, PID: pid, TID: pid, Links: []perfdata.NamespaceLink{{Device: 3, Inode: 4}}},
		&perfdata.Mmap2{SampleID: id, PID: pid, TID: pid, Start: 0x10000, Length: 4096, Protection: 5, Filename: "/tmp/jit-100.dump"},
		&perfdata.Mmap2{SampleID: id, PID: pid, TID: pid, Start: 0x20000, Length: 1 << 20, Protection: 5, Filename: "//anon"},
		&perfdata.KSymbol{SampleID: id, Addr: program, Size: 4096, Type: perfdata.KSymbolBPF, Name: "bpf_prog_0123456789abcdef_f"},
		&perfdata.BPFEvent{SampleID: id, Type: perfdata.BPFEventLoad, ID: 1},
		&perfdata.TextPoke{SampleID: id, Addr: program, Old: []byte{1, 2, 3}, New: []byte{4, 5, 6}},
		&perfdata.SwitchCPUWide{SampleID: id, PID: 1, TID: 1},
		&perfdata.Switch{SampleID: id},
		&perfdata.Lost{SampleID: id, EventID: 7, Records: 3},
		&perfdata.LostSamples{SampleID: id, Samples: 2},
		&perfdata.Throttle{SampleID: id, EventTime: 1, EventID: 7},
		&perfdata.Aux{SampleID: id, Offset: 0, Size: 16},
		&perfdata.ITraceStart{SampleID: id, PID: pid, TID: pid},
		&perfdata.AuxtraceInfo{Type: 1, Priv: []uint64{1, 2, 3}},
		&perfdata.CallchainDeferred{SampleID: id, Cookie: 77, Callchain: []uint64{perfdata.ContextUser, base + 64}},
		&perfdata.FinishedRound{},
	}
	for _, c := range w.code {
		values = append(values, &perfdata.Mmap2{SampleID: id, PID: pid, TID: pid, Start: base + c.address, Length: (c.size + 4095) &^ 4095, Offset: c.offset, Protection: 5, Flags: 2, Filename: w.path})
	}
	return values
}

// sample returns the nth sample. Its instruction pointer and the addresses on its stack are in the code.
func (w written) sample(id perfdata.SampleID, n int, regs uint64) *perfdata.Sample {
	at := func(n int) uint64 {
		c := w.code[n%len(w.code)]
		return base + c.address + uint64(n)*2654435761%max(c.size, 1)
	}
	const stack = base + 1<<40
	values := make([]uint64, 24)
	for i := range values {
		values[i] = stack + uint64(i)*8
	}
	const sp, ip = 7, 8 // PERF_REG_X86_SP, PERF_REG_X86_IP
	values[sp], values[ip] = stack, at(n)
	s := &perfdata.Sample{SampleID: id, IP: at(n), Addr: at(n + 1), Period: 1000,
		Read:      perfdata.Readings{Format: perfdata.ReadTotalTimeEnabled | perfdata.ReadTotalTimeRunning | perfdata.ReadID | perfdata.ReadGroup | perfdata.ReadLost, Values: []perfdata.Reading{{Value: 1, ID: 7}, {Value: 2, ID: 8}}},
		Callchain: []uint64{perfdata.ContextKernel, 0xffffffffc0001008, perfdata.ContextUser, at(n)},
		Branches:  []perfdata.Branch{{From: at(n), To: at(n + 2), Flags: 1}}, BranchCounters: []uint64{1},
		UserRegs: perfdata.Registers{ABI: 2, Mask: regs, Values: values}, IntrRegs: perfdata.Registers{ABI: 2, Mask: 3, Values: []uint64{1, 2}},
		Raw: []byte("twelve bytes"), Aux: make([]byte, 8), Cgroup: 5, DataSource: 0x68100142, Weight: 5}
	if n%3 == 0 {
		s.Callchain = append(s.Callchain, at(n+3), at(n+4), at(n+5))
	}
	for i := range 64 {
		s.UserStack = binary.LittleEndian.AppendUint64(s.UserStack, at(n+i))
	}
	return s
}

// bigEndian returns a recording as perf record -o - writes it on a big-endian machine.
func bigEndian() []byte {
	order := binary.BigEndian
	b := order.AppendUint64([]byte(magicBig), 16)
	record := func(kind uint32, misc uint16, body ...any) {
		var data bytes.Buffer
		for _, v := range body {
			_ = binary.Write(&data, order, v) // writing to a Buffer cannot fail
		}
		b = order.AppendUint32(b, kind)
		b = order.AppendUint16(b, misc)
		b = order.AppendUint16(b, uint16(8+data.Len()))
		b = append(b, data.Bytes()...)
	}
	const sampleType = perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU | perfdata.SampleCallchain | perfdata.SampleRaw | perfdata.SampleBranchStack
	attr := make([]byte, 128)
	order.PutUint32(attr[4:], uint32(len(attr)))
	order.PutUint64(attr[16:], 1000)
	order.PutUint64(attr[24:], uint64(sampleType))
	order.PutUint64(attr[40:], 1<<(63-18)) // sample_id_all
	record(64, 0, attr, uint64(77))
	record(80, 0, uint64(perfdata.FeatureNRCPUs), [2]uint32{2, 2})
	trailer := func(time uint64) []any { return []any{[2]uint32{pid, pid}, time, [2]uint32{1, 0}} }
	with := func(body []any, more ...any) []any { return append(more, body...) }
	record(3, 0, with(trailer(1), [2]uint32{pid, pid}, []byte("mutant\x00\x00"))...)
	record(10, 2, with(trailer(2), [2]uint32{pid, pid}, [3]uint64{base, 1 << 20, 0}, [2]uint32{8, 1}, [2]uint64{99, 1}, [2]uint32{5, 2}, []byte("/bin/nothing\x00\x00\x00\x00"))...)
	record(17, 0, with(trailer(3), uint64(0xc000000000005000), uint32(4096), [2]uint16{1, 0}, []byte("bpf_prog"), uint64(0))...)
	record(18, 0, with(trailer(4), [2]uint16{1, 0}, uint32(9), uint64(0))...)
	for n := range uint64(32) {
		record(9, 2, base+n, [2]uint32{pid, pid}, 1000+n, [2]uint32{1, 0}, uint64(3), [3]uint64{perfdata.ContextUser, base + n, base + 2*n},
			uint32(4), uint32(n), uint64(1), [3]uint64{base + n, base + n + 1, 1 << 63})
	}
	return b
}

// file is a file in memory for a Writer.
type file struct {
	b  []byte
	at int64
}

func (f *file) Write(p []byte) (int, error) {
	if need := int(f.at) + len(p); need > len(f.b) {
		f.b = append(f.b, make([]byte, need-len(f.b))...)
	}
	copy(f.b[f.at:], p)
	f.at += int64(len(p))
	return len(p), nil
}

func (f *file) Seek(to int64, whence int) (int64, error) {
	f.at = to + map[int]int64{0: 0, 1: f.at, 2: int64(len(f.b))}[whence]
	return f.at, nil
}

package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/internal/record/host"
	"github.com/bperf/bperf/internal/record/snapshot"
	"github.com/bperf/bperf/perfdata"
)

// programs fetches the code and the BTF of each BPF program that is loaded.
type programs struct {
	loads  *bpfprog.Loads
	closed bool
	loaded atomic.Int64  // records of loads
	gone   atomic.Int64  // programs that were unloaded before they could be fetched
	lost   atomic.Uint64 // records of loads and unloads that found no room in the rings

	mu     sync.Mutex // guards the fields below; held long while a file is written
	infos  map[uint32]*linear.Info
	btfs   map[uint32]linear.BTF
	bytes  int      // size of infos and btfs
	failed []string // errors of programs that could not be fetched
	most   bool     // mostBytes was reached
}

// mostBytes limits the memory of the programs that are kept.
const mostBytes = 512 << 20

// watchPrograms starts to fetch programs.
func watchPrograms() (*programs, error) {
	p := &programs{infos: make(map[uint32]*linear.Info), btfs: make(map[uint32]linear.BTF)}
	var err error
	if p.loads, err = bpfprog.WatchLoads(p.read, func(records uint64) { p.lost.Add(records) }); err != nil {
		return nil, err
	}
	return p, nil
}

// join starts to watch a CPU that came online. p may be nil.
func (p *programs) join(cpu int) error {
	if p == nil || p.closed {
		return nil
	}
	return p.loads.Join(cpu)
}

// close stops fetching. It may be called again. p may be nil.
func (p *programs) close() {
	if p == nil || p.closed {
		return
	}
	p.closed = true
	if err := p.loads.Close(); err != nil {
		p.fail(err)
	}
}

// read keeps the info of a program that was loaded.
func (p *programs) read(h bpfprog.Handle, err error) {
	p.loaded.Add(1)
	if err == nil {
		_, _, err = p.keep(h)
	}
	if err != nil {
		p.fail(err)
	}
}

// fail records why a program could not be fetched.
func (p *programs) fail(err error) {
	if errors.Is(err, fs.ErrNotExist) {
		p.gone.Add(1)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.failed) < 10 {
		p.failed = append(p.failed, err.Error())
	}
}

// keep reads a program and its BTF.
func (p *programs) keep(h bpfprog.Handle) (*linear.Info, linear.BTF, error) {
	info, err := h.Info()
	if err != nil {
		return nil, linear.BTF{}, err
	}
	p.mu.Lock()
	types, known := p.btfs[info.BTF]
	p.mu.Unlock()
	if info.BTF != 0 && !known {
		if types, err = bpfprog.ReadBTF(info.BTF); err != nil {
			return nil, linear.BTF{}, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes > mostBytes {
		p.most = true
		return info, types, nil
	}
	if p.infos[info.ID] == nil {
		p.infos[info.ID] = info
		p.bytes += len(info.JITed) + 16*len(info.Lines) + 8*len(info.JITedLines)
	}
	if info.BTF != 0 && !known {
		p.btfs[info.BTF] = types
		p.bytes += len(types.Data)
	}
	return info, types, nil
}

// introduce emits the programs that are loaded, as the kernel does when it loads one. Programs that cannot be read are skipped.
func (p *programs) introduce(emit snapshot.Emit, verbose func(string)) error {
	ids, err := bpfprog.IDs()
	if err != nil {
		verbose(fmt.Sprintf("BPF programs that are loaded already are not recorded: %v", err))
		return nil
	}
	emitted, trampolines := 0, false
	specs := make(map[uint32]*btf.Spec) // programs of one object share their BTF
	for _, id := range ids {
		info, types, err := p.fetch(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was unloaded
		}
		if err != nil {
			verbose(fmt.Sprintf("BPF program %d is not recorded: %v", id, err))
			continue
		}
		trampolines = trampolines || snapshot.UsesTrampolines(info.Type)
		emitted++
		if info.BTF != 0 && specs[info.BTF] == nil {
			if specs[info.BTF], err = linear.LoadBTF(types.Data); err != nil {
				verbose(fmt.Sprintf("functions of BPF program %d have no names: BTF %d: %v", id, info.BTF, err))
			}
		}
		if err := snapshot.Program(info, specs[info.BTF], emit, verbose); err != nil {
			return err
		}
	}
	if len(ids) > 0 {
		verbose(fmt.Sprintf("%d of the %d BPF programs that were loaded are recorded", emitted, len(ids)))
	}
	if !trampolines {
		return nil
	}
	return snapshot.Trampolines("/proc", emit)
}

func (p *programs) fetch(id uint32) (*linear.Info, linear.BTF, error) {
	h, err := bpfprog.Open(id)
	if err != nil {
		return nil, linear.BTF{}, err
	}
	defer h.Close()
	return p.keep(h)
}

// features adds the fetched programs and BTF, and BTF of other objects. p may be nil.
func (p *programs) features(f host.Features, types []linear.BTF) {
	if p == nil {
		p = &programs{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.infos) > 0 {
		var all []*linear.Info
		for _, id := range slices.Sorted(maps.Keys(p.infos)) {
			all = append(all, p.infos[id])
		}
		f[perfdata.FeatureBPFProgInfo] = perfdata.Opaque(linear.AppendPrograms(nil, binary.LittleEndian, all))
	}
	var all []linear.BTF
	for _, id := range slices.Sorted(maps.Keys(p.btfs)) {
		all = append(all, p.btfs[id])
	}
	if all = append(all, types...); len(all) > 0 {
		f[perfdata.FeatureBPFBTF] = perfdata.Opaque(linear.AppendBTF(nil, binary.LittleEndian, all))
	}
}

// pipe writes the fetched programs to a pipe, with one feature per program, because a feature of a pipe has room for 64 KiB.
func (p *programs) pipe(set func(perfdata.FeatureID, perfdata.FeatureValue) error) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(p.infos)) {
		if err := set(perfdata.FeatureBPFProgInfo, perfdata.Opaque(linear.AppendPrograms(nil, binary.LittleEndian, []*linear.Info{p.infos[id]}))); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.btfs)) {
		if err := set(perfdata.FeatureBPFBTF, perfdata.Opaque(linear.AppendBTF(nil, binary.LittleEndian, []linear.BTF{p.btfs[id]}))); err != nil {
			return err
		}
	}
	return nil
}

// writeNames writes the programs that were fetched since the last call to a pipe, without their code, so that readers of the stream know
// which program a function belongs to. It then drops them: nobody asks for their code, and a session can see programs come for months.
func (p *programs) writeNames(set func(perfdata.FeatureID, perfdata.FeatureValue) error) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(p.infos)) {
		info := *p.infos[id]
		info.JITed, info.Lines, info.JITedLines = nil, nil, nil
		if err := set(perfdata.FeatureBPFProgInfo, perfdata.Opaque(linear.AppendPrograms(nil, binary.LittleEndian, []*linear.Info{&info}))); err != nil {
			return err
		}
	}
	clear(p.infos)
	clear(p.btfs)
	p.bytes = 0
	return nil
}

// report returns what became of the programs that were loaded during the recording.
func (p *programs) report() (s string, ok bool) {
	if p == nil {
		return "", false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	loaded, gone, lost := p.loaded.Load(), p.gone.Load(), p.lost.Load()
	s = fmt.Sprintf("%d BPF programs were loaded, and %d of them were gone before their code could be fetched", loaded, gone)
	if lost > 0 {
		s += fmt.Sprintf("; %d loads and unloads were not seen, as the ring buffer for them was full", lost)
	}
	if len(p.failed) > 0 {
		s += "; others could not be fetched: " + strings.Join(p.failed, "; ")
	}
	if p.most {
		s += fmt.Sprintf("; the code of some is not kept, as all of it takes more than %d MiB", mostBytes>>20)
	}
	return s, loaded > 0 || lost > 0
}

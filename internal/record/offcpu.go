package record

import (
	"encoding/binary"
	"fmt"
	"os"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/offcpu"
	"github.com/bperf/bperf/internal/target"
	"github.com/bperf/bperf/perfdata"
)

// OffCPUName is perf's name for the event of off-CPU time.
const OffCPUName = "offcpu-time"

// offCPU turns off-CPU times into samples, whose period is the time in ns.
type offCPU struct {
	*offcpu.Switches
	recorder *offcpu.Recorder // nil with Sums
	byThread bool
	event    *opened // nil with Sums
	cgroups  bool    // samples have the cgroup
	buf      []byte
	marked   uint64 // time of the last mark, in the clock of the events
	finished bool
}

// offCPUEvent returns the event to whose rings the BPF programs write. The file lists it like the event that perf writes.
func (p *plan) offCPUEvent() *opened {
	o := &opened{kind: offCPUSamples, event: &event.Event{Name: OffCPUName, PMU: "software", Scale: 1}}
	o.leader = o
	a := &o.attr
	a.Type, a.Config = perfdata.TypeSoftware, perfdata.SoftwareBPFOutput
	a.SamplePeriod = 1
	a.SampleType = perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU | perfdata.SamplePeriod |
		perfdata.SampleRaw
	a.ReadFormat = perfdata.ReadID | perfdata.ReadLost
	a.Flags = perfdata.AttrSampleIDAll
	if p.cfg.Cgroups {
		a.SampleType |= perfdata.SampleCgroup
	}
	p.common(a)
	return o
}

// openOffCPU loads the BPF programs that measure off-CPU time, and opens the event on all CPUs.
func (s *sources) openOffCPU() error {
	if s.cfg.OffCPU == nil && (s.cfg.Sums == nil || s.cfg.Sums.OffCPU == nil) {
		return nil
	}
	selection := offcpu.Selection{ByThread: len(s.target.Threads) > 0, Inherit: s.cfg.Inherit && !s.cfg.PerThread}
	if s.cfg.Target.CPUs != nil && !selection.ByThread {
		selection.CPUs = s.target.CPUs
	}
	for _, c := range s.target.Cgroups {
		dir, err := os.Open(c.Path)
		if err != nil {
			return fmt.Errorf("measure off-CPU time of a cgroup: %w", err)
		}
		defer dir.Close()
		selection.Cgroups = append(selection.Cgroups, dir)
	}
	s.offCPU = &offCPU{byThread: selection.ByThread, event: s.offCPUOpened(), cgroups: s.cfg.Cgroups}
	if err := s.offCPU.open(s.cfg, &selection); err != nil {
		return err
	}
	if err := s.openOffCPUEvent(); err != nil {
		return err
	}
	return s.offCPU.follow(s.target.Threads)
}

// open loads and attaches the programs.
func (f *offCPU) open(cfg *Config, selection *offcpu.Selection) (err error) {
	if cfg.Sums != nil {
		f.Switches, err = cfg.Sums.OffCPU(selection)
		return err
	}
	f.recorder, err = offcpu.Open(offcpu.Options{Selection: *selection, Threshold: *cfg.OffCPU, NoKernel: cfg.AllUser, NoUser: cfg.AllKernel})
	if err == nil {
		f.Switches = f.recorder.Switches
	}
	return err
}

// openOffCPUEvent opens the event, if there is one, on all CPUs.
func (s *sources) openOffCPUEvent() error {
	o := s.offCPU.event
	if o == nil {
		return nil
	}
	output := func(int, int) error { return nil }
	if s.offCPU.recorder != nil {
		output = s.offCPU.recorder.Output
	}
	return s.openOutput(o, output)
}

// follow adds threads to measure. f may be nil.
func (f *offCPU) follow(threads []target.Thread) error {
	if f == nil || !f.byThread {
		return nil
	}
	for _, t := range threads {
		if err := f.Add(t.TID); err != nil {
			return err
		}
	}
	return nil
}

// enable starts or stops measuring. f may be nil.
func (f *offCPU) enable(on bool) error {
	if f == nil || f.finished {
		return nil
	}
	return f.Enable(on)
}

// close stops measuring and frees the programs. f may be nil.
func (f *offCPU) close() {
	switch {
	case f == nil:
	case f.recorder != nil:
		f.recorder.Close()
	default:
		f.Close()
	}
}

// keep writes records of a ring: records of BPF programs as samples, others unchanged.
func (f *offCPU) keep(w *writer, first, rest []byte) error {
	records := append(append([]byte(nil), first...), rest...)
	for len(records) > 0 {
		if len(records) < headerSize {
			return fmt.Errorf("a ring buffer ends with %d bytes, which are no record", len(records))
		}
		size := int(binary.NativeEndian.Uint16(records[6:]))
		if size < headerSize || size > len(records) {
			return fmt.Errorf("a record in a ring buffer says it has %d bytes, and %d are there", size, len(records))
		}
		if err := f.keepOne(w, records[:size]); err != nil {
			return err
		}
		records = records[size:]
	}
	return nil
}

func (f *offCPU) keepOne(w *writer, record []byte) error {
	ne := binary.NativeEndian
	if perfdata.RecordType(ne.Uint32(record)) != perfdata.RecordSample {
		return w.keep(record, nil)
	}
	const timeAt, rawAt = headerSize + 24, headerSize + 48 // after identifier, IP and IDs; after these, time, CPU and period
	if len(record) < rawAt+4 {
		return fmt.Errorf("a sample of %s has %d bytes", OffCPUName, len(record))
	}
	time := ne.Uint64(record[timeAt:])
	raw := record[rawAt+4:]
	b, mark, err := f.recorder.Decode(raw[:min(len(raw), int(ne.Uint32(record[rawAt:])))])
	if err != nil {
		return err
	}
	if mark {
		f.marked = time
		return nil
	}
	return f.write(w, &b, time)
}

// write writes a sample with the attributes that plan.described gives the event.
func (f *offCPU) write(w *writer, b *offcpu.Blocked, time uint64) error {
	ne := binary.NativeEndian
	ip, misc := uint64(0), perfdata.MiscUser
	if k, u := b.Stack.Kernel, b.Stack.User; len(k) > 0 {
		ip, misc = k[0], perfdata.MiscKernel
	} else if len(u) > 0 {
		ip = u[0]
	}
	chain := perfdata.AppendCallchain(nil, b.Stack.Kernel, b.Stack.User)
	r := append(f.buf[:0], make([]byte, headerSize)...)
	for _, v := range []uint64{f.event.ids[0], ip} {
		r = ne.AppendUint64(r, v)
	}
	r = ne.AppendUint32(ne.AppendUint32(r, b.PID), b.TID)
	r = ne.AppendUint64(r, time)
	r = ne.AppendUint32(ne.AppendUint32(r, b.CPU), 0)
	r = ne.AppendUint64(ne.AppendUint64(r, uint64(b.Time)), uint64(len(chain)))
	for _, v := range chain {
		r = ne.AppendUint64(r, v)
	}
	if f.cgroups {
		r = ne.AppendUint64(r, b.Cgroup)
	}
	ne.PutUint32(r, uint32(perfdata.RecordSample))
	ne.PutUint16(r[4:], uint16(misc))
	ne.PutUint16(r[6:], uint16(len(r)))
	f.buf = r
	return w.keep(r, nil)
}

func (p *plan) offCPUOpened() *opened {
	for _, o := range p.events {
		if o.kind == offCPUSamples {
			return o
		}
	}
	return nil
}

// writeOffCPU writes the sums so far, with the current time. At the end it also writes the times of threads that are still blocked.
func (c *collector) writeOffCPU(end bool) error {
	f := c.offCPU
	if f == nil || f.recorder == nil {
		return nil
	}
	var blocked []offcpu.Blocked
	if end {
		f.finished = true
		still, err := f.recorder.Finish()
		if err != nil {
			return err
		}
		blocked = still
	}
	if err := f.recorder.Mark(); err != nil {
		return err
	}
	if err := c.drain(); err != nil {
		return err
	}
	sums, err := f.recorder.Sums()
	if err != nil {
		return err
	}
	for _, b := range append(blocked, sums...) {
		if err := f.write(&c.writer, &b, f.marked); err != nil {
			return err
		}
	}
	if !end {
		return nil
	}
	lost, err := f.recorder.Lost()
	if text := lost.String(); err == nil && text != "" {
		c.cfg.Notify("Off-CPU time: " + text)
	}
	return err
}

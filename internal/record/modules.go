package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/record/snapshot"
	"github.com/bperf/bperf/perfdata"
)

// moduleWatcher reports the modules that the kernel loads and unloads (bpf/modules.bpf.c), because the kernel writes no records for them.
type moduleWatcher struct {
	files   map[string]string // files of modules by name; nil until a module is loaded
	objects *ebpf.Collection
	links   []link.Link
	cpus    []moduleEvents
}

// moduleEvents is the event of one CPU that BPF programs write to.
type moduleEvents struct {
	event *perfevent.Event
	ring  *perfevent.Ring
}

// watchModules starts to watch. Times are of the clock of attr.
func watchModules(attr *perfdata.Attr) (*moduleWatcher, error) {
	w := &moduleWatcher{}
	if err := w.open(attr); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *moduleWatcher) open(attr *perfdata.Attr) error {
	if err := w.load(); err != nil {
		return fmt.Errorf("load the BPF programs for it: %w", err)
	}
	online, err := procfs.OnlineCPUs()
	if err != nil {
		return err
	}
	for _, cpu := range online {
		if err := w.openCPU(cpu, attr); err != nil {
			return fmt.Errorf("open an event on CPU %d: %w", cpu, err)
		}
	}
	for tracepoint, program := range map[string]string{"module_load": modulesProgOnLoad, "module_free": modulesProgOnFree} {
		l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: tracepoint, Program: w.objects.Programs[program]})
		if err != nil {
			return fmt.Errorf("attach to the tracepoint %s: %w", tracepoint, err)
		}
		w.links = append(w.links, l)
	}
	return nil
}

func (w *moduleWatcher) load() error {
	spec, err := loadModules()
	if err != nil {
		return err
	}
	if err := kernel.PrepareReads(spec.Programs); err != nil {
		return err
	}
	types, err := kernel.TypesOf(spec.Types)
	if err != nil {
		return err
	}
	w.objects, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{KernelTypes: types}})
	return err
}

func (w *moduleWatcher) openCPU(cpu int, clock *perfdata.Attr) error {
	attr := perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwareBPFOutput, SamplePeriod: 1, WakeupEvents: 1,
		SampleType: perfdata.SampleTime | perfdata.SampleRaw, Flags: clock.Flags & perfdata.AttrUseClockID, ClockID: clock.ClockID}
	event, err := perfevent.Open(&attr, perfevent.Where{Thread: perfevent.AnyThread, CPU: cpu})
	if err != nil {
		return err
	}
	ring, err := event.Map(0) // a page, which has room for 39 changes
	if err != nil {
		event.Close()
		return err
	}
	w.cpus = append(w.cpus, moduleEvents{event, ring})
	return w.objects.Maps[modulesMapOutputs].Put(uint32(cpu), uint32(event.FD()))
}

// close stops watching. w may be nil.
func (w *moduleWatcher) close() {
	if w == nil {
		return
	}
	for _, l := range w.links {
		l.Close()
	}
	for _, c := range w.cpus {
		c.ring.Close()
		c.event.Close()
	}
	if w.objects != nil {
		w.objects.Close()
	}
	*w = moduleWatcher{}
}

// wake adds the rings to a waiter, which then returns when there is a change. w may be nil.
func (w *moduleWatcher) wake(waiter *perfevent.Waiter) error {
	if w == nil {
		return nil
	}
	for _, c := range w.cpus {
		if err := waiter.Add(c.event); err != nil {
			return err
		}
	}
	return nil
}

// moduleChange is struct module_change from bpf/modules.bpf.c, with the time.
type moduleChange struct {
	time     uint64 // ns of the events' clock
	module   procfs.Module
	unloaded bool
}

// changes calls f for each change since the last call, in the order of time per CPU. w may be nil.
func (w *moduleWatcher) changes(f func(moduleChange) error) error {
	if w == nil {
		return nil
	}
	for _, c := range w.cpus {
		for {
			record, more, err := c.ring.Next()
			if err != nil {
				return fmt.Errorf("read which modules were loaded: %w", err)
			}
			if !more {
				break
			}
			if record.Type != perfevent.RecordSample {
				continue // a record of lost changes, which the programs count too
			}
			change, err := decodeModuleChange(record.Body)
			if err != nil {
				return err
			}
			if err := f(change); err != nil {
				return err
			}
		}
	}
	return nil
}

// decodeModuleChange decodes a sample: its time, the size of the raw data in 32 bits, and the raw data.
func decodeModuleChange(body []byte) (c moduleChange, err error) {
	const timeSize, rawSize = 8, 4 + 16 + 56
	if len(body) < timeSize+rawSize {
		return c, fmt.Errorf("a record of a module has %d bytes, not %d or more", len(body), timeSize+rawSize)
	}
	ne := binary.NativeEndian
	c.time = ne.Uint64(body)
	raw := body[timeSize+4:]
	name, _, _ := bytes.Cut(raw[16:72], []byte{0})
	c.module = procfs.Module{Name: string(name), Start: ne.Uint64(raw), Size: uint64(ne.Uint32(raw[8:]))}
	c.unloaded = ne.Uint32(raw[12:]) != 0
	return c, nil
}

// lost returns how many changes were not reported. w may be nil.
func (w *moduleWatcher) lost() (n uint64, err error) {
	if w == nil || w.objects == nil {
		return 0, nil
	}
	err = w.objects.Variables[modulesVarLost].Get(&n)
	return n, err
}

// write writes records of the modules that were loaded and unloaded. A loaded module gets a record of its mapping, with its build ID. An unloaded one
// gets the record with which the kernel removes other code, because there is no record that removes a mapping. w may be nil.
func (w *moduleWatcher) write(to *writer, builds *buildIDs, release string) error {
	return w.changes(func(c moduleChange) error {
		m := &c.module
		if m.Start == 0 || m.Size == 0 {
			return nil
		}
		id := perfdata.SampleID{Time: c.time}
		if c.unloaded {
			return to.emit(perfdata.MiscKernel, &perfdata.KSymbol{SampleID: id, Addr: m.Start, Size: uint32(m.Size), Flags: perfdata.KSymbolUnregister,
				Name: "[" + m.Name + "]"})
		}
		if w.files == nil {
			w.files = snapshot.ModuleFiles("/lib/modules/" + release)
		}
		file := snapshot.ModuleFile(m.Name, w.files)
		buildID, _, _ := builds.read(mapped{file, -1}) // empty if the module was unloaded already
		return to.emit(perfdata.MiscKernel, &perfdata.Mmap2{SampleID: id, PID: -1, Start: m.Start, Length: m.Size, BuildID: buildID,
			Protection: syscall.PROT_READ | syscall.PROT_EXEC, Flags: syscall.MAP_PRIVATE, Filename: file})
	})
}

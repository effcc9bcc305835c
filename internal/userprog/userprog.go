// Package userprog loads the user's BPF programs that run on samples. A program comes from an object file made by clang (CO-RE, BTF, global
// variables, maps in .maps), or is loaded already.
//
// A perf event takes only one BPF program. So a user's program of type perf_event becomes a function of bperf's own program, which calls the
// function with its context and counts the results: 0 drops the sample. bperf attaches the other programs of the object as their sections say,
// so that they can collect data for the program on samples.
//
// The package needs Linux 5.15, and root or CAP_BPF and CAP_PERFMON.
package userprog

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/filter"
	"github.com/bperf/bperf/internal/printable"
)

// Programs are the user's programs of a session. An object file is loaded once, even if its programs run on several events. Programs are not
// safe for concurrent use.
type Programs struct {
	objects []*object
	chosen  map[string]chosen
	verbose bool
	loaded  []*ebpf.Program // opened by Loaded
}

// chosen is a program of an object, or a program that is loaded already.
type chosen struct {
	object *object // nil for a loaded program
	name   string
	source Source
}

// Read reads the object files of sources and sets their global variables. It loads nothing into the kernel. A source is FILE.o[:NAME],
// pinned:PATH or id:N. With verbose, later errors contain the verifier's whole log.
func Read(sources []string, assignments []Assignment, verbose bool) (*Programs, error) {
	p := &Programs{chosen: make(map[string]chosen), verbose: verbose}
	for _, s := range sources {
		source, err := parseSource(s)
		if err != nil {
			return nil, err
		}
		c := chosen{source: source}
		if source.File != "" {
			if c.object, err = p.object(source.File); err != nil {
				return nil, err
			}
			if c.name, err = c.object.choose(source.Name); err != nil {
				return nil, err
			}
		}
		p.chosen[s] = c
	}
	for _, a := range assignments {
		if err := p.set(a); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// object returns the object of a file. It reads each file once.
func (p *Programs) object(file string) (*object, error) {
	for _, o := range p.objects {
		if o.file == file {
			return o, nil
		}
	}
	o, err := readObject(file)
	if err == nil {
		p.objects = append(p.objects, o)
	}
	return o, err
}

// set sets a variable in all objects that have it. It is an error if none has it.
func (p *Programs) set(a Assignment) error {
	there := false
	var names []string
	for _, o := range p.objects {
		found, err := set(o.spec, a)
		if err != nil {
			return fmt.Errorf("%s: %w", o.file, err)
		}
		there = there || found
		names = append(names, variables(o.spec)...)
	}
	switch {
	case there:
		return nil
	case len(names) == 0:
		return fmt.Errorf("there is no global variable %s: the objects have none", a.Name)
	}
	return fmt.Errorf("there is no global variable %s. There are %s", a.Name, printable.Text(strings.Join(names, ", ")))
}

// Load creates the maps of all objects, and loads and attaches the programs that do not run on samples. p may be nil.
func (p *Programs) Load() error {
	if p == nil {
		return nil
	}
	for _, o := range p.objects {
		if err := o.load(p.verbose); err != nil {
			return err
		}
	}
	for _, o := range p.objects {
		if err := o.attach(); err != nil {
			return err
		}
	}
	return nil
}

// OnSamples reports whether a source has a program that runs on samples. If not, its programs are only attached as their sections say.
func (p *Programs) OnSamples(source string) bool {
	c := p.chosen[source]
	return c.object == nil || c.name != ""
}

// Function returns the program of a source as a function for package filter. It returns nil if the program is loaded already. Load must come
// first.
func (p *Programs) Function(source string) (*filter.Function, error) {
	c := p.chosen[source]
	if c.object == nil {
		return nil, nil
	}
	code, err := c.object.function(c.name)
	if err != nil {
		return nil, err
	}
	return &filter.Function{Instructions: code, License: c.object.onSamples[c.name].License}, nil
}

// Outputs returns the names of the maps of type PERF_EVENT_ARRAY, through which programs write to user space. p may be nil.
func (p *Programs) Outputs() []string { return p.mapsOf(ebpf.PerfEventArray) }

// RingBuffers returns the names of the maps of type RINGBUF, through which programs write to user space. p may be nil.
func (p *Programs) RingBuffers() []string { return p.mapsOf(ebpf.RingBuf) }

// mapsOf returns the names of the maps of type t that running programs use.
func (p *Programs) mapsOf(t ebpf.MapType) []string {
	if p == nil {
		return nil
	}
	var names []string
	for _, o := range p.objects {
		names = append(names, o.mapsOf(t)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// OutputTypes returns the section .BTF of each object whose programs write to user space. p may be nil.
func (p *Programs) OutputTypes() [][]byte {
	if p == nil {
		return nil
	}
	var all [][]byte
	for _, o := range p.objects {
		if len(o.types) > 0 && (len(o.mapsOf(ebpf.PerfEventArray)) > 0 || len(o.mapsOf(ebpf.RingBuf)) > 0) {
			all = append(all, o.types)
		}
	}
	return all
}

// Connect sends the data that programs write to an output on a CPU to a software event bpf-output. fd is the descriptor of the event, which
// must be open on that CPU. Load must come first.
func (p *Programs) Connect(output string, cpu, fd int) error {
	for _, o := range p.objects {
		m := o.loaded.Maps[output]
		if m == nil || m.Type() != ebpf.PerfEventArray {
			continue
		}
		if err := m.Put(uint32(cpu), uint32(fd)); err != nil {
			return fmt.Errorf("put an event into the map %s of %s for CPU %d: %w", printable.Text(output), o.file, cpu, err)
		}
	}
	return nil
}

// Loaded returns the descriptor of a source that is a loaded program, for which Function returns nil. It is valid until Close.
func (p *Programs) Loaded(source string) (fd int, err error) {
	c := p.chosen[source].source
	var program *ebpf.Program
	if c.Pinned != "" {
		program, err = ebpf.LoadPinnedProgram(c.Pinned, nil)
	} else {
		program, err = ebpf.NewProgramFromID(ebpf.ProgramID(c.ID))
	}
	if err != nil {
		return 0, fmt.Errorf("open the BPF program %v: %w", c, err)
	}
	p.loaded = append(p.loaded, program)
	if program.Type() != ebpf.PerfEvent {
		return 0, fmt.Errorf("the BPF program %v is of type %v: only those of type perf_event run on samples", c, program.Type())
	}
	return program.FD(), nil
}

// Explain adds the verifier's log to an error of loading a program with a user's function. p may be nil.
func (p *Programs) Explain(err error) error {
	var refused *ebpf.VerifierError
	if p == nil || !errors.As(err, &refused) {
		return err
	}
	return explain(err, p.verbose)
}

// Detach detaches the programs that do not run on samples, so that their maps no longer change. p may be nil.
func (p *Programs) Detach() {
	if p == nil {
		return
	}
	for _, o := range p.objects {
		o.detach()
	}
}

// Close detaches and unloads all programs. p may be nil.
func (p *Programs) Close() {
	if p == nil {
		return
	}
	for _, o := range p.objects {
		o.detach()
		o.close()
	}
	for _, l := range p.loaded {
		l.Close()
	}
}

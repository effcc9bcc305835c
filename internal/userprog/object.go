package userprog

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/printable"
)

// object is an object file, and what of it is in the kernel.
type object struct {
	file      string
	spec      *ebpf.CollectionSpec
	types     []byte                       // its section .BTF
	onSamples map[string]*ebpf.ProgramSpec // programs that become functions, and are not loaded for themselves
	loaded    *ebpf.Collection             // nil before load
	links     []io.Closer
}

// mostBytes is the largest object file that is read.
const mostBytes = 64 << 20

// readObject reads an object file.
func readObject(file string) (*object, error) {
	info, err := os.Stat(file) // a pipe would block
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > mostBytes {
		return nil, fmt.Errorf("%s is no object file: it is not a regular file of at most %d MiB", file, mostBytes>>20)
	}
	spec, err := ebpf.LoadCollectionSpec(file)
	if err != nil {
		return nil, fmt.Errorf("read the BPF object %s: %s. Make it with clang -O2 -g -target bpf", file, printable.Text(err.Error()))
	}
	types, err := typesOf(file)
	if err != nil {
		return nil, fmt.Errorf("read the BPF object %s: %s", file, printable.Text(err.Error()))
	}
	for _, m := range spec.Maps {
		withoutValueType(m)
	}
	o := &object{file: file, spec: spec, types: types, onSamples: make(map[string]*ebpf.ProgramSpec)}
	var refused []string
	for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
		if reason := refusal(spec.Programs[name]); reason != "" {
			refused = append(refused, fmt.Sprintf("%s (section %q) %s", name, spec.Programs[name].SectionName, reason))
		}
	}
	if len(refused) > 0 {
		return nil, fmt.Errorf("%s: bperf cannot attach %s", file, printable.Text(strings.Join(refused, "; ")))
	}
	return o, nil
}

// refusal says why a program cannot be attached; empty for one that can.
func refusal(p *ebpf.ProgramSpec) string {
	switch p.Type {
	case ebpf.PerfEvent:
		return ""
	case ebpf.TracePoint, ebpf.RawTracepoint, ebpf.RawTracepointWritable:
	case ebpf.Kprobe:
		kind := sectionKind(p)
		if !slices.Contains([]string{"kprobe", "kretprobe", "uprobe", "uretprobe"}, kind) {
			return "is in a section of no kind that bperf attaches"
		}
		if strings.HasPrefix(kind, "u") && !strings.Contains(p.AttachTo, ":") {
			return "does not say where: its section is " + kind + "/PATH:SYMBOL"
		}
	case ebpf.Tracing:
		if p.AttachType != ebpf.AttachTraceRawTp && p.AttachType != ebpf.AttachTraceFEntry && p.AttachType != ebpf.AttachTraceFExit {
			return "is neither tp_btf nor fentry nor fexit"
		}
	case ebpf.UnspecifiedProgram:
		return "is of no type that bperf knows"
	default:
		return fmt.Sprintf("is of type %v: it is not for tracing", p.Type)
	}
	if p.AttachTo == "" {
		return "does not say where: its section has to name that"
	}
	return ""
}

// sectionKind is the section of a program up to the slash, such as "uprobe", without the suffix of programs that may sleep.
func sectionKind(p *ebpf.ProgramSpec) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(p.SectionName, "?"), "/")
	return strings.TrimSuffix(kind, ".s")
}

// choose makes the program with a name one on samples. Without a name it is the only one of type perf_event. It returns the program's name, which is empty
// if there is none of that type.
func (o *object) choose(name string) (string, error) {
	var all []string
	for _, n := range slices.Sorted(maps.Keys(o.spec.Programs)) {
		if o.spec.Programs[n].Type == ebpf.PerfEvent {
			all = append(all, n)
		}
	}
	list := printable.Text(strings.Join(all, ", "))
	switch {
	case len(all) == 0 && name == "" && len(o.spec.Programs) > 0:
		return "", nil
	case len(all) == 0:
		return "", fmt.Errorf("%s has no program of type perf_event: write SEC(\"perf_event\") above the one that runs on samples", o.file)
	case name == "" && len(all) > 1:
		return "", fmt.Errorf("%s has %d programs of type perf_event: %s. Say which, as %s:NAME", o.file, len(all), list, o.file)
	case name == "":
		name = all[0]
	case !slices.Contains(all, name):
		return "", fmt.Errorf("%s has no program of type perf_event with the name %s. It has %s", o.file, name, list)
	}
	o.onSamples[name] = o.spec.Programs[name]
	return name, nil
}

// load brings the maps into the kernel, and all programs but those on samples.
func (o *object) load(verbose bool) (err error) {
	spec := o.spec.Copy()
	maps.DeleteFunc(spec.Programs, func(name string, p *ebpf.ProgramSpec) bool { return p.Type == ebpf.PerfEvent && !o.calledByTail(name) })
	o.loaded, err = ebpf.NewCollection(spec)
	if err != nil {
		return fmt.Errorf("load %s: %w", o.file, o.notLoaded(err, verbose))
	}
	return nil
}

// notLoaded says why the kernel has not taken a program or map.
func (o *object) notLoaded(err error, verbose bool) error {
	what, _, _ := strings.Cut(err.Error(), ":") // the library begins with "program NAME" or "map NAME"
	p := o.spec.Programs[strings.TrimPrefix(what, "program ")]
	if p != nil {
		what += fmt.Sprintf(" (section %q)", p.SectionName)
	}
	what = printable.Text(what)
	switch {
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%s: %w. %s; \"bperf doctor\" shows which kinds of programs the kernel allows", what, syscall.EPERM, kernel.Remedy("Run as root"))
	case p != nil && p.Type == ebpf.Tracing && errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("%s: this kernel has no function or tracepoint with that name in its BTF", what)
	}
	return explain(err, verbose)
}

// used are the names of the maps that the programs which run use.
func (o *object) used() map[string]bool {
	names := make(map[string]bool)
	for name, p := range o.spec.Programs {
		if p.Type == ebpf.PerfEvent && o.onSamples[name] == nil && !o.calledByTail(name) {
			continue
		}
		for _, in := range p.Instructions {
			if in.IsLoadFromMap() {
				names[in.Reference()] = true
			}
		}
	}
	return names
}

// withoutValueType lets the kernel take a map that says of what type the events are that programs write through it.
func withoutValueType(m *ebpf.MapSpec) {
	switch m.Type {
	case ebpf.PerfEventArray:
		m.KeySize, m.ValueSize = 4, 4
	case ebpf.RingBuf:
		m.KeySize, m.ValueSize = 0, 0
	default:
		return
	}
	m.Key, m.Value = nil, nil
}

// mapsOf are the names of the maps of a type that programs which run use.
func (o *object) mapsOf(t ebpf.MapType) []string {
	var names []string
	for name := range o.used() {
		if m := o.spec.Maps[name]; m != nil && m.Type == t {
			names = append(names, name)
		}
	}
	return names
}

// typesOf returns the section .BTF of an object file; nil if it has none.
func typesOf(file string) ([]byte, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	section := f.Section(".BTF")
	if section == nil {
		return nil, nil
	}
	return section.Data()
}

// calledByTail reports whether a map of programs has the program from the start.
func (o *object) calledByTail(name string) bool {
	for _, m := range o.spec.Maps {
		for _, kv := range m.Contents {
			if kv.Value == name {
				return true
			}
		}
	}
	return false
}

// mark stands before the names of a user's functions, so that they differ from those of the program around them.
const mark = "user:"

// function returns a program as a function of another program of type perf_event, whose context is its only argument. It is followed by
// the functions that it calls. Its maps are in the kernel: load comes before.
func (o *object) function(name string) (asm.Instructions, error) {
	code := slices.Clone(o.onSamples[name].Instructions)
	for i := range code {
		in := &code[i]
		if symbol := in.Symbol(); symbol != "" {
			*in = in.WithSymbol(mark + symbol)
		}
		ref := in.Reference()
		switch {
		case ref == "":
		case in.IsFunctionReference():
			*in = in.WithReference(mark + ref)
		case in.IsLoadFromMap():
			m := o.loaded.Maps[ref]
			if m == nil {
				return nil, fmt.Errorf("%s: %s uses the map %s, which the object does not have", o.file, name, ref)
			}
			if err := in.AssociateMap(m); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", o.file, name, err)
			}
		}
	}
	if fn := btf.FuncMetadata(&code[0]); fn != nil { // the verifier looks at a static function as a part of its callers, with their context
		static := *fn
		static.Linkage = btf.StaticFunc
		code[0] = btf.WithFuncMetadata(code[0], &static)
	}
	return code, nil
}

// attach attaches the programs that are not on samples.
func (o *object) attach() error {
	for _, name := range slices.Sorted(maps.Keys(o.loaded.Programs)) {
		spec := o.spec.Programs[name]
		if spec.Type == ebpf.PerfEvent { // one that others call
			continue
		}
		l, err := attach(spec, o.loaded.Programs[name])
		if err != nil {
			return fmt.Errorf("%s: attach %s (section %q): %w", o.file, name, printable.Text(spec.SectionName), notAttached(spec, err))
		}
		o.links = append(o.links, l)
	}
	return nil
}

// notAttached says why there is nothing to which a program could be attached.
func notAttached(spec *ebpf.ProgramSpec, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch kind := sectionKind(spec); {
	case spec.Type == ebpf.RawTracepoint || spec.Type == ebpf.RawTracepointWritable:
		return errors.New("this kernel has no such tracepoint")
	case spec.Type == ebpf.TracePoint:
		return errors.New("this kernel has no such tracepoint, or tracefs is not mounted (mount -t tracefs tracefs /sys/kernel/tracing)")
	case kind == "kprobe" || kind == "kretprobe":
		return errors.New("this kernel has no such function, or no kprobes (\"bperf doctor\" shows that)")
	}
	return err
}

// attach attaches a program as its section says.
func attach(spec *ebpf.ProgramSpec, p *ebpf.Program) (io.Closer, error) {
	switch spec.Type {
	case ebpf.TracePoint:
		system, name, _ := strings.Cut(spec.AttachTo, "/")
		return link.Tracepoint(system, name, p, nil)
	case ebpf.RawTracepoint, ebpf.RawTracepointWritable:
		return link.AttachRawTracepoint(link.RawTracepointOptions{Name: spec.AttachTo, Program: p})
	case ebpf.Tracing:
		return link.AttachTracing(link.TracingOptions{Program: p})
	}
	kind := sectionKind(spec)
	switch kind {
	case "kprobe":
		return link.Kprobe(spec.AttachTo, p, nil)
	case "kretprobe":
		return link.Kretprobe(spec.AttachTo, p, nil)
	}
	name, symbol, _ := strings.Cut(spec.AttachTo, ":")
	path, err := findExecutable(name)
	if err != nil {
		return nil, err
	}
	file, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	if kind == "uretprobe" {
		return file.Uretprobe(symbol, p, nil)
	}
	return file.Uprobe(symbol, p, nil)
}

// libraryDirs are where libraries are looked for after $LD_LIBRARY_PATH.
var libraryDirs = []string{"/usr/lib64", "/usr/lib/" + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + "-linux-gnu", "/usr/lib"}

// findExecutable returns the path of the file that a section names. As with libbpf, a name without a slash is looked for in $PATH, or if it is that of a library,
// where libraries are.
func findExecutable(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	if !strings.HasSuffix(name, ".so") && !strings.Contains(name, ".so.") {
		return exec.LookPath(name)
	}
	for _, dir := range append(filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")), libraryDirs...) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("the library %s is not in $LD_LIBRARY_PATH, %s", printable.Text(name), strings.Join(libraryDirs, ", "))
}

// detach detaches all.
func (o *object) detach() {
	for _, l := range o.links {
		l.Close()
	}
	o.links = nil
}

// close unloads all.
func (o *object) close() {
	if o.loaded != nil {
		o.loaded.Close()
	}
}

// explain adds what the verifier said.
func explain(err error, verbose bool) error {
	var refused *ebpf.VerifierError
	if !errors.As(err, &refused) {
		return err
	}
	const last = 8 // lines of a long log, which say what is wrong
	lines := refused.Log
	hint := ""
	if !verbose && len(lines) > last {
		lines, hint = lines[len(lines)-last:], fmt.Sprintf("\n(%d more lines with -v)", len(refused.Log)-last)
	}
	var text strings.Builder
	for _, line := range lines {
		text.WriteString("\n    " + printable.Text(line))
	}
	return fmt.Errorf("the kernel refuses it: %w:%s%s", refused.Cause, &text, hint)
}

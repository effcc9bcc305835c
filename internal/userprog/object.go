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

// object is an object file, with its loaded programs and maps.
type object struct {
	file      string
	spec      *ebpf.CollectionSpec
	types     []byte                       // section .BTF
	onSamples map[string]*ebpf.ProgramSpec // programs that become functions and are not loaded separately
	loaded    *ebpf.Collection             // nil before load
	links     []io.Closer
}

// mostBytes is the size of the largest object file that bperf reads.
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

// refusal returns the reason why bperf cannot attach a program, or "" if it can.
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

// sectionKind returns the part of a program's section before the slash, such as "uprobe", without the suffix ".s" of sleepable programs.
func sectionKind(p *ebpf.ProgramSpec) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(p.SectionName, "?"), "/")
	return strings.TrimSuffix(kind, ".s")
}

// choose marks a program of type perf_event to run on samples, and returns its name. If name is empty, it chooses the only one. It returns ""
// if name is empty and the object has no program of that type.
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

// load creates the maps and loads the programs, apart from those that run on samples.
func (o *object) load(verbose bool) (err error) {
	spec := o.spec.Copy()
	maps.DeleteFunc(spec.Programs, func(name string, p *ebpf.ProgramSpec) bool { return p.Type == ebpf.PerfEvent && !o.calledByTail(name) })
	o.loaded, err = ebpf.NewCollection(spec)
	if err != nil {
		return fmt.Errorf("load %s: %w", o.file, o.notLoaded(err, verbose))
	}
	return nil
}

// notLoaded explains why the kernel has refused a program or map.
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

// used returns the names of the maps that running programs use.
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

// withoutValueType removes the key and value types of an output map. An object may declare the type of the output there, but the
// kernel refuses it.
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

// mapsOf returns the names of the maps of type t that running programs use.
func (o *object) mapsOf(t ebpf.MapType) []string {
	var names []string
	for name := range o.used() {
		if m := o.spec.Maps[name]; m != nil && m.Type == t {
			names = append(names, name)
		}
	}
	return names
}

// typesOf returns the section .BTF of an object file, or nil if it has none.
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

// calledByTail reports whether the program is in the initial content of a map, for tail calls.
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

// mark is the prefix of the names of the user's functions. It keeps them distinct from bperf's own.
const mark = "user:"

// function returns a program as a function of another program of type perf_event. The function's only argument is the context. The functions
// that it calls follow it. load must come first, because the function refers to the loaded maps.
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
	if fn := btf.FuncMetadata(&code[0]); fn != nil { // the verifier checks a static function as a part of its callers, with their context
		static := *fn
		static.Linkage = btf.StaticFunc
		code[0] = btf.WithFuncMetadata(code[0], &static)
	}
	return code, nil
}

// attach attaches the programs that do not run on samples.
func (o *object) attach() error {
	for _, name := range slices.Sorted(maps.Keys(o.loaded.Programs)) {
		spec := o.spec.Programs[name]
		if spec.Type == ebpf.PerfEvent { // others tail-call it
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

// notAttached explains an error of attaching a program whose target does not exist.
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

// libraryDirs are the directories that are searched for libraries after $LD_LIBRARY_PATH.
var libraryDirs = []string{"/usr/lib64", "/usr/lib/" + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + "-linux-gnu", "/usr/lib"}

// findExecutable returns the path of the file that a section names. Like libbpf, it searches $PATH for a name without a slash, or the library
// directories if the name is a library's.
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

// detach detaches all programs.
func (o *object) detach() {
	for _, l := range o.links {
		l.Close()
	}
	o.links = nil
}

// close unloads all programs and maps.
func (o *object) close() {
	if o.loaded != nil {
		o.loaded.Close()
	}
}

// explain adds the verifier's log to an error: the whole log with verbose, else its last lines.
func explain(err error, verbose bool) error {
	var refused *ebpf.VerifierError
	if !errors.As(err, &refused) {
		return err
	}
	const last = 8 // the last lines of a long log show the reason
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

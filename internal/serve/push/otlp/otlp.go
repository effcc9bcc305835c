// Package otlp encodes profiles and metrics as OpenTelemetry's protocol has them: as ExportProfilesServiceRequest of opentelemetry-proto 1.9,
// package opentelemetry.proto.collector.profiles.v1development.
//
// Attributes of resources are written in place. The protocol has had references into the dictionary for them since 1.10, but the servers of
// today do not read those. Each sample has one value. All attributes are text, because Parca drops others.
package otlp

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
)

// Attribute is a property of what was profiled.
type Attribute struct{ Key, Value string }

// Request is a request that is being built. Profiles in it share the dictionary.
type Request struct {
	resources message

	mappings, locations, functions, links, strings, attributes, stacks *table
}

// New returns an empty request.
func New() *Request {
	var link message // without a trace and span: IDs of the right length, for decoders that want them
	link = link.message(1, make(message, 16)).message(2, make(message, 8))
	return &Request{
		mappings:   newTable(1, nil),
		locations:  newTable(2, nil),
		functions:  newTable(3, nil),
		links:      newTable(4, link),
		strings:    newTable(5, nil),
		attributes: newTable(6, nil),
		stacks:     newTable(7, nil),
	}
}

func (r *Request) tables() []*table {
	return []*table{r.mappings, r.locations, r.functions, r.links, r.strings, r.attributes, r.stacks}
}

// Size returns about the number of bytes that Bytes returns.
func (r *Request) Size() int {
	size := len(r.resources)
	for _, t := range r.tables() {
		size += len(t.out)
	}
	return size
}

// Bytes returns the request in the wire format.
func (r *Request) Bytes() []byte {
	var dictionary message
	for _, t := range r.tables() {
		dictionary = append(dictionary, t.out...)
	}
	out := make(message, 0, len(r.resources)+len(dictionary)+16)
	return append(out, r.resources...).message(2, dictionary)
}

// Add adds the samples of a window of time, as those of a resource. Each event with samples becomes a profile. Without samples, Add adds
// nothing.
func (r *Request) Add(resource []Attribute, p *profile.Profile, start time.Time, length time.Duration) {
	e := &encoder{Request: r, p: p, frames: make([]int32, len(p.Frames())),
		labels: map[profile.LabelsID][]int32{}, stackIDs: map[stackKey]int32{}}
	samples := make([]message, len(p.Events))
	for i := range p.Samples() {
		s := &p.Samples()[i]
		samples[s.Event] = samples[s.Event].message(2, e.sample(s))
	}
	profiles := message{}.message(1, scope)
	var found bool
	for i, event := range p.Events {
		if len(samples[i]) > 0 {
			found = true
			profiles = profiles.message(2, e.profile(event, samples[i], start, length))
		}
	}
	if !found {
		return
	}
	r.resources = r.resources.message(1, message{}.message(1, attributes(1, resource)).message(2, profiles))
}

// scope is the InstrumentationScope of all that bperf sends.
var scope = message{}.text(1, "bperf")

// attributes returns attributes as fields.
func attributes(field int, all []Attribute) (out message) {
	for _, a := range all {
		out = out.message(field, message{}.text(1, a.Key).message(2, anyValue(Label(a.Value))))
	}
	return out
}

// The longest texts that servers are sent, in bytes. Names of functions and files are those of others' programs. Labels must be
// shorter: Pyroscope refuses those above 2048 bytes.
const (
	textLimit  = 4096
	labelLimit = 1024
)

// Text returns a text of others as servers accept it: valid UTF-8 without control characters, of a bounded length.
func Text(s string) string { return printable.Short(s, textLimit) }

// Label is like Text for values of labels.
func Label(s string) string { return printable.Short(s, labelLimit) }

// SampleType returns the name and the unit of an event's values. Servers make parts of their query languages from the name, so that it has
// letters, digits and underscores only. It is "cpu" for CPU time and "off_cpu" for the time in which threads were blocked.
func SampleType(e profile.Event) (name, unit string) {
	switch {
	case e.IsCPUTime():
		return profile.CPUTime, "nanoseconds"
	case e.Name == offCPU:
		return "off_cpu", "nanoseconds"
	}
	name = strings.Map(func(c rune) rune {
		if '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			return c
		}
		return '_'
	}, Label(e.Name))
	if name = strings.Trim(name, "_"); name == "" || name[0] <= '9' {
		name = "event_" + name
	}
	return name, e.UnitName()
}

// offCPU is the event of blocked threads; its values are nanoseconds.
const offCPU = "offcpu-time"

// encoder encodes a profile into a request.
type encoder struct {
	*Request
	p        *profile.Profile
	frames   []int32 // by frame, its location if nothing is inlined there; 0 if that is not known yet
	labels   map[profile.LabelsID][]int32
	stackIDs map[stackKey]int32
}

// stackKey is the stack of a sample, or its only frame.
type stackKey struct {
	stack profile.StackID
	leaf  profile.FrameID
}

func (e *encoder) profile(event profile.Event, samples message, start time.Time, length time.Duration) message {
	name, unit := SampleType(event)
	valueType := message{}.index(1, e.string(name)).index(2, e.string(unit))
	var attributes []int32
	if losses := e.p.Losses.Notes(); len(losses) > 0 {
		attributes = []int32{e.attribute("bperf.losses", strings.Join(losses, "; "))}
	}
	out := append(message{}.message(1, valueType), samples...)
	return out.fixed(3, uint64(start.UnixNano())).number(4, uint64(max(0, length))).message(5, valueType).
		number(6, uint64(signed(max(1, event.MeanPeriod())))).indices(11, attributes)
}

// signed returns a value in the type that samples have.
func signed(v uint64) int64 { return int64(min(v, math.MaxInt64)) }

func (e *encoder) sample(s *profile.Sample) message {
	value := binary.AppendUvarint(nil, uint64(signed(s.Value))) // even if it is 0: a sample without a value would count as 1
	return message{}.index(1, e.stack(s)).indices(2, e.labelsOf(s.Labels)).message(4, value)
}

func (e *encoder) stack(s *profile.Sample) int32 {
	key := stackKey{stack: s.Stack}
	if s.Stack == 0 {
		key.leaf = s.Leaf
	}
	if known, is := e.stackIDs[key]; is {
		return known
	}
	var locations []int32
	for frames := range e.p.Instructions(s) {
		locations = append(locations, e.location(frames))
	}
	id := e.stacks.id(message{}.indices(1, locations))
	e.stackIDs[key] = id
	return id
}

// location returns the location of an instruction. frames are the functions inlined there and, last, the frame that contains them.
func (e *encoder) location(frames []profile.FrameID) int32 {
	alone := len(frames) == 1
	if alone && e.frames[frames[0]] != 0 {
		return e.frames[frames[0]]
	}
	var lines message
	for _, id := range frames {
		if f := e.p.Frames()[id]; f.Function != 0 {
			lines = lines.message(3, message{}.index(1, e.function(&f)).number(2, uint64(f.Line)))
		}
	}
	outer := e.p.Frames()[frames[len(frames)-1]]
	mapping, address := e.mapping(&outer, len(lines) > 0)
	out := append(message{}.index(1, mapping).number(2, address), lines...)
	id := e.locations.id(out.indices(4, e.frameAttributes(&outer)))
	if alone {
		e.frames[frames[0]] = id
	}
	return id
}

func (e *encoder) function(frame *profile.Frame) int32 {
	f := e.p.Functions.At(frame.Function)
	name, file := e.text(f.Name), e.text(cmp.Or(f.File, frame.File))
	return e.functions.id(message{}.index(1, name).index(2, e.text(cmp.Or(f.Linkage, f.Name))).index(3, file).number(4, uint64(f.StartLine)))
}

// mapping returns the mapping that contains a frame, and the frame's address in memory. Frames with and without symbols are never in the
// same mapping, because Pyroscope regards a mapping with one frame without symbols as one that has none.
func (e *encoder) mapping(f *profile.Frame, symbols bool) (id int32, address uint64) {
	at, address := e.p.Mapping(f)
	if f.Kind == profile.BPF {
		return e.mappingOf(at, "[bpf]", "", symbols), address
	}
	module := e.p.Modules.At(f.Module)
	path := e.p.Strings.At(module.Path)
	if path == "" && !symbols {
		path = "unknown"
	}
	return e.mappingOf(at, path, e.p.Strings.At(module.BuildID), symbols), address
}

func (e *encoder) mappingOf(at profile.Mapping, path, buildID string, symbols bool) int32 {
	var attributes []int32
	if buildID != "" {
		attributes = append(attributes, e.attribute("process.executable.build_id.gnu", buildID))
	}
	if !symbols {
		attributes = append(attributes, e.attribute("bperf.symbols", "none"))
	}
	return e.mappings.id(message{}.number(1, at.Start).number(2, at.End).number(3, at.Offset).index(4, e.string(path)).indices(5, attributes))
}

// frameAttributes returns the kind of a frame, and the BPF program that it is in. OpenTelemetry has no kind of frame for BPF programs.
func (e *encoder) frameAttributes(f *profile.Frame) (all []int32) {
	switch f.Kind {
	case profile.User, profile.GuestUser:
		all = append(all, e.attribute("profile.frame.type", "native"))
	case profile.Kernel, profile.BPF, profile.GuestKernel, profile.Hypervisor:
		all = append(all, e.attribute("profile.frame.type", "kernel"))
	}
	program := e.p.Programs.At(e.p.Functions.At(f.Function).Program)
	if program == (profile.Program{}) {
		return all
	}
	var id string
	if program.ID != 0 {
		id = strconv.FormatUint(uint64(program.ID), 10)
	}
	for _, a := range []Attribute{
		{"bpf.prog.name", e.p.Strings.At(program.Name)}, {"bpf.prog.tag", e.p.Strings.At(program.Tag)}, {"bpf.prog.id", id},
	} {
		if a.Value != "" {
			all = append(all, e.attribute(a.Key, a.Value))
		}
	}
	return all
}

// labelsOf returns the attributes of samples. They have OpenTelemetry's names where it has some.
func (e *encoder) labelsOf(id profile.LabelsID) []int32 {
	if known, is := e.labels[id]; is {
		return known
	}
	labels, keys := e.p.Labels()[id], e.p.Keys()
	var all []int32
	var names []string
	add := func(key, value string) {
		if value != "" && !slices.Contains(names, key) {
			names, all = append(names, key), append(all, e.attribute(key, value))
		}
	}
	number := func(key string, wanted profile.Keys, value int32) {
		if keys.Has(wanted) && value >= 0 {
			add(key, strconv.Itoa(int(value)))
		}
	}
	add("thread.name", e.p.Strings.At(labels.Comm))
	add("process.linux.cgroup", e.p.Strings.At(labels.Cgroup))
	number("process.pid", profile.PID, labels.PID)
	number("thread.id", profile.TID, labels.TID)
	number("cpu.logical_number", profile.CPU, labels.CPU)
	for id := labels.Tags; id != 0; id = e.p.Tags.At(id).Next {
		t := e.p.Tags.At(id)
		add(Label(e.p.Strings.At(t.Key)), e.p.Strings.At(t.Value))
	}
	e.labels[id] = all
	return all
}

func (e *encoder) text(id profile.StringID) int32 { return e.string(e.p.Strings.At(id)) }

func (r *Request) string(s string) int32 { return r.strings.id(message(Text(s))) }

func (r *Request) attribute(key, value string) int32 {
	return r.attributes.id(message{}.index(1, r.string(key)).message(2, anyValue(Label(value))))
}

// anyValue returns a text as a value of an attribute. An empty text is there too.
func anyValue(s string) message { return message{}.message(1, message(s)) }

package report

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/tracedata"
	"github.com/bperf/bperf/perfdata"
)

const (
	traceName   = "trace"        // the key of all that a tracepoint recorded, as text
	traceFields = "trace_fields" // stands for the keys of all fields of all tracepoints
)

// maxTraceFields limits the fields that are keys, because each sample has a part for each of them. maxTraceWidth limits the width of a
// column, in characters: the recording says how large a field is.
const (
	maxTraceFields = 1000
	maxTraceWidth  = 256
)

// traceKey is a hardware key.
var traceKey = &key{
	name: traceName, title: "Trace output", scope: ofSample, needs: profile.Trace,
	identity: func(p *profile.Profile, b []byte, of *properties) []byte { return append(b, traceText(p, of)...) },
	text:     func(p *profile.Profile, of *properties, _ int) string { return traceText(p, of) },
}

func traceText(p *profile.Profile, of *properties) string {
	if of.details.Trace == 0 {
		return "N/A" // the event is no tracepoint
	}
	_, text := tracePart(p, of, 0)
	return text
}

// tracepoints are the tracepoints of a recording, for keys of what they recorded.
type tracepoints struct {
	all    []tracepoint
	only   bool         // the recording has no other events
	fields []traceField // those that are keys
}

type tracepoint struct {
	event  *perfdata.Event
	format *tracedata.Format
}

// traceField is a field of a tracepoint, whose values distinguish rows of this event.
type traceField struct {
	tracepoint
	field *tracedata.Field
	raw   bool // show the value itself, not what stands for it in the tracepoint's text
	key   *key
}

// ReadTracepoints makes the fields of the recording's tracepoints keys. If there are no other events, it changes the default key as perf
// does. Call it before SetSort. The error says which formats of tracepoints are missing.
func (o *Options) ReadTracepoints(r *perfdata.Reader) error {
	var data *tracedata.Data
	var err error
	if b, there := r.Features().Raw(perfdata.FeatureTracingData); there {
		data, err = tracedata.Parse(b)
	}
	o.tracepoints = &tracepoints{only: len(r.Events()) > 0}
	for _, e := range r.Events() {
		if e.Attr.Type != perfdata.TypeTracepoint {
			o.tracepoints.only = false
		} else if f := data.Format(e.Attr.Config); f != nil {
			o.tracepoints.all = append(o.tracepoints.all, tracepoint{e, f})
		}
	}
	return err
}

// withFields replaces names of fields by the names of their keys. Other names stay. The result is nil only for no names.
func (o *Options) withFields(names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	if o.tracepoints == nil {
		return names, nil
	}
	all := []string{}
	for _, name := range names {
		if o.isColumn(name) {
			all = append(all, name)
			continue
		}
		keys, err := o.tracepoints.find(name, o.RawTrace)
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			all = append(all, k.name)
		}
		if len(keys) == 0 && name != traceFields {
			all = append(all, name)
		}
	}
	if n := len(o.tracepoints.fields); n > maxTraceFields {
		return nil, fmt.Errorf("sort keys of %d fields of tracepoints: at most %d can be shown", n, maxTraceFields)
	}
	return all, nil
}

// find returns the keys that a name stands for: FIELD of all tracepoints that have it, EVENT.FIELD, EVENT.* or trace_fields. The suffix /raw
// shows values without the tracepoint's print format.
func (t *tracepoints) find(name string, raw bool) ([]*key, error) {
	field, option, has := strings.Cut(name, "/")
	if has && option != "raw" {
		return nil, fmt.Errorf("sort key %q: a field has only the option raw", name)
	}
	event, rest, named := strings.Cut(field, ".")
	chosen := t.all
	if named {
		field = rest
		var err error
		if chosen, err = t.named(event); err != nil {
			return nil, fmt.Errorf("sort key %q: %w", name, err)
		}
	}
	var keys []*key
	for _, tp := range chosen {
		if field == traceFields && !named || field == "*" && named {
			for i := range tp.format.Fields {
				keys = append(keys, t.key(tp, &tp.format.Fields[i], raw || has))
			}
		} else if f := tp.format.Field(field); f != nil {
			keys = append(keys, t.key(tp, f, raw || has))
		}
	}
	return keys, nil
}

// named returns the tracepoints of an event: one with a name, or with a part of it if there is no other, or the %Nth of the recording.
func (t *tracepoints) named(event string) ([]tracepoint, error) {
	is := func(tp tracepoint) bool { return strings.Contains(tp.event.Name, event) }
	if number, err := strconv.Atoi(strings.TrimPrefix(event, "%")); err == nil && strings.HasPrefix(event, "%") {
		is = func(tp tracepoint) bool { return tp.event.Index+1 == number }
	} else if strings.Contains(event, ":") {
		is = func(tp tracepoint) bool { return tp.event.Name == event }
	}
	var found []tracepoint
	for _, tp := range t.all {
		if !is(tp) {
			continue
		}
		if len(found) > 0 && found[0].event.Name != tp.event.Name {
			return nil, fmt.Errorf("the event %q can be %s or %s", event, found[0].event.Name, tp.event.Name)
		}
		found = append(found, tp)
	}
	return found, nil
}

// key returns the key of a field.
func (t *tracepoints) key(tp tracepoint, field *tracedata.Field, raw bool) *key {
	name := tp.event.Name + "." + field.Name
	if raw {
		name += "/raw"
	}
	if at := slices.IndexFunc(t.fields, func(f traceField) bool { return f.key.name == name }); at >= 0 {
		return t.fields[at].key
	}
	part := 1 + len(t.fields)
	k := &key{
		name: name, title: field.Name, width: traceWidth(field), scope: ofSample, needs: profile.Trace, event: tp.event.Name, right: true,
		identity: func(p *profile.Profile, b []byte, of *properties) []byte {
			value, _ := tracePart(p, of, part)
			return append(b, value...)
		},
		text: func(p *profile.Profile, of *properties, width int) string {
			_, text := tracePart(p, of, part)
			return fmt.Sprintf("%*s", width, text)
		},
		compare: func(p *profile.Profile, a, b *properties) int { // as in perf, by the bytes in memory
			first, _ := tracePart(p, a, part)
			second, _ := tracePart(p, b, part)
			return strings.Compare(second, first)
		},
	}
	t.fields = append(t.fields, traceField{tp, field, raw, k})
	return k
}

// traceWidth returns the width that perf reserves for the values of a field: of a number as hexadecimal digits after 0x.
func traceWidth(f *tracedata.Field) int {
	width := f.Size
	if !f.IsString() {
		width = 2 + 2*min(f.Size, maxTraceWidth)
	}
	return min(width, maxTraceWidth)
}

// Trace returns a function that appends what distinguishes a sample of a tracepoint, for profile.Details.Trace: two parts for the key
// "trace" and for each field that is a key. The first is the value, the second its text; both are empty if no key needs them. It appends
// nothing for other events. Several goroutines may call the function.
func (o *Options) Trace() func(event *perfdata.Event, raw, out []byte, function tracedata.Resolve) []byte {
	if o.tracepoints == nil {
		return nil
	}
	formats := map[uint64]*tracedata.Format{}
	for _, tp := range o.tracepoints.all {
		formats[tp.format.ID] = tp.format
	}
	return func(event *perfdata.Event, raw, out []byte, function tracedata.Resolve) []byte {
		if event.Attr.Type != perfdata.TypeTracepoint {
			return out
		}
		var text []byte
		format := formats[event.Attr.Config]
		switch {
		case format == nil:
		case o.RawTrace:
			text = format.AppendFields(nil, raw)
		default:
			text = format.AppendText(nil, raw, function)
		}
		out = appendParts(out, nil, text)
		for i := range o.tracepoints.fields {
			if f := &o.tracepoints.fields[i]; f.event.Name == event.Name {
				value, _ := f.format.Bytes(raw, f.field)
				out = appendParts(out, value, f.text(value, text))
			} else {
				out = appendParts(out, nil, nil)
			}
		}
		return out
	}
}

// text returns the text of a value. That of a number is what stands for it in the text of the tracepoint, such as the names of flags.
func (f *traceField) text(value, text []byte) []byte {
	if value == nil {
		return nil
	}
	if !f.raw && !f.field.IsString() {
		for word := range bytes.SplitSeq(text, []byte(" ")) {
			if shown, found := bytes.CutPrefix(word, []byte(f.field.Name+"=")); found && len(shown) > 0 {
				return bytes.TrimSuffix(shown, []byte(","))
			}
		}
	}
	return f.format.AppendValue(nil, f.field, value)
}

func appendParts(out, value, text []byte) []byte {
	out = append(binary.AppendUvarint(out, uint64(len(value))), value...)
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

// tracePart returns one of the pairs in a sample's profile.Details.Trace, by its position. They are empty if the sample has none.
func tracePart(p *profile.Profile, of *properties, part int) (value, text string) {
	rest := p.Strings.At(of.details.Trace)
	next := func() (taken string) {
		size, n := binary.Uvarint([]byte(rest[:min(len(rest), binary.MaxVarintLen64)]))
		if n > 0 {
			taken, rest = rest[n:][:size], rest[n:][size:]
		}
		return taken
	}
	for range part + 1 {
		value, text = next(), next()
	}
	return value, text
}

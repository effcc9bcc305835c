package script

import (
	"fmt"
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/typed"
	"github.com/bperf/bperf/perfdata"
)

// readOutputTypes finds the types of the output of BPF programs in the BTF of the recording. A map declares the type of its values
// (`__type(value, struct event)`), and the event that its programs write to has the name of the map. Options.Type applies to all events.
func (p *printer) readOutputTypes() error {
	p.outputs = make(map[string][]typed.Column)
	section, there := p.reader.Features().Raw(perfdata.FeatureBPFBTF)
	var blobs []linear.BTF
	if there {
		blobs, _ = linear.DecodeBTF(section, p.reader.ByteOrder()) // the part before an error is valid
	}
	for _, b := range blobs {
		spec, err := linear.LoadBTF(b.Data)
		if err != nil {
			continue // replay reports it
		}
		var chosen *btf.Struct
		if p.o.Type != "" && p.chosen == nil && spec.TypeByName(p.o.Type, &chosen) == nil {
			p.chosen = typed.Columns("", chosen, chosen.Size)
		}
		var section *btf.Datasec
		if spec.TypeByName(".maps", &section) != nil {
			continue
		}
		for _, v := range section.Vars {
			p.addOutput(v.Type)
		}
	}
	if p.o.Type != "" && p.chosen == nil {
		return fmt.Errorf("--type %s: the BTF of the recording has no structure of this name", p.o.Type)
	}
	return nil
}

// addOutput stores the value type of a map, which a variable in the section .maps describes.
func (p *printer) addOutput(t btf.Type) {
	v, isVar := t.(*btf.Var)
	if !isVar {
		return
	}
	def, isStruct := btf.UnderlyingType(v.Type).(*btf.Struct)
	if !isStruct {
		return
	}
	for _, m := range def.Members {
		if pointer, isPointer := m.Type.(*btf.Pointer); m.Name == "value" && isPointer && typed.IsStruct(pointer.Target) {
			p.outputs[v.Name] = typed.Columns("", pointer.Target, 0)
		}
	}
}

// outputColumns returns the columns of what programs wrote to an event, or nil if the type is unknown.
func (p *printer) outputColumns(e *perfdata.Event) []typed.Column {
	if p.chosen != nil {
		return p.chosen
	}
	return p.outputs[e.Name]
}

// appendColumns prints the members of a value with their names.
func appendColumns(out []byte, columns []typed.Column, raw []byte) []byte {
	out = append(out, "\n      BPF output:"...)
	for i := range columns {
		c := &columns[i]
		out = append(append(append(out, ' '), printable.Text(c.Name)...), '=')
		if value := c.Read(raw); c.IsText() {
			out = strconv.AppendQuote(out, printable.Text(value.(string)))
		} else {
			out = append(out, printable.Text(fmt.Sprint(value))...)
		}
	}
	return out
}

// outputObject returns the members of a value by name, for JSON, or nil without columns.
func outputObject(columns []typed.Column, raw []byte) map[string]any {
	if columns == nil {
		return nil
	}
	object := make(map[string]any)
	for i := range columns {
		object[columns[i].Name] = columns[i].Read(raw)
	}
	return object
}

package otlp

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// field is a field of a message on the wire.
type field struct {
	number int
	value  uint64 // of a varint or fixed64
	data   []byte // of a string, bytes, message or packed field
}

// parse splits a message into its fields.
func parse(data []byte) (all []field, err error) {
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 || tag>>3 == 0 {
			return nil, fmt.Errorf("a wrong tag in % x", data)
		}
		data = data[n:]
		f := field{number: int(tag >> 3)}
		switch tag & 7 {
		case 0:
			f.value, n = binary.Uvarint(data)
			if n <= 0 {
				return nil, fmt.Errorf("a wrong number in % x", data)
			}
			data = data[n:]
		case 1:
			if len(data) < 8 {
				return nil, fmt.Errorf("a short fixed64: % x", data)
			}
			f.value, data = binary.LittleEndian.Uint64(data), data[8:]
		case 2:
			size, n := binary.Uvarint(data)
			if n <= 0 || size > uint64(len(data)-n) {
				return nil, fmt.Errorf("a wrong length in % x", data)
			}
			f.data, data = data[n:n+int(size)], data[n+int(size):]
		default:
			return nil, fmt.Errorf("wire type %d", tag&7)
		}
		all = append(all, f)
	}
	return all, nil
}

// decoder renders a request as text. Its entries of the dictionary are fields of messages.
type decoder struct {
	mappings, locations, functions, links, attributes, stacks [][]field

	strings []string
	out     strings.Builder
}

// decode returns a request as text, with an error for each rule of the format that it breaks.
func decode(data []byte) (text string, err error) {
	defer catch(&err)
	d := decoder{}
	request := must(parse(data))
	var dictionaries int
	for _, f := range request {
		if f.number == 2 {
			dictionaries++
			d.dictionary(f.data)
		}
	}
	check(dictionaries == 1, "there are %d dictionaries", dictionaries)
	for i := range d.attributes[1:] {
		d.attribute(uint64(i + 1))
	}
	for _, f := range request {
		if f.number == 1 {
			d.resource(f.data)
		}
	}
	return d.out.String(), nil
}

// fault is a rule of the format that a request breaks.
type fault string

func (f fault) Error() string { return string(f) }

// catch makes a fault that check panicked with an error. It is for a defer statement.
func catch(err *error) {
	if e := recover(); e != nil {
		fault, is := e.(fault)
		if !is {
			panic(e)
		}
		*err = fault
	}
}

func check(holds bool, format string, args ...any) {
	if !holds {
		panic(fault(fmt.Sprintf(format, args...)))
	}
}

func must(all []field, err error) []field {
	check(err == nil, "%v", err)
	return all
}

// one returns the field with a number, which may be there once.
func one(all []field, number int) (found field) {
	var count int
	for _, f := range all {
		if f.number == number {
			found, count = f, count+1
		}
	}
	check(count <= 1, "field %d is there %d times", number, count)
	return found
}

func (d *decoder) dictionary(data []byte) {
	seen := map[int]map[string]bool{}
	for _, f := range must(parse(data)) {
		if seen[f.number] == nil {
			seen[f.number] = map[string]bool{}
		}
		check(!seen[f.number][string(f.data)], "an entry of table %d is there twice: % x", f.number, f.data)
		seen[f.number][string(f.data)] = true
		if f.number == 5 {
			check(utf8.Valid(f.data), "not UTF-8: %q", f.data)
			d.strings = append(d.strings, string(f.data))
			continue
		}
		tables := []*[][]field{1: &d.mappings, 2: &d.locations, 3: &d.functions, 4: &d.links, 6: &d.attributes, 7: &d.stacks}
		check(f.number < len(tables), "table %d", f.number)
		*tables[f.number] = append(*tables[f.number], must(parse(f.data)))
	}
	check(len(d.strings) > 0 && d.strings[0] == "", "the first string is not empty")
	for i, t := range [][][]field{d.mappings, d.locations, d.functions, d.attributes, d.stacks} {
		check(len(t) > 0 && len(t[0]) == 0, "the first entry of table %d is not empty", i)
	}
	check(len(d.links) == 1 && string(d.links[0][0].data)+string(d.links[0][1].data) == strings.Repeat("\x00", 24), "links: %v", d.links)
}

func at[T any](table []T, i uint64) T {
	check(i < uint64(len(table)), "index %d of %d", i, len(table))
	return table[i]
}

func packed(f field) (all []uint64) {
	for data := f.data; len(data) > 0; {
		v, n := binary.Uvarint(data)
		check(n > 0, "a wrong packed field")
		all, data = append(all, v), data[n:]
	}
	return all
}

func (d *decoder) resource(data []byte) {
	resource := must(parse(data))
	for _, f := range must(parse(one(resource, 1).data)) {
		check(f.number == 1, "field %d of a resource", f.number)
		pair := must(parse(f.data))
		fmt.Fprintf(&d.out, "resource %s=%q\n", one(pair, 1).data, d.text(one(pair, 2)))
	}
	scope := must(parse(one(resource, 2).data))
	fmt.Fprintf(&d.out, "scope %s\n", one(must(parse(one(scope, 1).data)), 1).data)
	for _, f := range scope {
		if f.number == 2 {
			d.profile(must(parse(f.data)))
		}
	}
}

// text returns a value of an attribute, which is text.
func (d *decoder) text(value field) string {
	fields := must(parse(value.data))
	check(len(fields) == 1 && fields[0].number == 1 && utf8.Valid(fields[0].data), "a value is not text: % x", value.data)
	return string(fields[0].data)
}

func (d *decoder) valueType(f field) string {
	t := must(parse(f.data))
	return at(d.strings, one(t, 1).value) + "/" + at(d.strings, one(t, 2).value)
}

func (d *decoder) profile(p []field) {
	check(one(p, 6).value > 0, "the period is 0")
	fmt.Fprintf(&d.out, "profile %s period %s %d time %d duration %d%s\n", d.valueType(one(p, 1)), d.valueType(one(p, 5)), one(p, 6).value,
		one(p, 3).value, one(p, 4).value, d.attributesOf(one(p, 11)))
	for _, f := range p {
		if f.number != 2 {
			continue
		}
		s := must(parse(f.data))
		values := packed(one(s, 4))
		check(len(values) == 1, "a sample with %d values", len(values))
		fmt.Fprintf(&d.out, "  sample %d%s\n", values[0], d.attributesOf(one(s, 2)))
		for _, l := range packed(one(at(d.stacks, one(s, 1).value), 1)) {
			d.location(at(d.locations, l))
		}
	}
}

func (d *decoder) location(l []field) {
	m := at(d.mappings, one(l, 1).value)
	fmt.Fprintf(&d.out, "    %#x in %#x-%#x+%#x %q%s%s\n", one(l, 2).value, one(m, 1).value, one(m, 2).value, one(m, 3).value,
		at(d.strings, one(m, 4).value), d.attributesOf(one(m, 5)), d.attributesOf(one(l, 4)))
	for _, f := range l {
		if f.number != 3 {
			continue
		}
		line := must(parse(f.data))
		function := at(d.functions, one(line, 1).value)
		fmt.Fprintf(&d.out, "      %q %q %q:%d, from line %d\n", at(d.strings, one(function, 1).value), at(d.strings, one(function, 2).value),
			at(d.strings, one(function, 3).value), one(line, 2).value, one(function, 4).value)
	}
}

func (d *decoder) attribute(i uint64) (key, value string) {
	a := at(d.attributes, i)
	return at(d.strings, one(a, 1).value), d.text(one(a, 2))
}

// attributesOf returns attributes as text. No key may be there twice.
func (d *decoder) attributesOf(f field) string {
	var out strings.Builder
	seen := map[string]bool{}
	for _, i := range packed(f) {
		key, value := d.attribute(i)
		check(!seen[key], "attribute %q is there twice", key)
		seen[key] = true
		fmt.Fprintf(&out, " %s=%q", key, value)
	}
	return out.String()
}

// dump returns bytes for messages of tests.
func dump(data []byte) string { return hex.Dump(data[:min(len(data), 4096)]) }

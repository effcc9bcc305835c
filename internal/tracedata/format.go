package tracedata

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Format describes the fields of a tracepoint's records, and how to print them.
type Format struct {
	System, Name string
	ID           uint64
	Common       []Field // fields that all tracepoints have
	Fields       []Field
	Print        string // the argument list of the kernel's printf, as in the file
	PrintErr     error  // why Print cannot be used; nil if it can

	order    binary.ByteOrder
	longSize int
	data     *Data // nil for a format outside of Data
	pieces   []piece
}

// Field is a field of a tracepoint's records.
type Field struct {
	Name    string
	Type    string // in C, without the name
	Offset  int    // bytes
	Size    int    // bytes
	Signed  bool
	Array   bool // Size is the size of all elements
	Count   int  // number of elements in its type's brackets; 0 if it is not an array or has no number there
	Dynamic bool // __data_loc: the field contains offset (lower 16 bits) and length of the data
	Rel     bool // __rel_loc: Dynamic, and the offset is from the end of the field
}

// maxFormat is the maximum size of a format in bytes, far above the longest one of a kernel.
const maxFormat = 1 << 20

// parseFormat parses a file "format" of tracefs. A print format that cannot be used is no error: see PrintErr.
func parseFormat(system, text string, order binary.ByteOrder, longSize int) (*Format, error) {
	f := &Format{System: system, order: order, longSize: longSize}
	if len(text) > maxFormat {
		return nil, fmt.Errorf("format of a tracepoint of %s: it has %d bytes", system, len(text))
	}
	fields := &f.Common
	number := 0
	if head, print, ok := strings.Cut(text, "\nprint fmt:"); ok { // the last part, whose strings can have several lines
		text, f.Print = head, strings.TrimSpace(print)
	}
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		var err error
		switch {
		case key == "name":
			f.Name = value
		case key == "ID":
			f.ID, err = strconv.ParseUint(value, 10, 64)
		case key == "field":
			var field Field
			if field, err = parseField(line); err == nil {
				*fields = append(*fields, field)
			}
		case line == "" && len(f.Common) > 0:
			fields = &f.Fields
		}
		if err != nil {
			return nil, fmt.Errorf("format of %s:%s: line %d: %w", system, f.Name, number, err)
		}
	}
	if f.Name == "" || len(f.Common) == 0 {
		return nil, fmt.Errorf("format of %s:%s: it has no name or no fields", system, f.Name)
	}
	if f.pieces, f.PrintErr = parsePrint(f); f.PrintErr != nil {
		f.pieces = nil
	}
	return f, nil
}

// parseField parses "field:char prev_comm[16];    offset:8;       size:16;        signed:0;".
func parseField(line string) (Field, error) {
	var f Field
	for part := range strings.SplitSeq(line, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), ":")
		var err error
		switch key {
		case "field":
			err = f.declare(value)
		case "offset":
			f.Offset, err = parseSize(value)
		case "size":
			f.Size, err = parseSize(value)
		case "signed":
			f.Signed = value == "1"
		}
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

func parseSize(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err
}

// declare sets type and name from a declaration in C.
func (f *Field) declare(text string) error {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "__data_loc "); ok {
		f.Dynamic, text = true, rest
	} else if rest, ok := strings.CutPrefix(text, "__rel_loc "); ok {
		f.Dynamic, f.Rel, text = true, true, rest
	}
	if strings.HasSuffix(text, "]") {
		open := strings.LastIndexByte(text, '[')
		if open < 0 {
			return fmt.Errorf("the field %q has a bracket too much", text)
		}
		f.Array = true
		f.Count, _ = strconv.Atoi(text[open+1 : len(text)-1]) // 0 for the name of a constant
		text = text[:open]
	}
	at := strings.LastIndexAny(text, " *\t")
	f.Type, f.Name = strings.TrimSpace(text[:at+1]), text[at+1:]
	if bracketed := strings.TrimSuffix(f.Type, "[]"); bracketed != f.Type {
		f.Type, f.Array = bracketed, true
	}
	if f.Name == "" || f.Type == "" {
		return errors.New("a field has no name or no type")
	}
	return nil
}

// element returns the size of an element of an array, in bytes.
func (f *Field) element() int {
	if f.Dynamic || f.Count == 0 {
		if t, ok := namedType(f.Type, 8); ok {
			return t.size
		}
		return 1
	}
	return max(1, f.Size/f.Count)
}

// IsString reports whether the values of a field are text.
func (f *Field) IsString() bool {
	return f.Array && (strings.Contains(f.Type, "char") || strings.Contains(f.Type, "u8") || strings.Contains(f.Type, "s8"))
}

// Field returns a field by its name, or nil.
func (f *Format) Field(name string) *Field {
	for _, list := range [][]Field{f.Fields, f.Common} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// Bytes returns the bytes of a field in a record. For a Dynamic field, these are the bytes that it refers to. It returns false if the
// record is too short.
func (f *Format) Bytes(raw []byte, field *Field) ([]byte, bool) {
	if field.Offset+field.Size > len(raw) {
		return nil, false
	}
	b := raw[field.Offset : field.Offset+field.Size]
	if !field.Dynamic {
		return b, true
	}
	if len(b) < 4 {
		return nil, false
	}
	where := f.order.Uint32(b)
	start, size := int(where&0xffff), int(where>>16)
	if field.Rel {
		start += field.Offset + field.Size
	}
	if start+size > len(raw) {
		return nil, false
	}
	return raw[start : start+size], true
}

// number reads an integer of 1, 2, 4 or 8 bytes; others are 0.
func number(b []byte, order binary.ByteOrder, signed bool) uint64 {
	switch len(b) {
	case 1:
		if signed {
			return uint64(int8(b[0]))
		}
		return uint64(b[0])
	case 2:
		if signed {
			return uint64(int16(order.Uint16(b)))
		}
		return uint64(order.Uint16(b))
	case 4:
		if signed {
			return uint64(int32(order.Uint32(b)))
		}
		return uint64(order.Uint32(b))
	case 8:
		return order.Uint64(b)
	}
	return 0
}

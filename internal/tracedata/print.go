package tracedata

import (
	"encoding/hex"
	"strconv"

	"github.com/bperf/bperf/internal/printable"
)

// Resolve returns the kernel function at an address.
type Resolve func(addr uint64) (name string, offset uint64, ok bool)

// AppendText appends a record as its print format requires. If the format cannot be used (see PrintErr), it appends perf's mark for that
// and name=value for each field. resolve may be nil.
func (f *Format) AppendText(out, raw []byte, resolve Resolve) []byte {
	if f.PrintErr != nil {
		return f.AppendFields(append(out, "[FAILED TO PARSE]"...), raw)
	}
	r := &record{f, raw, resolve}
	for i := range f.pieces {
		out = f.pieces[i].append(r, out)
	}
	return out
}

// AppendFields appends " name=value" for each of the tracepoint's own fields.
func (f *Format) AppendFields(out, raw []byte) []byte {
	for i := range f.Fields {
		field := &f.Fields[i]
		out = append(out, ' ')
		out = append(out, field.Name...)
		out = append(out, '=')
		b, ok := f.Bytes(raw, field)
		if !ok {
			out = append(out, "(missing)"...)
			continue
		}
		out = f.AppendValue(out, field, b)
	}
	return out
}

// AppendValue appends the value of a field. b is the result of Bytes.
func (f *Format) AppendValue(out []byte, field *Field, b []byte) []byte {
	if field.Array || field.Dynamic {
		if text := untilNUL(b); field.IsString() && isPrintable(text) {
			return append(out, text...)
		}
		out = append(out, "ARRAY["...)
		for i := range b {
			if i > 0 {
				out = append(out, ", "...)
			}
			out = hex.AppendEncode(out, b[i:i+1])
		}
		return append(out, ']')
	}
	v := number(b, f.order, field.Signed)
	t, _ := namedType(field.Type, f.longSize)
	isLong := field.Type == "unsigned long" || field.Type == "long" && field.Size == 4 // as in libtraceevent, signed ones of 8 bytes are numbers
	switch {
	case t.pointer > 0, isLong:
		return strconv.AppendUint(append(out, "0x"...), v, 16)
	case field.Signed:
		start := len(out)
		out = strconv.AppendInt(out, int64(v), 10)
		if field.Size == 2 {
			out = printable.AlignRight(out, start, 2)
		}
		return out
	}
	return strconv.AppendUint(out, v, 10)
}

func isPrintable(b []byte) bool {
	for _, c := range b {
		if (c < ' ' || c > '~') && (c < '\t' || c > '\r') {
			return false
		}
	}
	return true
}

package tracedata

import "strings"

// ctype is an integer type of C. A pointer is an unsigned integer with the size of its target.
type ctype struct {
	size    int // bytes
	signed  bool
	pointer int // bytes of its target; 0 if it is not a pointer
}

var (
	typeInt  = ctype{size: 4, signed: true}
	typeText = ctype{size: 8, pointer: 1}
)

// convert converts the bits of a value to type t.
func (t ctype) convert(v uint64) uint64 {
	switch {
	case t.size == 1 && t.signed:
		return uint64(int8(v))
	case t.size == 1:
		return uint64(uint8(v))
	case t.size == 2 && t.signed:
		return uint64(int16(v))
	case t.size == 2:
		return uint64(uint16(v))
	case t.size == 4 && t.signed:
		return uint64(int32(v))
	case t.size == 4:
		return uint64(uint32(v))
	}
	return v
}

// promote returns the type after the integer promotion.
func (t ctype) promote() ctype {
	if t.size < 4 {
		return typeInt
	}
	return ctype{size: t.size, signed: t.signed, pointer: t.pointer}
}

// common returns the type in which two operands are combined: the usual arithmetic conversions.
func common(a, b ctype) ctype {
	a, b = a.promote(), b.promote()
	if a.size != b.size {
		if a.size > b.size {
			return a
		}
		return b
	}
	return ctype{size: a.size, signed: a.signed && b.signed}
}

// typeWords are the words that names of types consist of.
var typeWords = map[string]bool{"unsigned": true, "signed": true, "char": true, "short": true, "int": true, "long": true, "const": true,
	"volatile": true, "struct": true, "enum": true, "union": true, "void": true, "__force": true, "__user": true}

// named are the kernel's own names of types: https://elixir.bootlin.com/linux/latest/source/include/linux/types.h.
var named = map[string]ctype{
	"u8": {size: 1}, "u16": {size: 2}, "u32": {size: 4}, "u64": {size: 8},
	"s8": {size: 1, signed: true}, "s16": {size: 2, signed: true}, "s32": {size: 4, signed: true}, "s64": {size: 8, signed: true},
	"bool": {size: 1}, "size_t": {size: 8}, "ssize_t": {size: 8, signed: true}, "loff_t": {size: 8, signed: true}, "off_t": {size: 8, signed: true},
	"sector_t": {size: 8}, "blkcnt_t": {size: 8}, "ino_t": {size: 8}, "dev_t": {size: 4}, "pid_t": {size: 4, signed: true}, "uid_t": {size: 4},
	"gid_t": {size: 4}, "umode_t": {size: 2}, "mode_t": {size: 4}, "gfp_t": {size: 4}, "pgoff_t": {size: 8}, "dma_addr_t": {size: 8},
	"phys_addr_t": {size: 8}, "resource_size_t": {size: 8}, "uint": {size: 4}, "ulong": {size: 8}, "uintptr_t": {size: 8}, "ktime_t": {size: 8, signed: true},
}

// namedType returns the type with the given name. It returns false if the name is not a type, or is unknown.
func namedType(name string, longSize int) (ctype, bool) {
	if base, ok := strings.CutSuffix(name, "*"); ok {
		of, _ := namedType(strings.TrimSpace(base), longSize)
		return ctype{size: longSize, pointer: max(1, of.size)}, true
	}
	var t ctype
	longs, unsigned := 0, false
	for word := range strings.FieldsSeq(name) {
		switch word {
		case "const", "volatile", "__force", "__user", "signed":
			if word == "signed" && t.size == 0 {
				t = typeInt
			}
		case "unsigned":
			unsigned = true
			if t.size == 0 {
				t = typeInt
			}
		case "char":
			t = ctype{size: 1, signed: true}
		case "short":
			t = ctype{size: 2, signed: true}
		case "int":
			if t.size == 0 {
				t = typeInt
			}
		case "long":
			longs++
			t = ctype{size: longSize, signed: true}
			if longs == 2 {
				t.size = 8
			}
		case "enum":
			return ctype{size: 4}, true
		default:
			plain := strings.TrimPrefix(word, "__")
			if base, ok := strings.CutSuffix(plain, "_t"); ok && (strings.HasPrefix(base, "uint") || strings.HasPrefix(base, "int")) {
				plain = strings.Replace(strings.Replace(base, "uint", "u", 1), "int", "s", 1)
			}
			if len(plain) > 2 && (strings.HasPrefix(plain, "le") || strings.HasPrefix(plain, "be")) {
				plain = "u" + plain[2:]
			}
			known, ok := named[plain]
			if !ok {
				return ctype{}, false
			}
			t = known
		}
	}
	if unsigned {
		t.signed = false
	}
	return t, t.size > 0
}

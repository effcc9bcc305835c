package userprog

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// Assignment is a value for a global variable.
type Assignment struct{ Name, Value string }

// ParseAssignment parses NAME=VALUE.
func ParseAssignment(s string) (Assignment, error) {
	name, value, ok := strings.Cut(s, "=")
	if !ok || !isIdentifier(name) {
		return Assignment{}, fmt.Errorf("%q: give a global variable of the object and its value, as NAME=VALUE", s)
	}
	return Assignment{name, value}, nil
}

// set sets a variable of spec. It returns false if spec has no such variable.
func set(spec *ebpf.CollectionSpec, a Assignment) (bool, error) {
	v := spec.Variables[a.Name]
	if v == nil {
		return false, nil
	}
	if v.Type == nil {
		return true, fmt.Errorf("%s has no type, as the object has no BTF: compile it with -g", a.Name)
	}
	b, err := encode(v.Type.Type, a.Value)
	if err != nil {
		return true, fmt.Errorf("%s=%s: %w", a.Name, a.Value, err)
	}
	return true, v.Set(b)
}

// encode parses value and returns it as bytes of type t.
func encode(t btf.Type, value string) ([]byte, error) {
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Int:
		return encodeInt(t, value)
	case *btf.Enum:
		return encodeEnum(t, value)
	case *btf.Array:
		if element, ok := btf.UnderlyingType(t.Type).(*btf.Int); ok && element.Size == 1 {
			if len(value) >= int(t.Nelems) {
				return nil, fmt.Errorf("a string of %d bytes, and there is room for %d and a 0", len(value), t.Nelems-1)
			}
			return append([]byte(value), make([]byte, int(t.Nelems)-len(value))...), nil
		}
	}
	return nil, fmt.Errorf("its type is %v: only numbers, booleans, enumerations and strings can be set", t)
}

func encodeInt(t *btf.Int, value string) ([]byte, error) {
	if t.Encoding == btf.Bool {
		on, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("it is a boolean: give true or false")
		}
		if on {
			return []byte{1}, nil
		}
		return []byte{0}, nil
	}
	if t.Size > 8 {
		return nil, fmt.Errorf("a number of %d bytes cannot be set", t.Size)
	}
	bits := int(t.Size) * 8
	var n uint64
	var err error
	if t.Encoding == btf.Signed {
		var signed int64
		signed, err = strconv.ParseInt(value, 0, bits)
		n = uint64(signed)
	} else {
		n, err = strconv.ParseUint(value, 0, bits)
	}
	if err != nil {
		kind := "an unsigned"
		if t.Encoding == btf.Signed {
			kind = "a signed"
		}
		return nil, fmt.Errorf("it is %s number of %d bits", kind, bits)
	}
	return number(n, int(t.Size)), nil
}

func encodeEnum(t *btf.Enum, value string) ([]byte, error) {
	var names []string
	for _, v := range t.Values {
		if v.Name == value {
			return number(v.Value, int(t.Size)), nil
		}
		names = append(names, v.Name)
	}
	if n, err := strconv.ParseUint(value, 0, int(t.Size)*8); err == nil {
		return number(n, int(t.Size)), nil
	}
	return nil, fmt.Errorf("it is one of %s, or a number", strings.Join(names, ", "))
}

// number returns the low size bytes of n. It works only on little-endian machines, the only ones that bperf supports.
func number(n uint64, size int) []byte {
	b := binary.NativeEndian.AppendUint64(nil, n)
	return b[:size]
}

// variables returns the names of the global variables, sorted.
func variables(spec *ebpf.CollectionSpec) []string {
	return slices.Sorted(maps.Keys(spec.Variables))
}

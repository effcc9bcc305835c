package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// TypesOf returns the types of the running kernel that are needed to relocate programs whose types are known: structures, unions and
// enumerations with the same names, up to ___, and the types of their members, without the types that pointers refer to. Decoding all types
// of the kernel takes ten times as long, and the types of modules add to that. The result has other type IDs than the kernel. Where
// programs need the kernel's IDs for bpf_rdonly_cast (PrepareReads), TypesOf returns all types.
func TypesOf(known *btf.Spec) (*btf.Spec, error) {
	if readsRefused() {
		return btf.LoadKernelSpec()
	}
	names := make(map[string]bool)
	for t, err := range known.All() {
		if err != nil {
			return nil, fmt.Errorf("list the types of BPF programs: %w", err)
		}
		name, _, _ := strings.Cut(t.TypeName(), "___")
		names[name] = name != ""
	}
	some, err := narrowFile("/sys/kernel/btf/vmlinux", names)
	if err != nil {
		return nil, fmt.Errorf("read the types of the kernel: %w", err)
	}
	return btf.LoadSpecFromReader(bytes.NewReader(some))
}

// narrowFile narrows the BTF in a file. It maps the file if the kernel supports that (6.18 does, 6.12 does not); otherwise it reads the
// file, which takes one call per page.
func narrowFile(name string, names map[string]bool) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	raw, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err == nil {
		defer func() { _ = unix.Munmap(raw) }()
	} else if raw, err = os.ReadFile(name); err != nil {
		return nil, err
	}
	return narrow(raw, names)
}

// These are the kinds of types: BTF_KIND_* of include/uapi/linux/btf.h.
const (
	kindInt = 1 + iota
	kindPointer
	kindArray
	kindStruct
	kindUnion
	kindEnum
	kindForward
	kindTypedef
	kindVolatile
	kindConst
	kindRestrict
	kindFunction
	kindPrototype
	kindVariable
	kindSection
	kindFloat
	kindDeclTag
	kindTypeTag
	kindEnum64
	kinds
)

// The number of bytes that follow struct btf_type, for each kind: typeTail once, and partSize for each of its parts.
var (
	typeTail = [kinds]int{kindInt: 4, kindArray: 12, kindVariable: 4, kindDeclTag: 4}
	partSize = [kinds]int{kindStruct: 12, kindUnion: 12, kindEnum: 8, kindPrototype: 8, kindSection: 12, kindEnum64: 12}
)

const (
	btfHeader = 24 // struct btf_header
	btfType   = 12 // struct btf_type: name, info, size or type
)

// narrowed is BTF that is built from a part of other BTF (https://docs.kernel.org/bpf/btf.html).
type narrowed struct {
	types   []byte
	strings []byte
	at      []uint32          // the offset of each type in types, by old ID
	ids     map[uint32]uint32 // new IDs by old ID
	kept    []uint32          // old IDs in the order of new IDs, which start at 2
	names   map[string]uint32 // offset of each name in text
	text    []byte            // the new strings
}

var errBTF = errors.New("the BTF format is unknown")

// narrow returns the BTF of the structures, unions and enumerations with the given names.
func narrow(raw []byte, names map[string]bool) ([]byte, error) {
	ne := binary.NativeEndian
	if len(raw) < btfHeader || ne.Uint16(raw) != 0xeb9f {
		return nil, errBTF
	}
	part := func(offset, size uint32) []byte {
		start := uint64(ne.Uint32(raw[4:])) + uint64(offset)
		if start+uint64(size) > uint64(len(raw)) {
			return nil
		}
		return raw[start : start+uint64(size)]
	}
	n := &narrowed{types: part(ne.Uint32(raw[8:]), ne.Uint32(raw[12:])), strings: part(ne.Uint32(raw[16:]), ne.Uint32(raw[20:])),
		ids: make(map[uint32]uint32), names: map[string]uint32{"": 0}, text: []byte{0}}
	if err := n.index(); err != nil {
		return nil, err
	}
	for id := 1; id < len(n.at); id++ {
		switch kind, _ := n.kind(uint32(id)); kind {
		case kindStruct, kindUnion, kindEnum, kindEnum64:
			if name := n.name(ne.Uint32(n.types[n.at[id]:])); len(name) > 0 && names[string(name)] {
				n.keep(uint32(id))
			}
		}
	}
	const pointer = 1
	types := n.append(nil, 0, kindPointer<<24, 0)
	for i := 0; i < len(n.kept); i++ { // copy keeps more types
		types = n.copy(types, n.kept[i], pointer)
	}
	made := ne.AppendUint16(nil, 0xeb9f)
	made = append(made, 1, 0) // version, flags
	for _, v := range []int{btfHeader, 0, len(types), len(types), len(n.text)} {
		made = ne.AppendUint32(made, uint32(v))
	}
	return append(append(made, types...), n.text...), nil
}

// index finds the offsets of all types.
func (n *narrowed) index() error {
	const usual = 24 // bytes per type of the kernel
	n.at = append(make([]uint32, 0, len(n.types)/usual), 0)
	for at := 0; at < len(n.types); {
		if len(n.types)-at < btfType {
			return errBTF
		}
		info := binary.NativeEndian.Uint32(n.types[at+4:])
		kind := info >> 24 & 0x1f
		if kind == 0 || kind >= kinds {
			return errBTF
		}
		n.at = append(n.at, uint32(at))
		at += btfType + typeTail[kind] + partSize[kind]*int(info&0xffff)
		if at > len(n.types) {
			return errBTF
		}
	}
	return nil
}

func (n *narrowed) kind(id uint32) (kind uint32, parts int) {
	info := binary.NativeEndian.Uint32(n.types[n.at[id]+4:])
	return info >> 24 & 0x1f, int(info & 0xffff)
}

func (n *narrowed) name(offset uint32) []byte {
	if uint64(offset) >= uint64(len(n.strings)) {
		return nil
	}
	name := n.strings[offset:]
	return name[:max(0, bytes.IndexByte(name, 0))]
}

// keep returns the new ID of a type. void stays void.
func (n *narrowed) keep(id uint32) uint32 {
	if id == 0 || uint64(id) >= uint64(len(n.at)) {
		return 0
	}
	if n.ids[id] == 0 {
		n.kept = append(n.kept, id)
		n.ids[id] = uint32(len(n.kept)) + 1
	}
	return n.ids[id]
}

// copy appends a type and translates its type IDs. All pointers become the same type.
func (n *narrowed) copy(to []byte, id, pointer uint32) []byte {
	ne := binary.NativeEndian
	of := func(id uint32) uint32 {
		if id > 0 && uint64(id) < uint64(len(n.at)) {
			if kind, _ := n.kind(id); kind == kindPointer {
				return pointer
			}
		}
		return n.keep(id)
	}
	b := n.types[n.at[id]:]
	kind, parts := n.kind(id)
	size, tail := ne.Uint32(b[8:]), b[btfType:]
	switch kind {
	case kindTypedef, kindVolatile, kindConst, kindRestrict, kindTypeTag:
		size = of(size)
	}
	to = n.append(to, ne.Uint32(b), ne.Uint32(b[4:]), size)
	switch kind {
	case kindArray: // element type, index type, number
		to = ne.AppendUint32(to, of(ne.Uint32(tail)))
		to = ne.AppendUint32(to, of(ne.Uint32(tail[4:])))
		return append(to, tail[8:12]...)
	case kindStruct, kindUnion: // name, type, offset
		for i := range parts {
			member := tail[12*i:]
			to = n.append(to, ne.Uint32(member), of(ne.Uint32(member[4:])), ne.Uint32(member[8:]))
		}
		return to
	case kindEnum, kindEnum64: // name, value
		for i := range parts {
			value := tail[partSize[kind]*i:]
			to = ne.AppendUint32(to, n.rename(ne.Uint32(value)))
			to = append(to, value[4:partSize[kind]]...)
		}
		return to
	}
	return append(to, tail[:typeTail[kind]]...)
}

// append appends a name, translated, and two more numbers.
func (n *narrowed) append(to []byte, name, second, third uint32) []byte {
	ne := binary.NativeEndian
	to = ne.AppendUint32(to, n.rename(name))
	to = ne.AppendUint32(to, second)
	return ne.AppendUint32(to, third)
}

// rename returns the offset of a name in the new strings.
func (n *narrowed) rename(offset uint32) uint32 {
	name := n.name(offset)
	at, known := n.names[string(name)]
	if !known {
		at = uint32(len(n.text))
		n.names[string(name)] = at
		n.text = append(append(n.text, name...), 0)
	}
	return at
}

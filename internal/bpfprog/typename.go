package bpfprog

import (
	"encoding/binary"
	"unsafe"
)

// names finds the names of types in BTF without decoding the rest. It caches the last BTF that it read, because programs of one object file
// share their BTF and mostly have consecutive IDs.
type names struct {
	btf    uint32 // ID of the BTF in data; 0 for none
	data   []byte
	buffer []byte
}

// of returns the name of a type; empty if it cannot be read.
func (n *names) of(btf, id uint32) string {
	if n.btf != btf {
		n.btf, n.data = btf, n.read(btf)
	}
	return typeName(n.data, id)
}

// read returns BTF; nil if it cannot be read. It takes one call if the BTF fits into the buffer.
func (n *names) read(id uint32) []byte {
	d, err := btfs.open(id)
	if err != nil {
		return nil
	}
	defer d.close()
	if n.buffer == nil {
		n.buffer = make([]byte, 8192) // enough for most
	}
	for {
		info := btfInfo{data: start(n.buffer), size: uint32(len(n.buffer))}
		if err := d.info(unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil {
			return nil
		}
		if int(info.size) <= len(n.buffer) {
			return n.buffer[:info.size]
		}
		n.buffer = make([]byte, info.size)
	}
}

// typeName returns the name of a type in BTF (https://docs.kernel.org/bpf/btf.html, 2); empty if it has none, or if the BTF is damaged.
func typeName(data []byte, id uint32) string {
	const magic, header, head = 0xeb9f, 24, 12 // sizes of struct btf_header and struct btf_type
	ne := binary.NativeEndian
	if id == 0 || len(data) < header || ne.Uint16(data) != magic {
		return ""
	}
	types := section(data, ne.Uint32(data[4:]), ne.Uint32(data[8:]), ne.Uint32(data[12:]))
	strings := section(data, ne.Uint32(data[4:]), ne.Uint32(data[16:]), ne.Uint32(data[20:]))
	for ; len(types) >= head; id-- {
		if id == 1 {
			name := section(strings, 0, ne.Uint32(types), uint32(len(strings)))
			return text(name)
		}
		info := ne.Uint32(types[4:])
		size := head + typeSize(info>>24&0x1f, info&0xffff)
		types = types[min(size, len(types)):]
	}
	return ""
}

// section returns length bytes of a section of the BTF, or fewer if the data ends before.
func section(data []byte, header, offset, length uint32) []byte {
	from := min(uint64(header)+uint64(offset), uint64(len(data)))
	return data[from:min(from+uint64(length), uint64(len(data)))]
}

// typeSize returns the number of bytes that follow struct btf_type, for a kind (BTF_KIND_*) and a number of members.
func typeSize(kind, members uint32) int {
	switch n := int(members); kind {
	case 1, 14, 17: // INT, VAR, DECL_TAG
		return 4
	case 3: // ARRAY
		return 12
	case 4, 5, 15, 19: // STRUCT, UNION, DATASEC, ENUM64
		return 12 * n
	case 6, 13: // ENUM, FUNC_PROTO
		return 8 * n
	}
	return 0
}

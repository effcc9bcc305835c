package linear

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// DecodePrograms decodes the feature BPF_PROG_INFO. The code in the result is a part of section, not a copy. An error contains the offset in
// the section; the programs before it are returned with it.
func DecodePrograms(section []byte, order binary.ByteOrder) ([]*Info, error) {
	n, rest, err := count(section, order)
	if err != nil {
		return nil, fmt.Errorf("feature BPF_PROG_INFO: %w", err)
	}
	var all []*Info
	for i := range n {
		info, after, err := Decode(rest, order)
		if err != nil {
			return all, fmt.Errorf("feature BPF_PROG_INFO: program %d of %d, at byte %d: %w", i+1, n, len(section)-len(rest), err)
		}
		all, rest = append(all, info), after
	}
	return all, nil
}

// DecodeBTF decodes the feature BPF_BTF. The data in the result is a part of section, not a copy. An error contains the offset in the section;
// the BTF before it is returned with it.
func DecodeBTF(section []byte, order binary.ByteOrder) ([]BTF, error) {
	n, rest, err := count(section, order)
	if err != nil {
		return nil, fmt.Errorf("feature BPF_BTF: %w", err)
	}
	var all []BTF
	for i := range n {
		fault := func(format string, args ...any) error {
			return fmt.Errorf("feature BPF_BTF: BTF %d of %d, at byte %d: "+format, append([]any{i + 1, n, len(section) - len(rest)}, args...)...)
		}
		if len(rest) < btfHeader {
			return all, fault("its head has %d bytes, of which there are %d", btfHeader, len(rest))
		}
		b, size := BTF{ID: order.Uint32(rest)}, order.Uint32(rest[4:])
		if int64(size) > int64(len(rest)-btfHeader) {
			return all, fault("it has %d bytes, of which there are %d", size, len(rest)-btfHeader)
		}
		b.Data, rest = rest[btfHeader:btfHeader+size:btfHeader+size], rest[btfHeader+size:]
		all = append(all, b)
	}
	return all, nil
}

func count(section []byte, order binary.ByteOrder) (n uint32, rest []byte, err error) {
	if len(section) < 4 {
		return 0, nil, fmt.Errorf("it has %d bytes, too few for a count", len(section))
	}
	return order.Uint32(section), section[4:], nil
}

// Decode decodes the program at the start of b, and returns the rest of b.
func Decode(b []byte, order binary.ByteOrder) (info *Info, rest []byte, err error) {
	if len(b) < blobHeader {
		return nil, nil, fmt.Errorf("its head has %d bytes, of which there are %d", blobHeader, len(b))
	}
	infoLen, dataLen, arrays := order.Uint32(b), order.Uint32(b[4:]), order.Uint64(b[8:])
	b = b[blobHeader:]
	if infoLen < infoMin {
		return nil, nil, fmt.Errorf("struct bpf_prog_info has %d bytes, less than the %d of Linux 5.1", infoLen, infoMin)
	}
	if int64(infoLen)+int64(dataLen) > int64(len(b)) {
		return nil, nil, fmt.Errorf("it has %d bytes and %d bytes of arrays, of which there are %d", infoLen, dataLen, len(b))
	}
	d := decoder{b[:infoLen], b[infoLen : infoLen+dataLen], arrays, order, nil}
	info = d.info()
	if d.err != nil {
		return nil, nil, d.err
	}
	return info, b[infoLen+dataLen:], nil
}

type decoder struct {
	head   []byte // struct bpf_prog_info
	data   []byte
	arrays uint64
	order  binary.ByteOrder
	err    error
}

func (d *decoder) info() *Info {
	u32, u64 := d.order.Uint32, d.order.Uint64
	h := d.head
	i := &Info{
		Type: u32(h), ID: u32(h[4:]), Tag: [8]byte(h[8:]), JITedSize: u32(h[16:]), TranslatedSize: u32(h[20:]), LoadTime: u64(h[40:]),
		UID: u32(h[48:]), Maps: u32(h[52:]), Name: text(h[64:80]), InterfaceIndex: u32(h[80:]), GPLCompatible: u32(h[84:])&firstBit(d.order.String()) != 0,
		NetNSDevice: u64(h[88:]), NetNSInode: u64(h[96:]), BTF: u32(h[128:]),
	}
	if len(h) >= infoSize {
		i.RunTime, i.Runs = u64(h[192:]), u64(h[200:])
	}
	i.JITed = slices.Clip(d.array(jitedCode, 1).data)
	i.Addresses = each(d.array(addresses, 8), u64)
	i.Sizes = each(d.array(sizes, 4), u32)
	i.Functions = each(d.array(functionInfo, functionLen), func(b []byte) FunctionInfo { return FunctionInfo{u32(b), u32(b[4:])} })
	i.Lines = each(d.array(lineInfo, lineLen), func(b []byte) LineInfo { return LineInfo{u32(b), u32(b[4:]), u32(b[8:]), u32(b[12:])} })
	i.JITedLines = each(d.array(jitedLines, 8), u64)
	i.Tags = each(d.array(tags, 8), func(b []byte) [8]byte { return [8]byte(b) })
	return i
}

// elements is an undecoded array whose elements have size bytes.
type elements struct {
	data []byte
	size int
}

// array returns the elements of an array. They may be longer than the known size, because newer kernels may extend them.
func (d *decoder) array(a array, known int) elements {
	if d.arrays>>a.bit&1 == 0 || d.err != nil {
		return elements{}
	}
	n, offset, size := uint64(d.order.Uint32(d.head[a.count:])), d.order.Uint64(d.head[a.pointer:]), a.size
	if n == 0 {
		return elements{}
	}
	if size == 0 {
		size = int(d.order.Uint32(d.head[a.sizeAt:]))
	}
	if size < known {
		d.err = fmt.Errorf("%s: elements have %d bytes, less than %d", a.name, size, known)
		return elements{}
	}
	if length := uint64(len(d.data)); offset > length || n > (length-offset)/uint64(size) {
		d.err = fmt.Errorf("%s: %d elements of %d bytes at byte %d are beyond the end of the %d bytes of arrays", a.name, n, size, offset, length)
		return elements{}
	}
	return elements{d.data[offset : offset+n*uint64(size)], size}
}

func each[T any](e elements, decode func([]byte) T) []T {
	if len(e.data) == 0 {
		return nil
	}
	all := make([]T, 0, len(e.data)/e.size)
	for b := e.data; len(b) > 0; b = b[e.size:] {
		all = append(all, decode(b))
	}
	return all
}

// firstBit returns the mask of a u32's first bit field, which is one bit: the lowest bit in little-endian order, the highest in big-endian.
func firstBit(order string) uint32 {
	if order == binary.BigEndian.String() {
		return 1 << 31
	}
	return 1
}

// text returns the bytes before the first 0, or all of them, as a string.
func text(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return string(s)
}

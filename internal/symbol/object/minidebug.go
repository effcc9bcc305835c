package object

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

// Bounds on .gnu_debugdata: its dictionary is as large as `xz -9` has it, and its symbols compress by a factor of about ten.
const (
	maxDictionary    = 64 << 20
	maxMiniExpansion = 100
)

var errBrokenXZ = errors.New("broken xz data")

// miniDebugInfo returns the ELF file in .gnu_debugdata, which Fedora and others ship the names of local functions in,
// or nil if there is none.
func (i *image) miniDebugInfo() (*image, error) {
	s := i.section(".gnu_debugdata")
	if s == nil {
		return nil, nil
	}
	packed, err := i.contents(s)
	if err != nil {
		return nil, err
	}
	data, err := unxz(packed, len(packed)*maxMiniExpansion+1<<16)
	if err != nil {
		return nil, fmt.Errorf("decompress .gnu_debugdata: %w", err)
	}
	return newImage(data)
}

// unxz decompresses an xz stream of LZMA2 blocks. The container is read here, as xz.Reader allocates as large a
// dictionary as the stream asks for, up to 4 GiB. The format: https://tukaani.org/xz/xz-file-format.txt.
func unxz(packed []byte, limit int) ([]byte, error) {
	const headerSize = 12
	if len(packed) < headerSize || !bytes.HasPrefix(packed, []byte("\xfd7zXZ\x00\x00")) {
		return nil, errBrokenXZ
	}
	checkSize := [16]int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}[packed[7]&0xf]
	var out bytes.Buffer
	rest := packed[headerSize:]
	for {
		if len(rest) == 0 {
			return nil, errBrokenXZ
		}
		if rest[0] == 0 { // the index, after the last block
			return out.Bytes(), nil
		}
		size := 4 * (int(rest[0]) + 1)
		if size > len(rest) {
			return nil, errBrokenXZ
		}
		dictionary, err := dictionarySize(rest[:size])
		if err != nil {
			return nil, err
		}
		block := bytes.NewReader(rest[size:])
		r, err := lzma.Reader2Config{DictCap: dictionary}.NewReader2(block)
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(&out, io.LimitReader(r, int64(limit-out.Len()+1))); err != nil {
			return nil, err
		}
		if out.Len() > limit {
			return nil, fmt.Errorf("%d bytes of xz data are of more than %d", len(packed), limit)
		}
		used := len(rest) - block.Len() - size
		rest = rest[min(len(rest), size+(used+3)&^3+checkSize):]
	}
}

// dictionarySize reads a block's header, which must have LZMA2 as its only filter.
func dictionarySize(header []byte) (int, error) {
	const lzma2 = 0x21
	flags, filters := header[1], header[2:]
	for _, present := range []byte{0x40, 0x80} { // the sizes of the block, packed and not
		if flags&present != 0 {
			_, n := binary.Uvarint(filters)
			filters = filters[max(n, 0):]
		}
	}
	if flags&3 != 0 || len(filters) < 3 || filters[0] != lzma2 || filters[1] != 1 {
		return 0, errors.New("it is not of LZMA2 alone")
	}
	size, err := lzma.DecodeDictCap(filters[2])
	if err != nil {
		return 0, err
	}
	if size > maxDictionary {
		return 0, fmt.Errorf("it needs a dictionary of %d bytes, and %d are the most that xz makes", size, maxDictionary)
	}
	return max(int(size), lzma.MinDictCap), nil
}

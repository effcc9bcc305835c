package object

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

// These limit decompression. `xz -9` has a dictionary of maxDictionary bytes, and code and symbols compress by a factor of about ten.
const (
	maxDictionary = 64 << 20
	maxRatio      = 100
)

var errBrokenXZ = errors.New("broken xz data")

// compressions are the formats that distributions compress kernel modules with, and how files in them start.
var compressions = []struct {
	magic  string
	unpack func(packed []byte, limit int) ([]byte, error)
}{
	{"\xfd7zXZ\x00", unxz},
	{"\x1f\x8b", gunzip},
	{"\x28\xb5\x2f\xfd", unzstd},
}

// unpack returns the contents of a file that is compressed as a whole. ok reports whether it is.
func unpack(file []byte) (data []byte, ok bool, err error) {
	for _, c := range compressions {
		if bytes.HasPrefix(file, []byte(c.magic)) {
			data, err := c.unpack(file, mostUnpacked(file))
			return data, true, err
		}
	}
	return nil, false, nil
}

// mostUnpacked returns a limit for the size of decompressed data, in bytes.
func mostUnpacked(packed []byte) int {
	return min(len(packed)*maxRatio+1<<16, maxUnpacked)
}

func gunzip(packed []byte, limit int) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return readUpTo(z, limit, len(packed), "gzip")
}

func unzstd(packed []byte, limit int) ([]byte, error) {
	z, err := newZstd(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return readUpTo(z, limit, len(packed), "zstd")
}

// readUpTo reads the contents of packed bytes of a kind. It fails if there are more than limit bytes.
func readUpTo(r io.Reader, limit, packed int, kind string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = fmt.Errorf("%d bytes of %s data are of more than %d", packed, kind, limit)
	}
	return data, err
}

// unxz decompresses an xz stream of LZMA2 blocks. It reads the container itself, because xz.Reader allocates a dictionary of the size that
// the stream asks for, up to 4 GiB. The format: https://tukaani.org/xz/xz-file-format.txt.
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

// dictionarySize returns the dictionary size in the header of a block. LZMA2 must be the only filter.
func dictionarySize(header []byte) (int, error) {
	const lzma2 = 0x21
	flags, filters := header[1], header[2:]
	for _, present := range []byte{0x40, 0x80} { // sizes of the block, compressed and uncompressed
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

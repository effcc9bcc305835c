package object

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unsafe"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// maxExpansion limits the factor by which a compressed section may grow, and maxSection its size in bytes.
const (
	maxExpansion = 64
	maxSection   = 4 << 30
)

// decompressor returns a reader for the contents of a compressed section, and their size. The reader is nil if the section is not
// compressed.
func (i *image) decompressor(s *elf.Section) (r io.Reader, size uint64, err error) {
	raw := i.slice(s.Offset, s.FileSize)
	kind, header := elf.COMPRESS_ZLIB, 24 // the size of Elf64_Chdr
	switch {
	case s.Flags&elf.SHF_COMPRESSED != 0:
		if i.elf.Class == elf.ELFCLASS32 {
			header = 12
		}
		if len(raw) >= header {
			kind = elf.CompressionType(i.elf.ByteOrder.Uint32(raw))
		}
		size = s.Size
	case strings.HasPrefix(s.Name, ".zdebug_") && len(raw) >= 12 && bytes.HasPrefix(raw, []byte("ZLIB")):
		// Compilers wrote this format before ELF had compressed sections: a size, and a zlib stream.
		size, header = binary.BigEndian.Uint64(raw[4:]), 12
	default:
		return nil, 0, nil
	}
	if len(raw) < header || size > maxSection || size > uint64(len(raw))*maxExpansion {
		return nil, 0, fmt.Errorf("%s claims to be of %d bytes, from %d compressed ones", s.Name, size, len(raw))
	}
	packed := bytes.NewReader(raw[header:])
	switch kind {
	case elf.COMPRESS_ZLIB:
		r, err = zlib.NewReader(packed)
	case elf.COMPRESS_ZSTD:
		r, err = newZstd(packed)
	default:
		err = fmt.Errorf("%v is not known", kind)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("decompress %s: %w", s.Name, err)
	}
	return r, size, nil
}

// newZstd returns a decoder with limited memory that runs in the goroutine of the reader.
func newZstd(packed io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxDictionary))
}

// inflating is a compressed section that is decompressed as far as needed, from its start. The result is kept in a file, so that unused
// parts can leave memory, as with sections that are not compressed. What an earlier run has stored is mapped as it is.
type inflating struct {
	data     []byte   // mapped, in full size
	inFile   bool     // data is that of a file
	writable bool     // data can be decompressed to
	scratch  *os.File // the mapped file, until all is decompressed or, if it is to be stored, until close
	r        io.Reader
	valid    uint64  // valid bytes of data
	skip     uint64  // bytes of r that are valid already
	buffer   []byte  // nil when all is decompressed
	stored   *stored // nil if nothing is stored
}

// inflateStep is the number of bytes that are decompressed at a time.
const inflateStep = 64 << 10

// newInflating returns a section of the given size that r decompresses. packed is the section as it is in the file.
func newInflating(r io.Reader, size uint64, packed []byte, in *store) (*inflating, error) {
	z := &inflating{r: r, buffer: make([]byte, min(size, inflateStep)), stored: in.of(packed, size)}
	if size == 0 {
		return z, nil
	}
	data, err := unix.Mmap(-1, 0, int(size), unix.PROT_NONE, inMemory) // reserves addresses, which fill maps
	if err != nil {
		return nil, fmt.Errorf("map %d bytes for what is decompressed: %w", size, err)
	}
	z.data = data
	return z, nil
}

// inMemory are the flags of a mapping of memory that is not reserved.
const inMemory = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE

// begin maps a new file to decompress to, or memory if no file can be created, in place of what is mapped. It keeps the valid bytes.
func (z *inflating) begin() error {
	var err error
	if z.stored != nil {
		if z.scratch, err = z.stored.create(uint64(len(z.data))); err != nil {
			z.stored = nil
		}
	}
	if z.scratch == nil {
		z.scratch = scratchFile(uint64(len(z.data)))
	}
	known := z.data[:z.valid]
	if z.scratch == nil {
		known = slices.Clone(known)
		err = mapOver(z.data, -1, unix.PROT_READ|unix.PROT_WRITE, inMemory)
		copy(z.data, known)
	} else if _, err = z.scratch.WriteAt(known, 0); err == nil {
		err = mapOver(z.data, int(z.scratch.Fd()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	z.inFile, z.writable = z.scratch != nil, true
	return err
}

// mapOver maps a file, or memory, in place of mapped data.
func mapOver(data []byte, fd, protection, flags int) error {
	_, err := unix.MmapPtr(fd, 0, unsafe.Pointer(unsafe.SliceData(data)), uintptr(len(data)), protection, flags|unix.MAP_FIXED)
	return err
}

// scratchFile returns a file without a name, or nil if it cannot create one.
func scratchFile(size uint64) *os.File {
	f, err := os.CreateTemp("", "bperf-")
	if err != nil {
		return nil
	}
	if err := errors.Join(os.Remove(f.Name()), f.Truncate(int64(size))); err != nil {
		_ = f.Close()
		return nil
	}
	return f
}

// fill decompresses up to end, or as far as it can, and returns the number of valid bytes.
func (z *inflating) fill(end uint64) (valid uint64) {
	if z.valid < end && z.stored != nil && z.stored.path == "" {
		z.valid = z.stored.read(z.data, z.buffer)
		z.skip, z.inFile = z.valid, z.valid > 0
		if z.valid == uint64(len(z.data)) {
			z.end()
		}
	}
	if z.valid < end && z.buffer != nil && !z.writable {
		if err := z.begin(); err != nil {
			z.end()
		}
	}
	if z.valid < end && z.skip > 0 && z.buffer != nil {
		n, err := io.CopyN(io.Discard, z.r, int64(z.skip))
		if z.skip -= uint64(n); err != nil {
			z.end()
		}
	}
	for z.valid < end && z.buffer != nil {
		part := z.buffer[:min(uint64(len(z.buffer)), uint64(len(z.data))-z.valid)]
		if !z.inFile {
			part = z.data[z.valid:][:len(part)]
		}
		n, err := io.ReadFull(z.r, part)
		if z.inFile && n > 0 {
			var writeErr error
			n, writeErr = z.scratch.WriteAt(part[:n], int64(z.valid))
			err = errors.Join(err, writeErr)
		}
		if z.stored != nil {
			z.stored.add(part[:n])
		}
		z.valid += uint64(n)
		if err != nil || z.valid == uint64(len(z.data)) {
			z.end()
		}
	}
	return z.valid
}

// end releases the resources of decompression.
func (z *inflating) end() {
	if d, ok := z.r.(*zstd.Decoder); ok {
		d.Close()
	}
	if z.scratch != nil && z.stored == nil {
		_ = z.scratch.Close() // what was written is mapped
		z.scratch = nil
	}
	z.r, z.buffer = nil, nil
}

// forget removes data that is in a file from memory.
func (z *inflating) forget() {
	if z.inFile {
		_ = unix.Madvise(z.data, unix.MADV_DONTNEED) // advice
	}
}

func (z *inflating) close() error {
	z.end()
	if z.stored != nil {
		z.stored.end(z.scratch, z.valid)
	}
	if z.data == nil {
		return nil
	}
	return unix.Munmap(z.data)
}

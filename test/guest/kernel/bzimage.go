package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// unpackBzImage replaces a bzImage by the ELF kernel in it.
func unpackBzImage(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	compressed, err := payload(b)
	if err != nil {
		return err
	}
	elf, err := decompress(compressed)
	if err != nil {
		return err
	}
	return os.WriteFile(file, elf, 0o644)
}

// payload returns the compressed kernel, which it finds by the setup header, boot protocol 2.08:
// https://docs.kernel.org/arch/x86/boot.html
func payload(b []byte) ([]byte, error) {
	const (
		setupSectors  = 0x1f1
		magic         = 0x202
		payloadOffset = 0x248
		payloadLength = 0x24c
		end           = 0x250
	)
	if len(b) < end || string(b[magic:magic+4]) != "HdrS" {
		return nil, errors.New("the kernel is not a bzImage: it has no setup header")
	}
	le := binary.LittleEndian
	protectedMode := (uint64(b[setupSectors]) + 1) * 512
	from := protectedMode + uint64(le.Uint32(b[payloadOffset:]))
	to := from + uint64(le.Uint32(b[payloadLength:]))
	const size = 4 // the kernel's build appends the kernel's size, 4 bytes, to the compressor's output
	if to > uint64(len(b)) || to < from+size {
		return nil, fmt.Errorf("the bzImage of %d bytes says that its payload is at %d to %d", len(b), from, to)
	}
	return b[from : to-size], nil
}

// The compressions of Debian's kernels: lz4 in bookworm, zstd in trixie.
var decompressors = []struct {
	magic   string
	program string
}{
	{"\x02\x21\x4c\x18", "lz4"},
	{"\x28\xb5\x2f\xfd", "zstd"},
}

func decompress(b []byte) ([]byte, error) {
	for _, d := range decompressors {
		if !bytes.HasPrefix(b, []byte(d.magic)) {
			continue
		}
		cmd := exec.Command(d.program, "-dc")
		cmd.Stdin = bytes.NewReader(b)
		cmd.Stderr = os.Stderr
		elf, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("decompress the kernel with %s: %w", d.program, err)
		}
		if !bytes.HasPrefix(elf, []byte("\x7fELF")) {
			return nil, errors.New("what the bzImage contains is not an ELF file")
		}
		return elf, nil
	}
	return nil, fmt.Errorf("the kernel is compressed in an unknown way: it starts with % x", b[:min(4, len(b))])
}

package kernel

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/bperf/bperf/internal/symbol"
	"github.com/bperf/bperf/internal/userfile"
)

// header begins a file of stored symbols. The key, modules, segments, entries and names follow. Numbers are little-endian.
type header struct {
	Magic    [8]byte
	Sum      uint32 // CRC-32C of everything after the header
	Key      uint32 // bytes
	Modules  uint32 // bytes; each name ends with a line feed
	Segments uint32
	Entries  uint32
	Names    uint32 // bytes, in blocks of namesSize except the last
}

// storedSegment is a segment in a file.
type storedSegment struct {
	Base   uint64
	First  uint32
	Module uint32 // index
}

// storedMagic names the format. Another format gets another name.
var storedMagic = [8]byte{'b', 'p', 'e', 'r', 'f', 'k', 's', '1'}

const (
	maxStored    = 128 << 20 // bytes of a file
	maxStoredKey = 1 << 20   // bytes
)

// errOther reports stored symbols that are not those that are wanted.
var errOther = errors.New("these are symbols of another kernel")

// Store writes the symbols to a file for Stored. It creates missing directories. The file is private to the user, because it has the kernel's
// addresses. The key names the kernel and its modules, and says where they are loaded.
func (k *Kallsyms) Store(path string, key []byte) error {
	lasting, ok := k.lasting()
	if !ok || len(key) > maxStoredKey {
		return errors.New("there is no form to store them")
	}
	if err := userfile.MakeOwned(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := userfile.OpenOwned(path, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	// A reader finds either the whole file or a wrong sum.
	err = f.Truncate(0)
	if err == nil {
		_, err = f.Write(lasting.encode(key))
	}
	return errors.Join(err, f.Close())
}

// lasting returns the symbols without code that comes and goes. That code becomes gaps, which begin where the symbol before them ends at the
// latest. It returns false if that is in the next module.
func (k *Kallsyms) lasting() (*Kallsyms, bool) {
	out := &Kallsyms{modules: k.modules, names: k.names}
	for i, s := range k.segments {
		n := len(out.segments)
		entries := k.entries[s.first:k.lastOf(i)]
		if ComesAndGoes(k.modules[s.module]) {
			if n == 0 || ComesAndGoes(k.modules[out.segments[n-1].module]) {
				continue
			}
			s.base = symbol.EndOfLast(out.segments[n-1].base + uint64(out.entries[len(out.entries)-1].start))
			entries = []entry{{}}
		} else if n > 0 && out.segments[n-1].base >= s.base {
			return nil, false
		}
		s.first = uint32(len(out.entries))
		out.segments, out.entries = append(out.segments, s), append(out.entries, entries...)
	}
	return out, len(out.entries) > 0
}

// lastOf returns the end of a segment in entries.
func (k *Kallsyms) lastOf(segment int) int {
	if segment+1 < len(k.segments) {
		return int(k.segments[segment+1].first)
	}
	return len(k.entries)
}

func (k *Kallsyms) encode(key []byte) []byte {
	modules := strings.Join(k.modules, "\n") + "\n"
	h := header{Magic: storedMagic, Key: uint32(len(key)), Modules: uint32(len(modules)),
		Segments: uint32(len(k.segments)), Entries: uint32(len(k.entries)), Names: uint32(k.namesLength())}
	start := binary.Size(h)
	b := make([]byte, start, h.size())
	b = append(append(b, key...), modules...)
	le := binary.LittleEndian
	for _, s := range k.segments {
		b = le.AppendUint32(le.AppendUint32(le.AppendUint64(b, s.base), s.first), uint32(s.module))
	}
	for _, e := range k.entries {
		b = le.AppendUint32(le.AppendUint32(b, e.start), e.name)
	}
	for i, block := range k.names {
		b = append(b, block...)
		if i+1 < len(k.names) {
			b = append(b, make([]byte, namesSize-len(block))...)
		}
	}
	h.Sum = crc32.Checksum(b[start:], userfile.Castagnoli())
	if _, err := binary.Encode(b, le, h); err != nil {
		panic(err) // cannot happen: the header has a fixed size, for which there is room
	}
	return b
}

// Stored reads the symbols that Store has written with the same key. If reference is not empty, it relocates them as Parse does. It fails if
// anything about the file does not fit: its owner, its mode, its size, its sum or the key.
func Stored(path string, key []byte, reference string, address uint64) (*Kallsyms, error) {
	f, err := userfile.OpenOwned(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	k, err := decode(f, info.Size(), key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if reference != "" {
		at, ok := k.address(reference)
		if !ok {
			return nil, errOther
		}
		k.delta = address - at
	}
	return k, nil
}

// FindStored is Find for symbols that Stored has returned. It is sure unless the symbol ends at the latest possible address, where code that
// comes and goes may have begun by now.
func (k *Kallsyms) FindStored(addr uint64) (s Symbol, ok, sure bool) {
	s, ok = k.Find(addr)
	return s, ok, !ok || s.End != symbol.EndOfLast(s.Start)
}

// size returns the size of the file in bytes.
func (h *header) size() int64 {
	return int64(binary.Size(h)) + int64(h.Key) + int64(h.Modules) + int64(h.Segments)*int64(binary.Size(storedSegment{})) + int64(h.Entries)*8 + int64(h.Names)
}

func decode(r io.Reader, size int64, key []byte) (*Kallsyms, error) {
	le := binary.LittleEndian
	in := bufio.NewReaderSize(r, namesSize)
	var h header
	if err := binary.Read(in, le, &h); err != nil {
		return nil, err
	}
	if h.Magic != storedMagic || size != h.size() || size > maxStored || int(h.Key) != len(key) {
		return nil, errOther
	}
	sum := crc32.New(userfile.Castagnoli())
	body := io.TeeReader(in, sum)
	read := make([]byte, len(key))
	if _, err := io.ReadFull(body, read); err != nil || !bytes.Equal(read, key) {
		return nil, errors.Join(errOther, err)
	}
	modules := make([]byte, h.Modules)
	if _, err := io.ReadFull(body, modules); err != nil {
		return nil, err
	}
	k := &Kallsyms{modules: strings.Split(strings.TrimSuffix(string(modules), "\n"), "\n"), segments: make([]segment, h.Segments), entries: make([]entry, h.Entries)}
	var b [namesSize]byte
	for i := range k.segments {
		if _, err := io.ReadFull(body, b[:16]); err != nil {
			return nil, err
		}
		k.segments[i] = segment{le.Uint64(b[:]), le.Uint32(b[8:]), uint16(min(le.Uint32(b[12:]), math.MaxUint16))}
	}
	for i := 0; i < len(k.entries); {
		part := b[:min(8*(len(k.entries)-i), len(b))]
		if _, err := io.ReadFull(body, part); err != nil {
			return nil, err
		}
		for ; len(part) > 0; part = part[8:] {
			k.entries[i] = entry{le.Uint32(part), le.Uint32(part[4:])}
			i++
		}
	}
	for left := int(h.Names); left > 0; left -= namesSize {
		block := b[:min(left, namesSize)]
		if _, err := io.ReadFull(body, block); err != nil {
			return nil, err
		}
		k.names = append(k.names, string(block))
	}
	if sum.Sum32() != h.Sum || !k.valid() {
		return nil, errors.New("it is damaged")
	}
	return k, nil
}

// valid reports whether Find can use symbols that were read from a file.
func (k *Kallsyms) valid() bool {
	for i, s := range k.segments {
		if i+1 < len(k.segments) && k.segments[i+1].base <= s.base {
			return false
		}
		end := k.lastOf(i)
		if int(s.module) >= len(k.modules) || i == 0 && s.first != 0 || int(s.first) >= end || end > len(k.entries) || k.entries[s.first].start != 0 {
			return false
		}
	}
	for _, e := range k.entries {
		if int(e.name>>bindingBits) >= k.namesLength() {
			return false
		}
	}
	return len(k.segments) > 0
}

// namesLength returns the number of bytes from the first name to the end of the last.
func (k *Kallsyms) namesLength() int {
	n := len(k.names) - 1
	if n < 0 {
		return 0
	}
	return n*namesSize + len(k.names[n])
}

// address returns the address of a symbol of the kernel itself.
func (k *Kallsyms) address(name string) (uint64, bool) {
	for i, s := range k.segments {
		for _, e := range k.entries[s.first:k.lastOf(i)] {
			if k.modules[s.module] == "" && strings.HasPrefix(k.nameAt(e), name+"\n") {
				return s.base + uint64(e.start), true
			}
		}
	}
	return 0, false
}

// nameAt returns the text that begins with the name of an entry, whose end is a line feed.
func (k *Kallsyms) nameAt(e entry) string {
	at := e.name >> bindingBits
	return k.names[at/namesSize][at%namesSize:]
}

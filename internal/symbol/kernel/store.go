package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

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

// errDamaged reports stored symbols that are not as Store has written them.
var errDamaged = errors.New("it is damaged")

// Store writes the symbols to a file for Stored. It creates missing directories. The file is private to the user, because it has the kernel's
// addresses. The key names the kernel and its modules, and says where they are loaded.
func (k *Kallsyms) Store(path string, key []byte) error {
	lasting, ok := k.lasting()
	if !ok || len(key) > maxStoredKey {
		return errors.New("there is no form to store them")
	}
	return userfile.Replace(path, lasting.encode(key))
}

// lasting returns the symbols without code that comes and goes. That code becomes gaps, which begin where the symbol before them ends at the
// latest. It returns false if that is in the next module.
func (k *Kallsyms) lasting() (*Kallsyms, bool) {
	out := &Kallsyms{modules: k.modules, names: k.names}
	for i, s := range k.segments {
		n := len(out.segments)
		of := k.entries.slice(int(s.first), k.lastOf(i))
		if ComesAndGoes(k.modules[s.module]) {
			if n == 0 || ComesAndGoes(k.modules[out.segments[n-1].module]) {
				continue
			}
			s.base = symbol.EndOfLast(out.segments[n-1].base + uint64(out.entries.at(out.entries.len()-1).start))
			of = entries{}.append(entry{})
		} else if n > 0 && out.segments[n-1].base >= s.base {
			return nil, false
		}
		s.first = uint32(out.entries.len())
		out.segments, out.entries = append(out.segments, s), append(out.entries, of...)
	}
	return out, out.entries.len() > 0
}

// lastOf returns the end of a segment in entries.
func (k *Kallsyms) lastOf(segment int) int {
	if segment+1 < len(k.segments) {
		return int(k.segments[segment+1].first)
	}
	return k.entries.len()
}

func (k *Kallsyms) encode(key []byte) []byte {
	modules := strings.Join(k.modules, "\n") + "\n"
	h := header{Magic: storedMagic, Key: uint32(len(key)), Modules: uint32(len(modules)),
		Segments: uint32(len(k.segments)), Entries: uint32(k.entries.len()), Names: uint32(k.namesLength())}
	start := binary.Size(h)
	b := make([]byte, start, h.size())
	b = append(append(b, key...), modules...)
	le := binary.LittleEndian
	for _, s := range k.segments {
		b = le.AppendUint32(le.AppendUint32(le.AppendUint64(b, s.base), s.first), uint32(s.module))
	}
	b = append(b, k.entries...)
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

// Stored maps the symbols that Store has written with the same key. If reference is not empty, it relocates them as Parse does. It fails if
// anything about the file does not fit: its owner, its mode, its size, its sum or the key.
func Stored(path string, key []byte, reference string, address uint64) (k *Kallsyms, err error) {
	f, err := userfile.OpenOwned(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 || info.Size() > maxStored {
		return nil, errOther
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	cut := whole(func() { k, err = decodeFor(data, key, reference, address) })
	if err = errors.Join(cut, err); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), syscall.Munmap(data))
	}
	runtime.AddCleanup(k, func(data []byte) { _ = syscall.Munmap(data) }, data) // nothing else refers to it: Find copies names
	return k, nil
}

func decodeFor(file, key []byte, reference string, address uint64) (*Kallsyms, error) {
	k, err := decode(file, key)
	if err != nil || reference == "" {
		return k, err
	}
	at, ok := k.address(reference)
	if !ok {
		return nil, errOther
	}
	k.delta = address - at
	return k, nil
}

// whole calls read. It returns an error if somebody has cut off the mapped file that read reads. bperf only replaces it.
func whole(read func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // see debug.SetPanicOnFault
			err = fmt.Errorf("it was cut off: %v", cause)
		default:
			panic(cause)
		}
	}()
	read()
	return nil
}

// FindStored is Find for symbols that Stored has returned. It is sure unless the symbol ends at the latest possible address, where code that
// comes and goes may have begun by now, or the file was cut off.
func (k *Kallsyms) FindStored(addr uint64) (s Symbol, ok, sure bool) {
	err := whole(func() { s, ok = k.Find(addr) })
	runtime.KeepAlive(k) // and so the mapping
	return s, ok, err == nil && (!ok || s.End != symbol.EndOfLast(s.Start))
}

// size returns the size of the file in bytes.
func (h *header) size() int64 {
	return int64(binary.Size(h)) + int64(h.Key) + int64(h.Modules) + int64(h.Segments)*int64(binary.Size(storedSegment{})) + int64(h.Entries)*entrySize + int64(h.Names)
}

// decode returns the symbols in a file. They refer to it.
func decode(file, key []byte) (*Kallsyms, error) {
	le := binary.LittleEndian
	var h header
	n, err := binary.Decode(file, le, &h)
	if err != nil {
		return nil, err
	}
	if h.Magic != storedMagic || int64(len(file)) != h.size() || int(h.Key) != len(key) {
		return nil, errOther
	}
	body := file[n:]
	if crc32.Checksum(body, userfile.Castagnoli()) != h.Sum {
		return nil, errDamaged
	}
	next := func(n int) (part []byte) {
		part, body = body[:n], body[n:]
		return part
	}
	if !bytes.Equal(next(len(key)), key) {
		return nil, errOther
	}
	modules := strings.TrimSuffix(string(next(int(h.Modules))), "\n")
	k := &Kallsyms{modules: strings.Split(modules, "\n"), segments: make([]segment, h.Segments)}
	for i := range k.segments {
		b := next(binary.Size(storedSegment{}))
		k.segments[i] = segment{le.Uint64(b), le.Uint32(b[8:]), uint16(min(le.Uint32(b[12:]), math.MaxUint16))}
	}
	k.entries = next(entrySize * int(h.Entries))
	k.names = slices.Collect(slices.Chunk(body, namesSize))
	if !k.valid() {
		return nil, errDamaged
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
		if int(s.module) >= len(k.modules) || i == 0 && s.first != 0 || int(s.first) >= end || end > k.entries.len() || k.entries.at(int(s.first)).start != 0 {
			return false
		}
	}
	for i := range k.entries.len() {
		if int(k.entries.at(i).name>>bindingBits) >= k.namesLength() {
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
	wanted := []byte(name + "\n")
	for i, s := range k.segments {
		for j := int(s.first); j < k.lastOf(i); j++ {
			if e := k.entries.at(j); k.modules[s.module] == "" && bytes.HasPrefix(k.nameAt(e), wanted) {
				return s.base + uint64(e.start), true
			}
		}
	}
	return 0, false
}

// nameAt returns the text that begins with the name of an entry, whose end is a line feed.
func (k *Kallsyms) nameAt(e entry) []byte {
	at := e.name >> bindingBits
	return k.names[at/namesSize][at%namesSize:]
}

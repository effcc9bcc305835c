package procfs

import (
	"bytes"
	"io"
	"iter"
	"strconv"
)

// Mapping is a range of the memory of a process.
type Mapping struct {
	Start, End   uint64
	Perms        [4]byte // r, w, x, each or -, then s for shared or p for private
	Offset       uint64  // in the file
	Major, Minor uint32  // the device of the file
	Inode        uint64  // 0 for memory without a file
	Path         []byte  // as the kernel writes it: \012 is a newline; empty for memory without a name; valid until the next mapping
}

// Executable reports whether the memory is executable.
func (m *Mapping) Executable() bool { return m.Perms[2] == 'x' }

// Mappings reads /proc/PID/maps (proc_pid_maps(5)) and yields the mappings in ascending order of addresses. It reads in pieces, because the
// file can have a million lines, and skips malformed lines. It reads into buffer, or into one of 64 KiB if buffer is nil. The mappings end
// early at a line that does not fit in the buffer, or if the process has ended.
func Mappings(maps io.Reader, buffer []byte) iter.Seq[*Mapping] {
	return func(yield func(*Mapping) bool) {
		if buffer == nil {
			buffer = make([]byte, 64<<10)
		}
		var m Mapping
		for have := 0; ; {
			n, err := maps.Read(buffer[have:])
			have += n
			lines := buffer[:have]
			for {
				line, rest, whole := bytes.Cut(lines, []byte("\n"))
				if !whole {
					break
				}
				lines = rest
				if m.parse(line) && !yield(&m) {
					return
				}
			}
			have = copy(buffer, lines)
			if err != nil || have == len(buffer) {
				return
			}
		}
	}
}

func (m *Mapping) parse(line []byte) bool {
	addresses, line := nextField(line)
	perms, line := nextField(line)
	offset, line := nextField(line)
	device, line := nextField(line)
	inode, line := nextField(line)
	start, end, ok1 := bytes.Cut(addresses, []byte("-"))
	major, minor, ok2 := bytes.Cut(device, []byte(":"))
	if !ok1 || !ok2 || len(perms) != len(m.Perms) {
		return false
	}
	m.Start, m.End, m.Offset = parseHex(start), parseHex(end), parseHex(offset)
	copy(m.Perms[:], perms)
	m.Major, m.Minor = uint32(parseHex(major)), uint32(parseHex(minor))
	m.Inode, _ = strconv.ParseUint(string(inode), 10, 64)
	m.Path = bytes.TrimLeft(line, " ")
	return m.End > m.Start
}

func nextField(line []byte) (field, rest []byte) {
	line = bytes.TrimLeft(line, " ")
	field, rest, _ = bytes.Cut(line, []byte(" "))
	return field, rest
}

// parseHex reads hexadecimal digits up to the first other character.
func parseHex(b []byte) (n uint64) {
	for _, c := range b {
		digit, ok := hexDigit(c)
		if !ok {
			break
		}
		n = n<<4 | digit
	}
	return n
}

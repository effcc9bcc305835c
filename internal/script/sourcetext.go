package script

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/perfdata"
)

// maxSourceLine is the maximum number of bytes of a source line that is printed: a small recording can name a file with long lines often.
const maxSourceLine = 512

// sourceText prints the source lines of samples. It is for one goroutine.
type sourceText struct {
	files object.Sources
	last  map[int32]sourceLine // the line that was printed last of each thread

	err    error           // of the first file that could not be read
	unread map[string]bool // source files that could not be read
}

// sourceLine is a line of a source file.
type sourceLine struct {
	file string
	line int
}

func newSourceText(reader *perfdata.Reader, files object.Search) *sourceText {
	s := &sourceText{files: object.Sources{Search: files}, last: make(map[int32]sourceLine), unread: make(map[string]bool)}
	if owner, known := reader.Owner(); known {
		s.files.Owners = []int{int(owner)} // the recording names the ELF files
	}
	return s
}

// line prints the source line of the code offset bytes after a location, if it is known and not the one that was printed last of the
// thread.
func (s *sourceText) line(l *replay.Location, offset uint64, tid int32, out []byte) []byte {
	file, addr := l.File()
	if file == nil {
		return out
	}
	rows := file.Lines(addr+offset, addr+offset+1)
	if len(rows) == 0 {
		return out
	}
	at := sourceLine{rows[0].File, rows[0].Line}
	if s.last[tid] == at {
		return out
	}
	text, err := s.files.Line(file, at.file, at.line)
	if err != nil {
		if s.err == nil {
			s.err = err
		}
		s.unread[at.file] = true
	}
	if text == "" {
		return out
	}
	s.last[tid] = at
	start := len(out) + 1
	out = printable.AlignLeft(strconv.AppendInt(append(out, '|'), int64(at.line), 10), start, 8)
	text = strings.TrimSuffix(text[:min(len(text), maxSourceLine)], "\r")
	return append(append(append(out, ' '), printable.Lines(text)...), '\n')
}

// problem returns which source files could not be read, and why.
func (s *sourceText) problem() []string {
	if s.err == nil {
		return nil
	}
	text := "source is left out: " + s.err.Error()
	if n := len(s.unread); n > 1 {
		text += fmt.Sprintf(" (and %d more files)", n-1)
	}
	return []string{text}
}

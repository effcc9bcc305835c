package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// Tracing returns the feature TRACING_DATA, which readers need to print the raw data of the given tracepoints ("system:name"). It has the layout of
// the head of trace.dat, version 0.6 (https://man7.org/linux/man-pages/man5/trace-cmd.dat.v6.5.html).
func Tracing(tracefs fs.FS, tracepoints []string) (perfdata.TracingData, error) {
	w := traceWriter{root: tracefs}
	w.b = append(w.b, "\x17\x08\x44tracing0.6\x00"...)
	w.b = append(w.b, 0, 8) // little-endian, as all machines that bperf runs on; the size of a long
	w.u32(uint32(os.Getpagesize()))
	w.b = append(w.b, "header_page\x00"...)
	w.file("events/header_page")
	w.b = append(w.b, "header_event\x00"...)
	w.file("events/header_event")
	systems := bySystem(tracepoints)
	w.formats("ftrace", systems["ftrace"])
	delete(systems, "ftrace")
	names := slices.Sorted(maps.Keys(systems))
	w.u32(uint32(len(names)))
	for _, system := range names {
		w.b = append(append(w.b, system...), 0)
		w.formats(system, systems[system])
	}
	w.u32(0) // kallsyms, which no reader needs here
	w.sized32("printk_formats")
	w.file("saved_cmdlines")
	return perfdata.TracingData(w.b), w.err
}

func bySystem(tracepoints []string) map[string][]string {
	systems := make(map[string][]string)
	for _, full := range tracepoints {
		system, name, _ := strings.Cut(full, ":")
		if !slices.Contains(systems[system], name) {
			systems[system] = append(systems[system], name)
		}
	}
	return systems
}

type traceWriter struct {
	root fs.FS
	b    []byte
	err  error
}

func (w *traceWriter) u32(n uint32) { w.b = binary.NativeEndian.AppendUint32(w.b, n) }

// read returns the content of a file; empty if there is no such file.
func (w *traceWriter) read(name string) []byte {
	content, err := fs.ReadFile(w.root, name)
	if err != nil && w.err == nil && !errors.Is(err, fs.ErrNotExist) {
		w.err = fmt.Errorf("read tracefs: %w", err)
	}
	return content
}

func (w *traceWriter) file(name string) {
	content := w.read(name)
	w.b = binary.NativeEndian.AppendUint64(w.b, uint64(len(content)))
	w.b = append(w.b, content...)
}

func (w *traceWriter) sized32(name string) {
	content := w.read(name)
	w.u32(uint32(len(content)))
	w.b = append(w.b, content...)
}

func (w *traceWriter) formats(system string, names []string) {
	w.u32(uint32(len(names)))
	for _, name := range names {
		w.file("events/" + system + "/" + name + "/format")
	}
}

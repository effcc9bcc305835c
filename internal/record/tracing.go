package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// tracing is the feature TRACING_DATA: what readers need to know of the tracepoints whose raw data is recorded. It is laid out like the head of
// trace.dat (https://man7.org/linux/man-pages/man5/trace-cmd.dat.v6.5.html), version 0.6.
func tracing(tracefs fs.FS, tracepoints []string) (perfdata.TracingData, error) {
	w := traceWriter{root: tracefs}
	w.b = append(w.b, "\x17\x08\x44tracing0.6\x00"...)
	w.b = append(w.b, byte(btoi(bigEndian)), 8)
	w.u32(uint32(os.Getpagesize()))
	w.b = append(w.b, "header_page\x00"...)
	w.file("events/header_page")
	w.b = append(w.b, "header_event\x00"...)
	w.file("events/header_event")
	systems := bySystem(tracepoints)
	w.formats("ftrace", systems["ftrace"])
	delete(systems, "ftrace")
	names := sortedKeys(systems)
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

func sortedKeys(m map[string][]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

type traceWriter struct {
	root fs.FS
	b    []byte
	err  error
}

func (w *traceWriter) u32(n uint32) { w.b = binary.NativeEndian.AppendUint32(w.b, n) }

// read reads a file. One that is not there is empty.
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

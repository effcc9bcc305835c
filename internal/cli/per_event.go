package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/script"
	"github.com/bperf/bperf/perfdata"
)

// eventFile is a file of --per-event-dump.
type eventFile struct {
	script.EventOutput
	file   *os.File
	buffer *bufio.Writer
	bytes  int64
}

func (f *eventFile) Write(text []byte) (int, error) {
	f.bytes += int64(len(text))
	return f.buffer.Write(text)
}

// maxEventFiles bounds the files that a damaged recording can make.
const maxEventFiles = 1000

// createEventFiles creates a file for each event beside the recording. Events with the same name share one.
func createEventFiles(recording string, events []*perfdata.Event) (files []*eventFile, outputs []*script.EventOutput, err error) {
	if len(events) > maxEventFiles {
		return nil, nil, fmt.Errorf("--per-event-dump: the recording has %d events, and bperf makes at most %d files", len(events), maxEventFiles)
	}
	byName := make(map[string]*eventFile)
	for _, e := range events {
		// perf fails on the slashes of cpu/cycles/.
		path := recording + "." + strings.ReplaceAll(printable.Text(e.Name), "/", "_") + ".dump"
		f := byName[path]
		if f == nil {
			file, err := os.Create(path)
			if err != nil {
				closeEventFiles(files)
				return nil, nil, fmt.Errorf("--per-event-dump: %w", err)
			}
			f = &eventFile{file: file, buffer: bufio.NewWriter(file)}
			f.Writer = f
			byName[path] = f
			files = append(files, f)
		}
		outputs = append(outputs, &f.EventOutput)
	}
	return files, outputs, nil
}

// reportEventFiles completes the files and prints what was written to them.
func reportEventFiles(w io.Writer, files []*eventFile) error {
	for i, f := range files {
		err := f.buffer.Flush()
		if closed := f.file.Close(); err == nil {
			err = closed
		}
		if err != nil {
			closeEventFiles(files[i+1:])
			return err
		}
		fmt.Fprintf(w, "[ bperf script: Wrote %.3f MB %s (%d samples) ]\n", float64(f.bytes)/(1<<20), printable.Text(f.file.Name()), f.Samples)
	}
	return nil
}

func closeEventFiles(files []*eventFile) {
	for _, f := range files {
		f.file.Close()
	}
}

// Package jit names what JIT compilers make, by the files that they leave: perf-PID.map (tools/perf/Documentation/jit-interface.txt) and
// jit-PID.dump (tools/perf/Documentation/jitdump-specification.txt).
package jit

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/symbol/timeline"
)

// maxFunctions is the number of functions that are read from a file: the owner of a process decides what stands there, and each takes some
// 200 bytes of memory. It fits the files of 64 MiB that are read.
const maxFunctions = 1 << 20

// ParseMap reads a perf-PID.map: lines of start and size, in hexadecimal, and a name. It tells of no times; where code lies over other
// code, that which comes later in the file is taken, as the compiler adds to it. Lines that cannot be read are left out, and so are
// those behind the first 1,048,576 functions; the error reports both. The strings are part of the text.
func ParseMap(text string) (*timeline.Timeline, error) {
	events := make([]timeline.Event, 0, min(len(text)/64+1, maxFunctions))
	bad, first := 0, ""
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		e, ok := parseLine(line)
		if !ok {
			if bad++; bad == 1 {
				first = fmt.Sprintf("line %d: %.100q is not a start, a size and a name", n, line)
			}
			continue
		}
		if len(events) == maxFunctions {
			return new(timeline.Timeline).With(events), fmt.Errorf("it has more than %d functions", maxFunctions)
		}
		events = append(events, e)
	}
	t := new(timeline.Timeline).With(events)
	if bad > 0 {
		return t, fmt.Errorf("%d lines cannot be read, the first of them %s", bad, first)
	}
	return t, nil
}

func parseLine(line string) (e timeline.Event, ok bool) {
	start, rest, _ := strings.Cut(line, " ")
	size, name, _ := strings.Cut(rest, " ")
	var errs [2]error
	e.Address, errs[0] = strconv.ParseUint(strings.TrimPrefix(start, "0x"), 16, 64)
	e.Size, errs[1] = strconv.ParseUint(strings.TrimPrefix(size, "0x"), 16, 64)
	e.Name = strings.TrimSpace(name)
	return e, errs[0] == nil && errs[1] == nil && e.Name != ""
}

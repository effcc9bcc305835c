package script

import (
	"io"

	"github.com/bperf/bperf/internal/perfdata"
)

// PrintHeader prints what the header of a recording tells, as perf does.
func PrintHeader(w io.Writer, reader *perfdata.Reader) {
}

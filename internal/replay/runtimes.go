package replay

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
)

// mapWriters are files of runtimes that compile code in memory, with what makes the runtime describe that code in perf-PID.map.
var mapWriters = [...]struct{ file, how string }{
	{"node", nodeWrites},       // https://nodejs.org/en/learn/diagnostics/poor-performance/using-linux-perf
	{"libnode.so", nodeWrites}, // Debian's Node.js
	{"libjvm.so", "JDK 17 or later writes it at jcmd PID Compiler.perfmap; -XX:+PreserveFramePointer makes stacks whole"}, // jcmd(1)
	{"libcoreclr.so", ".NET writes it with DOTNET_PerfMapEnabled=1"},                                                      // https://learn.microsoft.com/dotnet/core/runtime-config/debugging-profiling
	{"beam.smp", "Erlang writes it with erl +JPperf true"},                                                                // https://www.erlang.org/doc/apps/erts/beamasm
}

const nodeWrites = "Node.js writes it with node --perf-basic-prof"

// jitRuntime is the runtime that a process has mapped. A handler may read it while the process maps files.
type jitRuntime struct{ how atomic.Pointer[string] }

// maps notes that the process maps a file, given by its name without the directory.
func (r *jitRuntime) maps(file string) {
	for i := range mapWriters {
		if w := &mapWriters[i]; file == w.file || strings.HasPrefix(file, w.file+".") {
			r.how.Store(&w.how)
		}
	}
}

// explain adds to an error of reading a perf map how the runtime writes one.
func (r *jitRuntime) explain(err error) error {
	if how := r.how.Load(); how != nil && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (%s)", err, *how)
	}
	return err
}

package main

import (
	"context"
	"os"
	"os/exec"
	"time"
)

// decoders are the fuzz targets of code that decodes files or data from the kernel, as arguments of test/fuzz. The targets of a decoder share
// its time.
var decoders = []string{"./perfdata:FuzzFile,FuzzPipe", "./perfdata:FuzzRecord", "./perfdata:FuzzFeature", "./internal/tracedata",
	"./internal/symbol", "./internal/symbol/object", "./internal/symbol/dwarf", "./internal/symbol/pclntab", "./internal/symbol/unwind", "./internal/symbol/jit", "./internal/typed", "./internal/config",
	"./internal/event/eventfile",
	"./internal/symbol/kernel", "./internal/bpfprog:FuzzTypeName,FuzzAttributes", "./internal/bpfprog/linear", "./internal/bpfprog/disasm", "./internal/record", "./internal/record/chains", "./internal/record/snapshot",
	"./internal/perfevent", "./internal/report", "./internal/serve/container", "./internal/serve/settings"}

// fuzzJobs returns a job that fuzzes every decoder for the time each, on all CPUs.
func fuzzJobs(each time.Duration) []job {
	return []job{{
		where: where{kernel: host},
		name:  "fuzz",
		run: func(ctx context.Context, r *run) error {
			cmd := exec.Command("go", append([]string{"run", "./test/fuzz", "-time", each.String()}, decoders...)...)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			return execute(ctx, r, cmd, time.Duration(len(decoders))*(each+testTimeout))
		},
	}}
}

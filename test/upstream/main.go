// Upstream prints the path of an upstream program: the perf for guests of an architecture, a bpftool that finds the processes that hold
// programs, the perf of a Debian suite for this machine, or a server of fleets. If the program is not in the cache, it builds or fetches it first.
//
//	go run ./test/upstream ARCH|bpftool|SUITE|promtool|prometheus|victoria-metrics
//
// It also prints the options in the manual pages of a suite's perf, the list that internal/cli tests bperf's options with:
//
//	go run ./test/upstream options SUITE > internal/cli/testdata/perf-options.txt
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/bperf/bperf/test/engines"
	"github.com/bperf/bperf/test/upstream/built"
	"github.com/bperf/bperf/test/upstream/packaged"
)

func main() {
	var out string
	var err error
	switch {
	case len(os.Args) == 2:
		out, err = get(os.Args[1])
		out += "\n"
	case len(os.Args) == 3 && os.Args[1] == "options":
		out, err = packaged.Options(os.Args[2])
	default:
		fmt.Fprintln(os.Stderr, "usage: upstream amd64|arm64|bpftool|bookworm|testing|promtool|prometheus|prometheus-3|collector|victoria-metrics\n       upstream options SUITE")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
	fmt.Print(out)
}

func get(which string) (string, error) {
	switch which {
	case packaged.Oldest, packaged.Newest:
		return packaged.Get(which, runtime.GOARCH)
	case engines.Promtool, engines.Prometheus, engines.Prometheus3, engines.Collector, engines.VictoriaMetrics:
		return engines.Get(which)
	case "bpftool":
		return built.Bpftool()
	}
	return built.Perf(which)
}

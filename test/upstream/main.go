// Upstream prints the path of an upstream program: the perf for guests of an architecture, a bpftool that finds the processes that hold
// programs, or the perf of a Debian suite for this machine. If the program is not in the cache, it builds or fetches it first.
//
//	go run ./test/upstream ARCH|bpftool|SUITE
package main

import (
	"fmt"
	"os"

	"github.com/bperf/bperf/test/upstream/built"
	"github.com/bperf/bperf/test/upstream/packaged"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: upstream amd64|arm64|bpftool|bookworm|testing")
		os.Exit(2)
	}
	path, err := get(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}

func get(which string) (string, error) {
	switch which {
	case packaged.Oldest, packaged.Newest:
		return packaged.Get(which)
	case "bpftool":
		return built.Bpftool()
	}
	return built.Perf(which)
}

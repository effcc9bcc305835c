// Upstream prints the path of a program of upstream: the perf for a guest of an architecture, or a bpftool that tells who holds programs, which
// are built first where they are not in the cache; or the perf that Debian testing packages, for this machine.
//
//	go run ./test/upstream ARCH|bpftool|packaged
package main

import (
	"fmt"
	"os"

	"github.com/bperf/bperf/test/upstream/built"
	"github.com/bperf/bperf/test/upstream/packaged"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: upstream ARCH|bpftool|packaged")
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
	case "packaged":
		return packaged.Get()
	case "bpftool":
		return built.Bpftool()
	}
	return built.Perf(which)
}

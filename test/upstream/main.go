// Upstream prints the path of an upstream perf: for a guest of the architecture, which is built first where it is not in
// the cache; or the one that Debian testing packages, for this machine.
//
//	go run ./test/upstream ARCH|packaged
package main

import (
	"fmt"
	"os"

	"github.com/bperf/bperf/test/upstream/packaged"
	"github.com/bperf/bperf/test/upstream/perf"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: upstream ARCH|packaged")
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
	if which == "packaged" {
		return packaged.Get()
	}
	return perf.Get(which)
}

// Upstream prints the path of an upstream perf for a guest of the architecture, which is built first where it is not in
// the cache.
//
//	go run ./test/upstream ARCH
package main

import (
	"fmt"
	"os"

	"github.com/bperf/bperf/test/upstream/perf"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./test/upstream ARCH")
		os.Exit(2)
	}
	path, err := perf.Get(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}

// Tally copies the output of `go test -v`, of any number of runs, from standard input to standard output, and ends with
// what failed, what was skipped and why, and one line "N passed, N failed".
//
//	go test -v ./... | go run ./test/tally
package main

import (
	"fmt"
	"os"
)

func main() {
	var t tally
	if err := t.copy(os.Stdout, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
	t.print(os.Stdout)
}

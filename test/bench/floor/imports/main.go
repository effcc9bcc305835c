// Imports imports all packages of bperf and does nothing: what the runtime of Go and the initialization of packages take of `version`.
package main

import _ "github.com/bperf/bperf/internal/cli"

func main() {}

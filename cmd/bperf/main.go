// The runtime would look at the limits of cgroups each second, to follow what changes.
//go:debug updatemaxprocs=0

// Command bperf counts and profiles through perf events and BPF.
package main

import (
	"os"

	"github.com/bperf/bperf/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args)) }

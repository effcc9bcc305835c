// updatemaxprocs=0 stops the runtime from reading the limits of cgroups every second to follow changes.
//go:debug updatemaxprocs=0

// Command bperf counts and profiles through perf events and BPF.
package main

import (
	"os"

	"github.com/bperf/bperf/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args)) }

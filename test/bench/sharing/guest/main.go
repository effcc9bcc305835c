// Guest is the part of the benchmark of shared counters that runs in the guest.
package main

import (
	"fmt"
	"os"
)

func main() {
	kept, err := run()
	if err != nil {
		fmt.Println("sharing:", err)
	}
	if !kept || err != nil {
		os.Exit(1)
	}
}

// run prints all tables and reports whether all limits were kept. It leaves its processes running: they end with the guest.
func run() (kept bool, err error) {
	l, err := newLab(os.TempDir())
	if err != nil {
		return false, err
	}
	costs, err := l.measureCosts()
	if err != nil {
		return false, err
	}
	costs.printMultiplexing()
	starts, err := l.measureStarts()
	if err != nil {
		return false, err
	}
	deviation, err := l.deviation()
	if err != nil {
		return false, err
	}
	var promised limits
	promised.costs(l.bare, costs)
	promised.running(costs)
	promised.starts(starts)
	promised.atMost("bare round trip in the end: % of difference from that of the beginning", deviation, 0.5)
	return promised.missed == 0, nil
}

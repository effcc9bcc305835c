package main

import "fmt"

// printMultiplexing prints how much the counters of the largest fleets, with four events each, were multiplexed.
func (t costTable) printMultiplexing() {
	fmt.Printf("Multiplexing: %d sessions, each with -e %s\n\n%-26s%18s%18s%26s\n",
		fleets[len(fleets)-1], fourEvents, "", "least running, %", "most running, %", "counts differ by, %")
	for _, target := range []target{system, oneOfTwo} {
		for _, e := range []engine{direct, shared} {
			c := t.ofMost(subject{target, e, fourEvents})
			least, most := c.running()
			fmt.Printf("%-16s%-10s%18.2f%18.2f%26.2f\n", target, e, least, most, c.spread())
		}
	}
	fmt.Println()
}

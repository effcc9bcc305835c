// Package stacks is a load for profilers: a function that is called on many different stacks.
package stacks

// Walk calls leaf n times, each time on a stack with different return addresses.
func Walk(n uint, leaf func()) {
	depth := 0
	for 1<<depth < n {
		depth++
	}
	for way := range n {
		step(way, depth, leaf)
	}
}

// step calls itself from one of two places, which the lowest bit of way selects.
//
//go:noinline
func step(way uint, depth int, leaf func()) {
	switch {
	case depth == 0:
		leaf()
	case way&1 == 0:
		step(way>>1, depth-1, leaf)
	default:
		step(way>>1, depth-1, leaf)
	}
}

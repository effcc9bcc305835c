// Package stacks is a load for profilers: code that is called in many ways, so that samples of it have many different stacks.
package stacks

// Walk calls leaf once in each of n ways: through stacks of return addresses that all differ.
func Walk(n uint, leaf func()) {
	depth := 0
	for 1<<depth < n {
		depth++
	}
	for way := range n {
		step(way, depth, leaf)
	}
}

// step calls itself from either of two places, as the next bit of the way says.
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

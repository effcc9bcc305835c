package event

// Nearest returns at most 3 of names that are similar to wrong, the most similar first. It returns nil if none is.
func Nearest(wrong string, names []string) []string { return nearest(wrong, candidates(names)) }

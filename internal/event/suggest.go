package event

// Nearest are the names, at most 3 and possibly none, that a wrong one may have been meant to be.
func Nearest(wrong string, names []string) []string { return nearest(wrong, candidates(names)) }

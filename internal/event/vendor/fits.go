package vendor

// Fits reports whether a CPU, named as for ForCPU, is of the pattern in an expression of a metric: a MIDR, or a regular expression on x86.
func Fits(cpuid, pattern string) bool { return fits(cpuid, pattern) }

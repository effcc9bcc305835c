package metrics

import "github.com/bperf/bperf/internal/printable"

// maxLabel is the limit of a label value, in bytes. Names of Kubernetes have at most 253; IDs of containers have 64.
const maxLabel = 256

// label returns untrusted text as a label value.
func label(s string) string { return printable.Short(s, maxLabel) }

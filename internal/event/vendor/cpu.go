package vendor

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/bperf/bperf/internal/pattern"
)

// ForCPU returns the table of a CPU, which is named as in $PERF_CPUID of perf: "GenuineIntel-6-8E-A" on x86, the number of MIDR_EL1
// ("0x00000000410fd0c0") on arm64. If no model fits, the table has only what does not depend on the model. ForCPU decodes the table at each
// call.
func ForCPU(cpuid string) (*Table, error) {
	a, err := opened()
	if err != nil {
		return nil, fmt.Errorf("read the events of CPU vendors in this program: %w", err)
	}
	t, err := a.table(cpuid)
	if err != nil {
		return nil, fmt.Errorf("read the events of CPU %s in this program: %w", cpuid, err)
	}
	return t, nil
}

// ID returns the name of a CPU for ForCPU, from what procfs.CPUInfo.ID returns.
func ID(id string) string {
	parts := strings.Split(id, ",")
	if len(parts) != 4 {
		return id
	}
	for i, part := range parts[2:] {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return id
		}
		parts[2+i] = strings.ToUpper(strconv.FormatUint(n, 16))
	}
	return strings.Join(parts, "-")
}

var opened = sync.OnceValues(func() (*archive, error) { return openArchive(embedded) })

// Fits reports whether a CPU, named as for ForCPU, fits a pattern of mapfile.csv or of a metric's expression: a MIDR, or a regular expression
// on x86.
func Fits(cpuid, pattern string) bool {
	if strings.HasPrefix(pattern, "0x") {
		return fitsMIDR(cpuid, pattern)
	}
	vendor, _, _ := strings.Cut(pattern, "-")
	if !strings.HasPrefix(cpuid, vendor+"-") {
		return false
	}
	// A pattern without a stepping is for all steppings.
	const withStepping = 3
	if strings.Count(removeClasses(pattern), "-") < withStepping && strings.Count(cpuid, "-") == withStepping {
		cpuid = cpuid[:strings.LastIndexByte(cpuid, '-')]
	}
	ok, err := regexp.MatchString("^(?:"+pattern+")$", cpuid)
	return ok && err == nil
}

// removeClasses removes the classes of letters, in which "-" is a range.
func removeClasses(pattern string) string { return classes().ReplaceAllString(pattern, "") }

var classes = pattern.Lazy(`\[(\[:\w+:\]|[^]])*\]`)

// The parts of MIDR_EL1 that distinguish revisions of a model (Documentation/arch/arm64/cpu-feature-registers.rst).
const (
	midrRevision = 0xf
	midrVariant  = 0xf << 20
)

// fitsMIDR reports whether an arm64 CPU is of the pattern's model, and of its revision or a later one.
func fitsMIDR(cpuid, pattern string) bool {
	cpu, err := strconv.ParseUint(cpuid, 0, 64)
	if err != nil {
		return false
	}
	model, err := strconv.ParseUint(pattern, 0, 64)
	if err != nil {
		return false
	}
	const revisions = midrRevision | midrVariant
	return cpu&^revisions == model&^revisions && cpu&revisions >= model&revisions
}

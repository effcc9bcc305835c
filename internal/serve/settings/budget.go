package settings

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/serve/budget"
)

// Budget is the most that the daemon may take.
type Budget struct {
	CPU    string `yaml:"cpu"`    // of all CPUs of the node, such as "1%"; "0" for no limit
	Memory string `yaml:"memory"` // resident, such as "64M"; "0" for no limit

	Limits budget.Limits `yaml:"-"`
}

// leastMemory is the lowest memory budget, in bytes: with less, bperf would do little but collect garbage.
const leastMemory = 32 << 20

// parse sets the limits.
func (b *Budget) parse() (err error) {
	if b.Limits.CPU, err = parsePercent(b.CPU); err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	if b.Limits.Memory, err = parseMemory(b.Memory); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	return nil
}

// parsePercent returns a percentage as a share (0 to 1).
func parsePercent(text string) (float64, error) {
	if text == "0" {
		return 0, nil
	}
	number, is := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if !is || err != nil || !(percent >= 0 && percent <= 100) { // not a number is neither
		return 0, fmt.Errorf("%.40q is not a percentage of all CPUs, such as 1%%, or 0 for no limit", text)
	}
	return percent / 100, nil
}

// parseMemory returns a number of bytes.
func parseMemory(text string) (uint64, error) {
	if text == "0" {
		return 0, nil
	}
	for unit, shift := range map[string]int{"M": 20, "G": 30} {
		number, is := strings.CutSuffix(text, unit)
		if !is {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 16)
		if bytes := n << shift; err == nil && bytes >= leastMemory {
			return bytes, nil
		}
	}
	return 0, fmt.Errorf("%.40q is not a size of at least %dM, such as 64M or 1G, or 0 for no limit", text, leastMemory>>20)
}

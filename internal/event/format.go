package event

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// format is where the value of a PMU's term goes: into which bits of which config field of the
// attribute.
type format struct {
	config int // 0 for config, 1 for config1 …
	mask   uint64
}

// configNames are the fields of the attribute that formats and terms name, by number.
var configNames = []string{"config", "config1", "config2", "config3", "config4"}

// configField is the field of that number.
func configField(a *perfdata.Attr, number int) *uint64 {
	return []*uint64{&a.Config, &a.Config1, &a.Config2, &a.Config3, &a.Config4}[number]
}

// parseFormat reads a file of format/, "config:0-7,32-35"
// (Documentation/ABI/testing/sysfs-bus-event_source-devices-format).
func parseFormat(text string) (format, error) {
	field, list, ok := strings.Cut(text, ":")
	f := format{config: -1}
	for i, name := range configNames {
		if field == name {
			f.config = i
		}
	}
	if !ok || f.config < 0 {
		return format{}, fmt.Errorf("%q is not a list of bits of config", text)
	}
	for _, part := range strings.Split(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err := strconv.ParseUint(low, 10, 8)
		last, err2 := strconv.ParseUint(high, 10, 8)
		if err != nil || err2 != nil || first > last || last > 63 {
			return format{}, fmt.Errorf("%q is not a list of bits of config", text)
		}
		f.mask |= ^uint64(0) >> (63 - (last - first)) << first
	}
	return f, nil
}

// max is the greatest value that the term can have.
func (f format) max() uint64 {
	n := bits.OnesCount64(f.mask)
	return ^uint64(0) >> (64 - n)
}

// set puts a value, at most max, into the attribute: its lowest bit into the lowest bit of the format.
func (f format) set(a *perfdata.Attr, value uint64) {
	field := configField(a, f.config)
	*field &^= f.mask
	for mask := f.mask; mask != 0; mask &= mask - 1 {
		if value&1 != 0 {
			*field |= mask & -mask
		}
		value >>= 1
	}
}

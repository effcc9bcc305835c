package event

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// format has the config field and the bits of the attribute that a PMU's term sets.
type format struct {
	config int // 0 for config, 1 for config1 …
	mask   uint64
}

// configNames has the names of the config fields, indexed by number, as formats and terms use them.
var configNames = []string{"config", "config1", "config2", "config3", "config4"}

// configField returns the config field of that number.
func configField(a *perfdata.Attr, number int) *uint64 {
	return []*uint64{&a.Config, &a.Config1, &a.Config2, &a.Config3, &a.Config4}[number]
}

// parseFormat parses a file of format/, such as "config:0-7,32-35"
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

// max returns the greatest value of the term.
func (f format) max() uint64 {
	n := bits.OnesCount64(f.mask)
	return ^uint64(0) >> (64 - n)
}

// set stores a value, at most max, in the attribute: the value's lowest bit in the lowest bit of the format.
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

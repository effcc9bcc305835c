package record

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

const maxRateFile = "/proc/sys/kernel/perf_event_max_sample_rate"

// checkRate lowers the frequency to what the kernel allows (kernel.perf_event_max_sample_rate).
func checkRate(c *Config) error {
	text, err := os.ReadFile(maxRateFile)
	if err != nil {
		return nil // opening the event fails if the kernel does not allow it
	}
	most, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || most == 0 {
		return nil
	}
	switch {
	case c.MaxRate:
		c.Frequency = most
		c.Notify(fmt.Sprintf("Sampling at the %d Hz that %s allows", most, maxRateFile))
	case c.Frequency <= most:
	case c.Overrides && c.StrictRate:
		return fmt.Errorf("%d Hz are more than the %d that the kernel allows. Ask for less, or allow more: "+
			"sysctl kernel.perf_event_max_sample_rate=%d", c.Frequency, most, c.Frequency)
	default:
		c.Notify(fmt.Sprintf("The kernel allows %d Hz, not %d: sampling at that. Allow more: sysctl kernel.perf_event_max_sample_rate=%d",
			most, c.Frequency, c.Frequency))
		c.Frequency = most
	}
	return nil
}

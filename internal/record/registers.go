package record

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// AllRegisters is the mask of the registers that samples can have on this architecture (arch/*/include/uapi/asm/perf_regs.h): all of enum
// perf_event_x86_regs except DS, ES, FS and GS, and all of enum perf_event_arm_regs. They are also those that unwinding a user stack needs.
var AllRegisters = map[string]uint64{"amd64": 0xff0fff, "arm64": 1<<33 - 1}[runtime.GOARCH]

// RegisterNames returns perf's names of AllRegisters.
func RegisterNames() []string {
	var names []string
	for number := range 64 {
		if AllRegisters>>number&1 != 0 {
			names = append(names, registerName(number))
		}
	}
	return names
}

func registerName(number int) string {
	return perfdata.RegisterName(map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH], number)
}

// ParseRegisters returns the mask of a comma-separated list of registers. Names may be in upper or lower case.
func ParseRegisters(list string) (mask uint64, err error) {
	for name := range strings.SplitSeq(list, ",") {
		bit := uint64(0)
		for number := range 64 {
			if AllRegisters>>number&1 != 0 && strings.EqualFold(name, registerName(number)) {
				bit = 1 << number
			}
		}
		if bit == 0 {
			return 0, fmt.Errorf("there is no register %q: the registers are %s", name, strings.Join(RegisterNames(), ", "))
		}
		mask |= bit
	}
	return mask, nil
}

// registers adds the registers that the options ask for. Callchains that are unwound later add those that unwinding needs.
func (c *Config) registers(a *perfdata.Attr) {
	if c.InterruptRegs != 0 {
		a.SampleType, a.SampleRegsIntr = a.SampleType|perfdata.SampleRegsIntr, c.InterruptRegs
	}
	if c.UserRegs != 0 {
		a.SampleType, a.SampleRegsUser = a.SampleType|perfdata.SampleRegsUser, c.UserRegs
	}
}

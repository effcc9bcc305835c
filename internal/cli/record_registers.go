package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/record"
)

const (
	allRegisters   = "all" // value of a flag for registers that is given without one
	whichRegisters = "?"
)

// addRegisters adds the flags for the registers in samples.
func (o *recordOptions) addRegisters(f *pflag.FlagSet) {
	f.StringVarP(&o.intrRegs, "intr-regs", "I", "", "record all CPU registers at the sample, or those of this `LIST`, such as -Iax,ip; -I? lists them")
	optional(f, "intr-regs", allRegisters)
	f.StringVar(&o.userRegs, "user-regs", "", "record all CPU registers of user mode, or those of this `LIST`; ? lists them")
	optional(f, "user-regs", allRegisters)
}

// listRegisters lists the registers and ends as perf does, if the user asks for that.
func (o *recordOptions) listRegisters() error {
	if o.intrRegs != whichRegisters && o.userRegs != whichRegisters {
		return nil
	}
	fmt.Fprintln(os.Stderr, "available registers:", strings.Join(record.RegisterNames(), " "))
	return &exitError{Status: statusBadOption}
}

func (o *recordOptions) setRegisters(cfg *record.Config, given func(string) bool) error {
	for _, option := range []struct {
		name, value string
		mask        *uint64
	}{{"intr-regs", o.intrRegs, &cfg.InterruptRegs}, {"user-regs", o.userRegs, &cfg.UserRegs}} {
		var err error
		switch {
		case !given(option.name):
		case option.value == allRegisters:
			*option.mask = record.AllRegisters
		default:
			*option.mask, err = record.ParseRegisters(option.value)
		}
		if err != nil {
			return fmt.Errorf("--%s=%s: %w", option.name, option.value, err)
		}
	}
	return nil
}

package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// intervalFlag is a flag for a time, such as 500ms or 1s. A number without a unit has the unit of the flag.
type intervalFlag interface {
	pflag.Value
	inUnits()
}

// millisecondsFlag is a whole number of milliseconds.
type millisecondsFlag int

func (m *millisecondsFlag) Set(text string) error {
	n, err := strconv.ParseInt(text, 0, 64)
	if err == nil {
		*m = millisecondsFlag(n)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d%time.Millisecond != 0 {
		return fmt.Errorf("%q is neither a whole number of milliseconds nor a time such as 500ms or 1s", text)
	}
	*m = millisecondsFlag(d / time.Millisecond)
	return nil
}

func (m *millisecondsFlag) String() string { return strconv.Itoa(int(*m)) }
func (m *millisecondsFlag) Type() string   { return "TIME" }
func (m *millisecondsFlag) inUnits()       {}

// secondsFlag is a number of seconds, with a fraction.
type secondsFlag float64

func (s *secondsFlag) Set(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err == nil {
		*s = secondsFlag(v)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is neither a number of seconds nor a time such as 500ms or 1s", text)
	}
	*s = secondsFlag(d.Seconds())
	return nil
}

func (s *secondsFlag) String() string { return strconv.FormatFloat(float64(*s), 'g', -1, 64) }
func (s *secondsFlag) Type() string   { return "TIME" }
func (s *secondsFlag) inUnits()       {}

// addMilliseconds adds an interval whose bare numbers are milliseconds.
func addMilliseconds(f *pflag.FlagSet, value *int, name, letter string, preset int, usage string) {
	*value = preset
	f.VarP((*millisecondsFlag)(value), name, letter, usage+": a `TIME` such as 500ms or 1s, or a number of milliseconds (at least 10)")
}

// addSeconds adds an interval whose bare numbers are seconds.
func addSeconds(f *pflag.FlagSet, value *float64, name, letter string, preset float64, usage string) {
	*value = preset
	f.VarP((*secondsFlag)(value), name, letter, usage+": a `TIME` such as 500ms or 1s, or a number of seconds (at least 0.1)")
}

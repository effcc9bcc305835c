package cli

import (
	"errors"
	"fmt"

	"github.com/bperf/bperf/internal/filter"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/internal/target"
)

// Exit statuses other than 0, 1 and that of a command that was run. They are perf's.
const (
	statusBadCombination = 22  // flags that cannot go together, or values out of range
	statusBadOption      = 129 // what cannot be understood
	statusNoCommand      = 255 // of record: the command cannot be executed
	statusBadFilter      = 255 // of record: the kernel does not take the filter
)

// exitError ends bperf with a status of its own. Without Err nothing is printed.
type exitError struct {
	Status int
	Err    error
}

func (e *exitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.Err.Error()
}

func (e *exitError) Unwrap() error { return e.Err }

// badOption is the error for something that cannot be understood.
func badOption(err error) error { return &exitError{Status: statusBadOption, Err: err} }

func badOptionf(format string, a ...any) error { return badOption(fmt.Errorf(format, a...)) }

// badCombination is the error for flags that do not go together, or for a value that is out of range.
func badCombination(err error) error { return &exitError{Status: statusBadCombination, Err: err} }

func badCombinationf(format string, a ...any) error { return badCombination(fmt.Errorf(format, a...)) }

// badCombinationIf is badCombinationf if the condition is true, otherwise nil.
func badCombinationIf(condition bool, format string, a ...any) error {
	if !condition {
		return nil
	}
	return badCombinationf(format, a...)
}

// firstError returns the first error that is not nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// recordError gives an error of recording its status.
func recordError(err error) error {
	if failed := (*target.ExecError)(nil); errors.As(err, &failed) {
		return &exitError{Status: statusNoCommand, Err: err}
	}
	if failed := (*filter.SyntaxError)(nil); errors.As(err, &failed) {
		return badOption(err)
	}
	if failed := (*record.FilterError)(nil); errors.As(err, &failed) {
		return &exitError{Status: statusBadFilter, Err: err}
	}
	return err
}

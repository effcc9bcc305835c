package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/filter"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/internal/target"
)

// These are perf's exit statuses, besides 0, 1 and the status of a command.
const (
	statusBadCombination = 22  // flags that conflict, values out of range, and targets of stat that do not exist
	statusBadOption      = 129 // options that cannot be parsed
	statusFailed         = 255 // of the commands in failsAsPerf, and of profile if the command or the filter is the reason: it failed
)

// failsAsPerf are the commands that end with statusFailed where others end with 1.
var failsAsPerf = []string{"record", "report", "script", "annotate", "diff", "evlist", "buildid-list"}

// failure returns the error that a command returned, with perf's status for it.
func failure(cmd *cobra.Command, err error) error {
	var exit *exitError
	if err == nil || errors.As(err, &exit) || !failsLikePerf(cmd) {
		return err
	}
	return &exitError{Status: statusFailed, Err: err}
}

// failsLikePerf reports whether a command is one of failsAsPerf.
func failsLikePerf(cmd *cobra.Command) bool {
	return slices.Contains(failsAsPerf, cmd.Name()) && cmd.Parent() == cmd.Root()
}

// exitError ends bperf with its own exit status. Without Err, nothing is printed.
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

// badOption returns the error for an option that cannot be parsed.
func badOption(err error) error { return &exitError{Status: statusBadOption, Err: err} }

func badOptionf(format string, a ...any) error { return badOption(fmt.Errorf(format, a...)) }

// badCombination returns the error for conflicting flags, or for a value out of range.
func badCombination(err error) error { return &exitError{Status: statusBadCombination, Err: err} }

func badCombinationf(format string, a ...any) error { return badCombination(fmt.Errorf(format, a...)) }

// badCombinationIf returns badCombinationf if the condition is true, and nil otherwise.
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

// recordError adds the exit status to an error of recording.
func recordError(err error) error {
	if failed := (*target.ExecError)(nil); errors.As(err, &failed) {
		return &exitError{Status: statusFailed, Err: err}
	}
	if failed := (*filter.SyntaxError)(nil); errors.As(err, &failed) {
		return badOption(err)
	}
	if failed := (*record.FilterError)(nil); errors.As(err, &failed) {
		return &exitError{Status: statusFailed, Err: err}
	}
	return err
}

// statError adds the exit status to an error of stat.
func statError(err error) error {
	if missing := (*target.ResolveError)(nil); errors.As(err, &missing) {
		return badCombination(err)
	}
	return err
}

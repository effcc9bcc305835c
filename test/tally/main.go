// Tally runs a command that runs `go test -v`, any number of times, copies its output, and ends with what failed, what was
// skipped and why, and one line "N passed, N failed". The exit status is the command's.
//
//	go run ./test/tally [-timeout D] COMMAND [ARGUMENT...]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	timeout := flag.Duration("timeout", time.Hour, "ends the command, and with it the tests that hang")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "tally: there is no command")
		os.Exit(2)
	}
	t := tally{to: os.Stdout}
	err := run(&t, *timeout, flag.Args())
	t.print(os.Stdout)
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.Exited():
		os.Exit(exit.ExitCode())
	default:
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
}

// run ends with the command, and not with what the command may have left behind that holds its output: tests that
// the kernel does not end when they are killed.
func run(t *tally, timeout time.Duration, command []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not ended after %v", timeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = t, t
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", command[0], context.Cause(ctx))
	}
	return err
}

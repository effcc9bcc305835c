// Guest runs tests, or a command, on other kernels. It boots each kernel in QEMU, one after another.
//
//	go run ./test/guest [-kernel ARCH/SUITE]... [-run REGEXP] [-count N] [-perf] [-newest-perf] [-cpu MODEL] [-smp N] [-timeout D] PACKAGE...
//	go run ./test/guest [-kernel ARCH/SUITE]... [-perf] [-newest-perf] [-cpu MODEL] [-smp N] [-timeout D] -- COMMAND [ARGUMENT...]
//
// A kernel is the cloud kernel of a Debian suite for amd64 or arm64: amd64/bookworm is 6.1, arm64/trixie is 6.12, and arm64/testing is the
// newest kernel in Debian testing. With the suffix /lockdown it boots in lockdown=confidentiality. The exit status is that of the command or
// of the tests, or 125 if the guest did not run them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/bperf/bperf/test/binaries"
	"github.com/bperf/bperf/test/guest/boot"
)

func main() {
	kernels, o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(2)
	}
	exit, err := runAll(kernels, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(125)
	}
	os.Exit(exit)
}

// runAll boots one kernel after another and returns the last exit status that is not 0.
func runAll(kernels []string, o boot.Options) (exit int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b, err := binaries.New()
	if err != nil {
		return 0, err
	}
	defer b.Remove()
	for _, o.Kernel = range kernels {
		status, err := run(ctx, b, &o)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", o.Kernel, err)
		}
		if status != 0 {
			exit = status
		}
	}
	return exit, nil
}

func run(ctx context.Context, b *binaries.Builder, o *boot.Options) (int, error) {
	g, err := boot.Prepare(b, o)
	if err != nil {
		return 0, err
	}
	defer g.Remove()
	fmt.Fprintf(os.Stderr, "guest %s: Linux %s\n", o.Kernel, g.Release)
	start := time.Now()
	status, err := g.Run(ctx, os.Stdout)
	if err == nil {
		fmt.Fprintf(os.Stderr, "guest %s: done in %.1fs\n", o.Kernel, time.Since(start).Seconds())
	}
	return status, err
}

// parse returns the kernels to boot and the options that they share.
func parse(args []string) (kernels []string, o boot.Options, err error) {
	f := flag.NewFlagSet("guest", flag.ContinueOnError)
	f.Func("kernel", "kernel as `ARCH/SUITE`, repeatable (default arm64/trixie)", func(s string) error {
		kernels = append(kernels, s)
		return nil
	})
	f.IntVar(&o.CPUs, "smp", 0, "number of CPUs (default: 2 on arm64, 1 on amd64)")
	f.DurationVar(&o.CPUTime, "timeout", 10*time.Minute, "the CPU time that QEMU may take for each guest")
	f.StringVar(&o.Run, "run", "", "run only tests that match this regular `expression`")
	f.IntVar(&o.Count, "count", 1, "run each test `N` times")
	f.BoolVar(&o.Perf, "perf", false, "put upstream perf into the guest, which is built when it is not in the cache")
	f.BoolVar(&o.Newest, "newest-perf", false, "put the perf of Debian testing into the guest, which is fetched when it is not in the cache")
	f.StringVar(&o.CPU, "cpu", "", "`model` of the CPU as QEMU names it, such as cortex-a72 (default: the one with the most features)")
	before, command, isCommand := cutCommand(args)
	if err := f.Parse(before); err != nil {
		return nil, o, err
	}
	o.Packages, o.Command = f.Args(), command
	switch {
	case isCommand && (len(command) == 0 || len(o.Packages) > 0):
		return nil, o, errors.New("there must be a command behind --, and no packages before it")
	case !isCommand && len(o.Packages) == 0:
		return nil, o, errors.New("nothing to run: name packages, or a command behind --")
	}
	if len(kernels) == 0 {
		kernels = []string{"arm64/trixie"}
	}
	return kernels, o, nil
}

func cutCommand(args []string) (before, command []string, found bool) {
	i := slices.Index(args, "--")
	if i < 0 {
		return args, nil, false
	}
	return args[:i], args[i+1:], true
}

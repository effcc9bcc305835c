// Guest runs tests, or a command, on other kernels: it boots each in QEMU, with software emulation, with nothing in the
// machine besides the tests' binaries, bperf and a busybox.
//
//	go run ./test/guest [-kernel ARCH/SUITE]... [-run REGEXP] [-perf] [-smp N] [-timeout D] PACKAGE...
//	go run ./test/guest [-kernel ARCH/SUITE]... [-perf] [-smp N] [-timeout D] -- COMMAND [ARGUMENT...]
//
// More guests, for which other things are said, are named behind a +: -kernel arm64/testing ./a + -kernel amd64/bookworm ./b. As many run at
// once as there are CPUs, in the order in which they are named.
//
// A kernel is the cloud kernel of a suite of Debian for amd64 or arm64: amd64/bookworm is 6.1, arm64/trixie 6.12,
// arm64/testing the newest that Debian has let in. The exit status is the command's, or that of the
// tests, and 125 when the guest did not get that far.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// options are what the command line asks for.
type options struct {
	kernels []string // ARCH/SUITE
	smp     int      // 0 for the architecture's own
	timeout time.Duration
	run     string // regular expression of the tests to run
	perf    bool   // upstream's, in the guest

	packages []string // to test; or
	command  []string // to run
}

func main() {
	var all []booking
	for _, args := range groups(os.Args[1:]) {
		o, err := parse(args)
		if errors.Is(err, flag.ErrHelp) {
			os.Exit(0)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "guest:", err)
			os.Exit(2)
		}
		for _, kernel := range o.kernels {
			all = append(all, booking{o, kernel})
		}
	}
	exit, err := runAll(all)
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(125)
	}
	os.Exit(exit)
}

// booking is a guest to run.
type booking struct {
	*options
	kernel string // one of the options'
}

// groups cuts arguments at each + that stands before a command.
func groups(args []string) [][]string {
	before, _, _ := cutCommand(args)
	var all [][]string
	for {
		i := slices.Index(before, "+")
		if i < 0 {
			return append(all, args)
		}
		all = append(all, args[:i])
		before, args = before[i+1:], args[i+1:]
	}
}

// runAll prepares one guest after another, and runs as many at once as there are CPUs: QEMU emulates with one thread. Their
// output is in the order of the command line, as if they ran one after another.
func runAll(all []booking) (exit int, err error) {
	b, err := newBuilder()
	if err != nil {
		return 0, err
	}
	defer b.remove()
	var guests sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU())
	turn := make(chan struct{}) // closed when the guests before have printed all
	close(turn)
	statuses := make([]int, len(all))
	for i, o := range all {
		slots <- struct{}{}
		before, done := turn, make(chan struct{})
		turn = done
		g, err := prepare(b, o)
		guests.Go(func() {
			defer close(done)
			out := &turns{to: os.Stdout, turn: before}
			defer out.wait()
			if err == nil {
				statuses[i], err = g.run(out)
				g.remove()
			}
			<-slots
			if err != nil {
				fmt.Fprintf(os.Stderr, "guest %s: %v\n", o.kernel, err)
				fmt.Fprintf(out, "FAIL\tguest %s\n", o.kernel)
				statuses[i] = 125
			}
		})
	}
	guests.Wait()
	for _, status := range statuses {
		if status != 0 {
			exit = status
		}
	}
	return exit, nil
}

func parse(args []string) (*options, error) {
	var o options
	f := flag.NewFlagSet("guest", flag.ContinueOnError)
	f.Func("kernel", "kernel as `ARCH/SUITE`, repeatable (default arm64/trixie)", func(s string) error {
		o.kernels = append(o.kernels, s)
		return nil
	})
	f.IntVar(&o.smp, "smp", 0, "number of CPUs (default: 2 on arm64, 1 on amd64)")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "for each guest, by the clock of this machine")
	f.StringVar(&o.run, "run", "", "run only tests that match this regular `expression`")
	f.BoolVar(&o.perf, "perf", false, "put upstream perf into the guest, which is built when it is not in the cache")
	before, command, isCommand := cutCommand(args)
	if err := f.Parse(before); err != nil {
		return nil, err
	}
	o.packages, o.command = f.Args(), command
	switch {
	case isCommand && (len(command) == 0 || len(o.packages) > 0):
		return nil, errors.New("there must be a command behind --, and no packages before it")
	case !isCommand && len(o.packages) == 0:
		return nil, errors.New("nothing to run: name packages, or a command behind --")
	}
	if len(o.kernels) == 0 {
		o.kernels = []string{"arm64/trixie"}
	}
	return &o, nil
}

func cutCommand(args []string) (before, command []string, found bool) {
	for i, a := range args {
		if a == "--" {
			return args[:i], args[i+1:], true
		}
	}
	return args, nil, false
}

func splitKernel(name string) (arch, suite string, err error) {
	arch, suite, ok := strings.Cut(name, "/")
	if !ok || suite == "" {
		return "", "", fmt.Errorf("a kernel is named ARCH/SUITE, as in arm64/trixie, not %q", name)
	}
	return arch, suite, nil
}

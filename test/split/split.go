// Package split has loads for tests of profiles: programs in C, Go and BPF that spend their time in two functions, in a ratio of about one to
// three. Each load measures the time in each function itself.
package split

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
)

//go:generate go tool bpf2go -target bpfel split ../../bpf/split.bpf.c -- -mcpu=v3 -Wall -Werror

// Load is one of the programs.
type Load struct {
	Name       string
	One, Three string // names of its functions in profiles; for BPF the ends of the names

	args  []string
	times string // file to which the load writes its times
}

// variable is the environment variable that makes a program that calls Main run a load.
const variable = "BPERF_SPLIT_LOAD"

// Loads returns the loads, which run for about the time spent. dir is for their files. The C load is a separate program, which Loads writes to
// dir. The others are this program, which must call Main first.
func Loads(dir string, spent time.Duration) ([]Load, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := filepath.Join(dir, "split")
	if err := os.WriteFile(c, program, 0o700); err != nil {
		return nil, err
	}
	const here = "github.com/bperf/bperf/test/split."
	all := []Load{{Name: "C", One: "one_part", Three: "three_parts", args: []string{c}},
		{Name: "Go", One: here + "onePart", Three: here + "threeParts", args: []string{"env", variable + "=Go", self}},
		{Name: "BPF", One: "_one_part", Three: "_three_parts", args: []string{"env", variable + "=BPF", self}}}
	for i := range all {
		l := &all[i]
		l.times = filepath.Join(dir, l.Name+".times")
		l.args = append(l.args, l.times, strconv.FormatInt(spent.Milliseconds(), 10))
	}
	return all, nil
}

// Command returns the command that runs the load.
func (l *Load) Command() []string { return l.args }

// Share returns the fraction of the time that was spent in Three, as the load has measured it.
func (l *Load) Share() (float64, error) {
	text, err := os.ReadFile(l.times)
	if err != nil {
		return 0, err
	}
	var one, three float64
	if _, err := fmt.Sscanf(string(text), "%g %g\n", &one, &three); err != nil {
		return 0, fmt.Errorf("the load has told %q: %w", text, err)
	}
	return three / (one + three), nil
}

// Main runs a load and exits if this program was started by a Load's command. Otherwise it does nothing.
func Main() {
	name := os.Getenv(variable)
	if name == "" {
		return
	}
	if err := run(name, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(name string, args []string) error {
	ms, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	var times [2]time.Duration
	if name == "Go" {
		var sum uint64
		times, err = alternate(ms, 200_000, func(n int) error { onePart(n, &sum); return nil }, func(n int) error { threeParts(n, &sum); return nil })
	} else {
		times, err = runBPF(ms)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], fmt.Appendf(nil, "%d %d\n", times[0], times[1]), 0o600)
}

// alternate calls one and three in turns until they have used ms milliseconds of CPU time. In each turn, one gets a random number near
// rounds, and three gets three times as much. It returns the CPU time of each.
func alternate(ms, rounds int, one, three func(n int) error) (times [2]time.Duration, err error) {
	random := uint64(1)
	for times[0]+times[1] < time.Duration(ms)*time.Millisecond {
		random = random*6364136223846793005 + 1442695040888963407
		n := rounds/2 + int(random>>33)%rounds // random, so that turns do not synchronize with a timer
		start := used()
		if err := one(n); err != nil {
			return times, err
		}
		middle := used()
		if err := three(3 * n); err != nil {
			return times, err
		}
		times[0], times[1] = times[0]+middle-start, times[1]+used()-middle
	}
	return times, nil
}

// used returns the CPU time of this thread.
func used() time.Duration {
	const thread = 3 // CLOCK_THREAD_CPUTIME_ID of include/uapi/linux/time.h
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, thread, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano())
}

//go:noinline
func onePart(n int, sum *uint64) {
	for i := range n {
		*sum += uint64(i)
	}
}

//go:noinline
func threeParts(n int, sum *uint64) {
	for i := range n {
		*sum += uint64(i)
	}
}

// runBPF runs the BPF program with packets of two lengths, which select its function.
func runBPF(ms int) ([2]time.Duration, error) {
	var o splitObjects
	if err := loadSplitObjects(&o, nil); err != nil {
		return [2]time.Duration{}, fmt.Errorf("load the BPF program: %w", err)
	}
	defer o.Close()
	runs := func(length int) func(n int) error {
		data := make([]byte, length)
		return func(n int) error {
			_, err := o.Split.Run(&ebpf.RunOptions{Data: data, Repeat: uint32(n)})
			if err == syscall.EINTR { // only makes the turn shorter
				return nil
			}
			return err
		}
	}
	return alternate(ms, 400, runs(64), runs(65))
}

// Mutate runs every command of bperf that reads files, in every output format, on mutated recordings and ELF files. No command may panic, use
// more than 5 s of CPU time or 256 MiB, or end with a status other than 0 or 1. Mutate keeps the mutants that fail, and prints the command.
//
//	go run ./test/mutate [-seed N] [-recordings N] [-files N] [-bperf FILE] [RECORDING]...
//
// The seed determines all mutants. They are made from the recordings in the tree, from some that Mutate writes, and from those on the command
// line. A worker process runs all commands. For each mutant, one of the commands, in turn, also runs in a separate process of bperf.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// The limits of a command.
const (
	maxCPU    = 5 * time.Second
	maxMemory = 256 << 20
)

type options struct {
	seed       uint64
	recordings int
	files      int
	bperf      string   // the program; built if empty
	keep       string   // directory for mutants that fail
	more       []string // recordings from the command line
}

func main() {
	if isWorker() {
		worker()
		return
	}
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "`N`ames the mutants")
	flag.IntVar(&o.recordings, "recordings", 5000, "number of mutated recordings")
	flag.IntVar(&o.files, "files", 3000, "number of mutated ELF files")
	flag.StringVar(&o.bperf, "bperf", "", "the program; built if it is not given")
	flag.StringVar(&o.keep, "keep", filepath.Join(os.TempDir(), "bperf-mutants"), "`directory` for what fails")
	flag.Parse()
	o.more = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := run(ctx, o)
	fmt.Println(r)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
	}
	if err != nil || len(r.failures) > 0 {
		os.Exit(1)
	}
}

// results are the results of all mutants.
type results struct {
	mu       sync.Mutex
	mutants  int
	commands int
	accepted int // commands that ended with status 0
	failures []string
	cpu      peak[time.Duration]
	memory   peak[int64]
}

// peak is the largest value of any command.
type peak[T time.Duration | int64] struct {
	value T
	of    string
}

func (p *peak[T]) see(value T, of string) {
	if value > p.value {
		p.value, p.of = value, of
	}
}

func (r *results) String() string {
	return fmt.Sprintf("%d mutants, %d commands, %d of them accepted the mutant, %d failures; most CPU time %v (%s); most memory %d MiB (%s)",
		r.mutants, r.commands, r.accepted, len(r.failures), r.cpu.value.Round(time.Millisecond), r.cpu.of, r.memory.value>>20, r.memory.of)
}

// run makes the mutants and runs all commands on them.
func run(ctx context.Context, o options) (*results, error) {
	fmt.Println("seed", o.seed)
	r := &results{}
	dir, err := os.MkdirTemp("", "bperf-mutate-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	root, err := moduleDir()
	if err != nil {
		return r, err
	}
	if o.bperf == "" {
		o.bperf = filepath.Join(dir, "bperf")
		build := exec.Command("go", "build", "-o", o.bperf, "./cmd/bperf")
		build.Dir, build.Stderr = root, os.Stderr
		if err := build.Run(); err != nil {
			return r, fmt.Errorf("%s: %w", build, err)
		}
	}
	recordings, err := readRecordings(root, o.more)
	if err != nil {
		return r, err
	}
	subjects, err := readSubjects(root, dir)
	if err != nil {
		return r, err
	}
	next := make(chan int)
	errs := make(chan error, runtime.NumCPU())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for n := range runtime.NumCPU() {
		all.Go(func() {
			t := &tester{o: o, r: r, dir: filepath.Join(dir, fmt.Sprint(n))}
			if err := t.work(ctx, next, recordings, subjects); err != nil {
				errs <- err
				cancel()
			}
		})
	}
	for n := range o.recordings + o.files {
		select {
		case next <- n:
		case <-ctx.Done():
		}
	}
	close(next)
	all.Wait()
	select {
	case err := <-errs:
		return r, err
	default:
		return r, ctx.Err()
	}
}

// tester runs the commands on mutants, in a separate directory.
type tester struct {
	o   options
	r   *results
	dir string
	w   *process
}

func (t *tester) work(ctx context.Context, next <-chan int, recordings [][]byte, subjects []subject) error {
	for _, d := range []string{"empty", "home", "diff"} {
		if err := os.MkdirAll(filepath.Join(t.dir, d), 0o755); err != nil {
			return err
		}
	}
	sound := filepath.Join(t.dir, "sound.data")
	if err := os.WriteFile(sound, recordings[0], 0o644); err != nil {
		return err
	}
	defer func() { t.w.end() }()
	for n := range next {
		random := rand.New(rand.NewPCG(t.o.seed, uint64(n)))
		var commands [][]string
		mutant := filepath.Join(t.dir, "perf.data")
		if n < t.o.recordings {
			b := mutateRecording(random, recordings)
			if err := os.WriteFile(mutant, b, 0o644); err != nil {
				return err
			}
			commands = recordingCommands(mutant, sound, filepath.Join(t.dir, "empty"))
		} else {
			s := subjects[random.IntN(len(subjects))]
			var err error
			if mutant, commands, err = s.mutate(random, t.dir); err != nil {
				return err
			}
		}
		for i, args := range commands {
			if err := t.run(ctx, args, n, mutant, i == n%len(commands)); err != nil {
				return err
			}
		}
		t.r.mu.Lock()
		t.r.mutants++
		t.r.mu.Unlock()
	}
	return nil
}

// run runs a command on a mutant in the worker and, with real, also in a separate process of bperf.
func (t *tester) run(ctx context.Context, args []string, n int, mutant string, real bool) error {
	for _, own := range []bool{false, true} {
		if own && (!real || args[0] == unwindTables || args[0] == readPrograms) {
			continue
		}
		var did outcome
		var err error
		if own {
			did, err = runProcess(ctx, t.o.bperf, args, t.dir)
		} else {
			if t.w == nil {
				if t.w, err = startWorker(t.dir); err != nil {
					return err
				}
			}
			if did, err = t.w.run(ctx, args); did.Died || did.Peak > maxMemory {
				t.w.end()
				t.w = nil
			}
		}
		if err != nil {
			return err
		}
		t.judge(did, args, n, mutant)
	}
	return nil
}

// judge adds the outcome of a command to the results.
func (t *tester) judge(did outcome, args []string, n int, mutant string) {
	r := t.r
	r.mu.Lock()
	defer r.mu.Unlock()
	name := fmt.Sprintf("mutant %d, %s", n, args[0])
	r.commands++
	r.cpu.see(did.CPU, name)
	r.memory.see(did.Peak, name)
	if did.Status == 0 && !did.Died {
		r.accepted++
	}
	why := did.wrong()
	if why == "" {
		return
	}
	kept := filepath.Join(t.o.keep, fmt.Sprintf("%d-%d", t.o.seed, n))
	if err := os.MkdirAll(kept, 0o755); err == nil {
		if b, err := os.ReadFile(mutant); err == nil {
			_ = os.WriteFile(filepath.Join(kept, filepath.Base(mutant)), b, 0o644)
		}
	}
	failure := fmt.Sprintf("mutant %d of seed %d, kept in %s: bperf %q %s", n, t.o.seed, kept, args, why)
	r.failures = append(r.failures, failure)
	fmt.Println(failure)
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/cli"
)

// workerArg is the first argument of a worker process.
const workerArg = "worker"

// hang is the time after which a command is considered to hang. The limit of CPU time does not end a command that waits. hang is long because
// waiting costs nothing.
const hang = 5 * time.Minute

// unreadable is the status of a bperf that cannot read its input, as perf's is.
const unreadable = 255

// outcome is the outcome of a command.
type outcome struct {
	Status int
	Died   bool // the process did not end by returning a status
	CPU    time.Duration
	Peak   int64  // peak memory in bytes
	Output string // what is wrong with the output; empty if nothing is
	Stderr string
}

// wrong returns the rule that the command has broken, or "" if it has broken none.
func (o outcome) wrong() string {
	last := o.Stderr[strings.LastIndex(strings.TrimSuffix(o.Stderr, "\n"), "\n")+1:]
	switch {
	case o.Died || strings.Contains(o.Stderr, "panic: ") || strings.Contains(o.Stderr, "goroutine "):
		return fmt.Sprintf("died (%v CPU time, %d MiB):\n%s", o.CPU, o.Peak>>20, o.Stderr[:min(len(o.Stderr), 12000)])
	case o.CPU > maxCPU:
		return fmt.Sprintf("used %v of CPU time", o.CPU)
	case o.Peak > maxMemory:
		return fmt.Sprintf("used %d MiB", o.Peak>>20)
	case o.Status > 1 && o.Status != unreadable:
		return fmt.Sprintf("ended with status %d: %s", o.Status, o.Stderr)
	case o.Status != 0 && !strings.HasPrefix(last, "Error: "):
		return fmt.Sprintf("ended with status %d and not one line of error: %q", o.Status, o.Stderr)
	case o.Output != "":
		return o.Output
	case strings.IndexFunc(o.Stderr, isRaw) >= 0:
		return fmt.Sprintf("has control characters in its messages: %q", o.Stderr)
	}
	return ""
}

// isRaw reports whether a rune is forbidden in text for terminals.
func isRaw(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) }

// binaryFormat reports whether a command's output is binary, not text for terminals.
func binaryFormat(args []string) bool {
	return strings.Contains(strings.Join(args, " "), "pprof")
}

// process is a worker process, as its parent sees it.
type process struct {
	cmd     *exec.Cmd
	stderr  string // file
	in      io.WriteCloser
	answers *bufio.Reader
}

func startWorker(dir string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, workerArg), stderr: filepath.Join(dir, "stderr")}
	p.cmd.Dir = dir
	p.cmd.Env = environment(dir)
	stderr, err := os.OpenFile(p.stderr, os.O_CREATE|os.O_TRUNC|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	p.cmd.Stderr = stderr
	output, err := os.OpenFile(filepath.Join(dir, "output"), os.O_CREATE|os.O_TRUNC|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	p.cmd.Stdout = output
	answers, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	p.cmd.ExtraFiles = []*os.File{w}
	p.answers = bufio.NewReader(answers)
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// environment returns the environment of commands. It hides the user's files and settings.
func environment(dir string) []string {
	return append(os.Environ(), "HOME="+filepath.Join(dir, "home"), "DEBUGINFOD_URLS=", "PERF_CONFIG=/dev/null")
}

// end ends a worker; p may be nil.
func (p *process) end() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// run runs a command in the worker.
func (p *process) run(ctx context.Context, args []string) (outcome, error) {
	b, err := json.Marshal(args)
	if err != nil {
		return outcome{}, err
	}
	if _, err := p.in.Write(append(b, '\n')); err != nil {
		return outcome{}, fmt.Errorf("write to a worker: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })
	defer stop()
	hangs := time.AfterFunc(hang, func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) })
	defer hangs.Stop()
	line, err := p.answers.ReadBytes('\n')
	stderr, readErr := os.ReadFile(p.stderr)
	if readErr != nil {
		return outcome{}, readErr
	}
	var did outcome
	if err != nil {
		did.Died = true
		_ = p.cmd.Wait()
		if u, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			did.Peak = u.Maxrss << 10
		}
	} else if err := json.Unmarshal(line, &did); err != nil {
		return outcome{}, err
	}
	did.Stderr = string(stderr)
	return did, ctx.Err()
}

func isWorker() bool { return len(os.Args) > 1 && os.Args[1] == workerArg }

// worker runs the commands that it reads from standard input, one after the other, and answers with their outcomes.
func worker() {
	// The limit ends a process that allocates without bound before the machine runs out of memory.
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: 16 << 30, Max: 16 << 30}); err != nil {
		panic(err)
	}
	ballast := make([]byte, 32<<20) // never touched, so it uses no memory; without it the garbage collector would run after each 4 MiB
	defer runtime.KeepAlive(ballast)
	answers := json.NewEncoder(os.NewFile(3, "answers"))
	commands := json.NewDecoder(os.Stdin)
	for {
		var args []string
		if err := commands.Decode(&args); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			panic(err)
		}
		if err := answers.Encode(runHere(args)); err != nil {
			panic(err)
		}
	}
}

// runHere runs a command in this process.
func runHere(args []string) (did outcome) {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if err := f.Truncate(0); err != nil {
			panic(err)
		}
	}
	if memory("VmRSS:") > maxMemory/4 {
		debug.FreeOSMemory()
	}
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // resets VmHWM
		panic(err)
	}
	before := used()
	// At SIGXCPU the runtime prints the stacks of all goroutines.
	limit := uint64((before + maxCPU).Seconds()) + 2
	if err := unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: limit, Max: unix.RLIM_INFINITY}); err != nil {
		panic(err)
	}
	switch args[0] {
	case unwindTables:
		did.Status = makeUnwindTables(args[1])
	case readPrograms:
		did.Status = readObjects(args[1])
	default:
		did.Status = cli.Main(append([]string{"bperf"}, args...))
	}
	did.CPU = used() - before
	did.Peak = memory("VmHWM:")
	did.Output = judgeOutput(args)
	return did
}

func judgeOutput(args []string) string {
	b, err := os.ReadFile("/proc/self/fd/1")
	if err != nil {
		panic(err)
	}
	if binaryFormat(args) {
		return ""
	}
	text := string(b)
	if i := strings.IndexFunc(text, isRaw); i >= 0 {
		return fmt.Sprintf("prints control characters: %q", text[max(i-80, 0):min(i+20, len(text))])
	}
	return ""
}

// used returns the CPU time of this process.
func used() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memory returns the value of a line of /proc/self/status, in bytes.
func memory(name string) int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	_, rest, _ := strings.Cut(string(b), name)
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		panic(err)
	}
	return kib << 10
}

// runProcess runs a command in a separate process of bperf.
func runProcess(ctx context.Context, bperf string, args []string, dir string) (did outcome, err error) {
	limited, cancel := context.WithTimeout(ctx, hang)
	defer cancel()
	cmd := exec.CommandContext(limited, bperf, args...)
	cmd.Dir, cmd.Env = dir, environment(dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return did, err
	}
	// Fails if the process has already ended.
	_ = unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_CPU, &unix.Rlimit{Cur: uint64(maxCPU.Seconds()) + 1, Max: unix.RLIM_INFINITY}, nil)
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return did, err
	}
	s := cmd.ProcessState
	did = outcome{Status: s.ExitCode(), Died: !s.Exited(), CPU: s.UserTime() + s.SystemTime(), Stderr: stderr.String()}
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		did.Peak = u.Maxrss << 10
	}
	return did, ctx.Err()
}

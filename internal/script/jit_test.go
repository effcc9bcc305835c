package script

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/test/require"
)

// TestMain runs the tests, or a JIT compiler for them.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "compiler" {
		if err := compiler(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// spin counts down from 10,000,000.
var spin = map[string][]byte{
	"amd64": {0xb9, 0x80, 0x96, 0x98, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0xc3}, // mov ecx, n; dec ecx; jnz -4; ret
	"arm64": {0x00, 0xd0, 0x92, 0x52, 0x00, 0x13, 0xa0, 0x72, // movz w0, 0x9680; movk w0, 0x98, lsl 16
		0x00, 0x04, 0x00, 0x71, 0xe1, 0xff, 0xff, 0x54, 0xc0, 0x03, 0x5f, 0xd6}, // subs w0, w0, 1; b.ne -4; ret
}[runtime.GOARCH]

// compiler generates functions and runs them. It describes them in a perf map and runs until its input ends, or it describes them in a
// dump.
func compiler(kind, dir string) error {
	const function = 0x100
	memory, err := syscall.Mmap(-1, 0, 1<<16, syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return err
	}
	base := uint64(uintptr(unsafe.Pointer(&memory[0])))
	run := func(at int) {
		code := &memory[at]
		entry := &code
		(*(*func())(unsafe.Pointer(&entry)))()
	}
	copy(memory, spin)
	copy(memory[function:], spin)
	if kind == "dump" {
		return runDumped(dir, base, run)
	}
	text := fmt.Sprintf("%x %x first function\n%x %x second\n", base, len(spin), base+function, len(spin))
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("perf-%d.map", os.Getpid())), []byte(text), 0o600); err != nil {
		return err
	}
	fmt.Println("ready")
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // waits for the end
		ended.Store(true)
	}()
	for !ended.Load() {
		run(0)
		run(function)
		idle()
	}
	return nil
}

// idle spends time in the program itself.
//
//go:noinline
func idle() {
	for range 10_000_000 {
		runtime.KeepAlive(nil)
	}
}

// runDumped runs three functions with a dump. The first and the last function have the same address.
func runDumped(dir string, base uint64, run func(int)) error {
	file, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("jit-%d.dump", os.Getpid())), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	now := func() uint64 {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // it cannot fail
		return uint64(t.Nano())
	}
	write := func(values ...any) {
		var b bytes.Buffer
		for _, v := range values {
			if text, is := v.(string); is {
				v = append([]byte(text), 0)
			}
			_ = binary.Write(&b, binary.LittleEndian, v) // into memory
		}
		if _, writeErr := file.Write(b.Bytes()); writeErr != nil {
			err = writeErr
		}
	}
	pid := uint32(os.Getpid())
	machine := map[string]uint32{"amd64": 62, "arm64": 183}[runtime.GOARCH]
	write(uint32(0x4A695444), uint32(1), uint32(40), machine, uint32(0), pid, now(), uint64(0))
	if _, err := syscall.Mmap(int(file.Fd()), 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_EXEC, syscall.MAP_PRIVATE); err != nil {
		return err
	}
	for i, f := range []struct {
		name string
		at   uint64
	}{{"first function", 0}, {"second", 0x100}, {"third", 0}} {
		at := base + f.at
		const line = 16 + 16 + 16 + 7
		write(uint32(2), uint32(line), now(), at, uint64(1), at, uint32(10*(i+1)), uint32(0), "app.js")
		write(uint32(0), uint32(16+40+len(f.name)+1+len(spin)), now(), pid, pid, at, at, uint64(len(spin)), uint64(i), f.name, spin)
		for range 20 {
			run(int(f.at))
		}
	}
	return err
}

// start starts a process that ends with the test, and waits until it is ready.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.WaitDelay = time.Minute
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
}

func requireCompiler(t *testing.T) context.Context {
	t.Helper()
	require.Root(t)
	requirePerf(t)
	if spin == nil {
		t.Skip("there is no machine code for " + runtime.GOARCH)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// recordProcess samples a process until it has run for a while.
func recordProcess(t *testing.T, pid int) string {
	t.Helper()
	return record(t, append([]string{withoutPrograms, "-e", "cpu-clock:u", "-F", "999", "-p", strconv.Itoa(pid), "--"}, until(pid)...)...)
}

// TestPerfMap compares the code of a JIT compiler with perf's output.
func TestPerfMap(t *testing.T) {
	ctx := requireCompiler(t)
	cmd := exec.CommandContext(ctx, os.Args[0], "compiler", "map", os.TempDir())
	start(t, cmd)
	file := filepath.Join(os.TempDir(), fmt.Sprintf("perf-%d.map", cmd.Process.Pid))
	t.Cleanup(func() { _ = os.Remove(file) })
	data := recordProcess(t, cmd.Process.Pid)
	got := printed(t, data, Options{Fields: NewSelection()}, replay.Options{})
	compare(t, perf(t, "script", "-i", data), got)
	wantIn(t, got, ` first function\+0x\d \(`+file, ` second\+0x\d \(`+file)
}

// TestContainer prints a process in other namespaces with its own files: its code has symbols as long as it runs.
func TestContainer(t *testing.T) {
	ctx := requireCompiler(t)
	dir := t.TempDir()
	script := `mount --make-rprivate / && mount -t tmpfs none "$1" && cp "$0" "$1/container.test" && mount --bind "$1" /tmp &&
		exec /tmp/container.test compiler map /tmp`
	cmd := exec.CommandContext(ctx, "sh", "-c", script, os.Args[0], dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	start(t, cmd)
	data := recordProcess(t, cmd.Process.Pid)
	got := printed(t, data, Options{Fields: NewSelection()}, replay.Options{})
	compare(t, perf(t, "script", "-i", data), got)
	wantIn(t, got, ` first function\+0x\d \(/tmp/perf-\d+.map`, ` second\+0x\d \(/tmp/perf-\d+.map`, `internal/script.idle\+0x\w+ \(/tmp/container.test`)

	elsewhere := printed(t, data, Options{Fields: NewSelection()}, replay.Options{SymFS: dir})
	if want := fmt.Sprintf("[unknown] (/tmp/perf-%d.map)", cmd.Process.Pid); !bytes.Contains(elsewhere, []byte(want)) {
		t.Errorf("with --symfs there is no %s in\n%.500s", want, elsewhere)
	}
}

// TestJITDump compares with perf's output after perf made files from a dump.
func TestJITDump(t *testing.T) {
	requireCompiler(t)
	dir := t.TempDir()
	data := record(t, withoutPrograms, "-k", "mono", "-e", "cpu-clock:u", "-F", "999", "--", os.Args[0], "compiler", "dump", dir)
	injected := filepath.Join(t.TempDir(), "injected.data")
	perf(t, "inject", "--jit", "-i", data, "-o", injected)
	got := printed(t, data, Options{Fields: NewSelection()}, replay.Options{})
	compare(t, perf(t, "script", "-i", injected), got)
	wantIn(t, got, ` first function\+0x\d \(`, ` second\+0x\d \(`, ` third\+0x\d \(`)

	fields := NewSelection()
	if err := fields.Parse("ip,sym,srcline"); err != nil {
		t.Fatal(err)
	}
	wantIn(t, printed(t, data, Options{Fields: fields}, replay.Options{Lines: true}), ` first function\n +app.js:10\n`, ` third\n +app.js:30\n`)
}

func wantIn(t *testing.T, text []byte, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !regexp.MustCompile(want).Match(text) {
			t.Errorf("there is no %q in\n%.2000s", want, text)
		}
	}
}

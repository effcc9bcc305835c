package sample

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/userstack"
	"github.com/bperf/bperf/test/require"
)

// deep is a program without frame pointers that runs forever.
const deep = "../userstack/testdata/deep-" + runtime.GOARCH

// namesOf returns the functions of a stack, the innermost first.
func namesOf(p *profile.Profile, s *profile.Sample) (names []string) {
	for id := range p.Stacks.Frames(s.Stack) {
		names = append(names, p.Strings.At(p.Functions.At(p.Frames()[id].Function).Name))
	}
	return names
}

// handlesSignals reports whether a kernel function calls signal handlers or returns from them, on amd64 and arm64.
func handlesSignals(name string) bool {
	switch name {
	case "arch_do_signal_or_restart", "do_signal", "restore_sigframe",
		"__do_sys_rt_sigreturn", "__x64_sys_rt_sigreturn", "__arm64_sys_rt_sigreturn":
		return true
	}
	return false
}

// TestNoFramePointers profiles a running program. All stacks are complete, from the first sample on.
func TestNoFramePointers(t *testing.T) {
	require.Root(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, deep)
	cmd.WaitDelay = time.Minute
	check(t, cmd.Start())
	defer func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}()
	cfg := config(t, "cpu-clock")
	cfg.Record.Period, cfg.Record.Frequency = 0, 999
	cfg.Record.Target.PIDs, cfg.Record.Command, cfg.Record.Timeout = []int{cmd.Process.Pid}, nil, time.Second/2
	r := take(t, cfg)
	leaves, replacing := uint64(0), uint64(0)
	for _, s := range r.Profile.Samples() {
		names := namesOf(r.Profile, &s)
		if slices.ContainsFunc(names, handlesSignals) { // the kernel is replacing the user's registers
			replacing += s.Count
			continue
		}
		if len(names) < 2 || names[len(names)-1] != "_start" || names[len(names)-2] != "work" {
			t.Errorf("%d samples with the stack %q", s.Count, names)
		}
		if n := slices.Index(names, "leaf"); n >= 0 {
			leaves += s.Count
			if got := len(names) - n; got != 1+40+2 { // descend calls itself
				t.Errorf("a stack of %d frames behind leaf: %q", got, names)
			}
		}
	}
	if leaves == 0 {
		t.Errorf("no stack of %d has leaf", r.Totals.Samples)
	}
	if r.Totals.Truncated > replacing || r.Totals.Cut[userstack.Outermost]+replacing < r.Totals.Samples || r.Totals.Unwinding != "" {
		t.Errorf("cut stacks, %d of them while signal handlers are called or return: %+v", replacing, r.Totals)
	}
}

// TestFileIsGone profiles a running program whose file was deleted or replaced by another one.
func TestFileIsGone(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	for name, replacement := range map[string]string{"deleted": "", "replaced": "/proc/self/exe"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "deep")
			copyFile(t, deep, path)
			cmd := exec.Command(path)
			check(t, cmd.Start())
			defer func() {
				check(t, cmd.Process.Kill())
				_ = cmd.Wait() // it was killed
			}()
			check(t, os.Remove(path))
			if replacement != "" {
				copyFile(t, replacement, path)
			}
			var r Result
			for timeout := time.Second / 2; r.Totals.Samples == 0 && timeout <= 64*time.Second; timeout *= 4 { // the machine may be busy
				cfg := config(t, "cpu-clock:u")
				cfg.Record.Period, cfg.Record.Frequency = 0, 999
				cfg.Record.Target.PIDs, cfg.Record.Command, cfg.Record.Timeout = []int{cmd.Process.Pid}, nil, timeout
				r = take(t, cfg)
			}
			working := false
			for _, s := range r.Profile.Samples() {
				names := namesOf(r.Profile, &s)
				working = working || slices.Contains(names, "work")
				if names[len(names)-1] != "_start" {
					t.Errorf("%d samples with the stack %q", s.Count, names)
				}
			}
			if !working {
				t.Errorf("no stack has work: %+v", r.Stats)
			}
		})
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	check(t, err)
	check(t, os.WriteFile(to, data, 0o755))
}

// TestNoFramePointersInCommand starts a program, for which there is an unwind table soon after.
func TestNoFramePointersInCommand(t *testing.T) {
	var r Result
	whole := uint64(0)
	for timeout := time.Second; whole == 0 && timeout <= 64*time.Second; timeout *= 4 { // building the tables takes longer on a busy machine
		cfg := config(t, "cpu-clock:u", deep)
		cfg.Record.Period, cfg.Record.Frequency, cfg.Record.Timeout = 0, 999, timeout
		r = take(t, cfg)
		for _, s := range r.Profile.Samples() {
			if names := namesOf(r.Profile, &s); names[len(names)-1] == "_start" {
				whole += s.Count
			}
		}
	}
	if whole == 0 || whole+r.Totals.Truncated < r.Totals.Samples {
		t.Errorf("%d whole stacks: %+v", whole, r.Totals)
	}
}

// badFrames is a program in assembly whose second frame returns to -1 and whose third, behind that, has a return address again.
const badFrames = `
	.globl _start
	.type _start, @function
_start:
	sub $64, %rsp
	lea 32(%rsp), %rax
	lea 16(%rsp), %rbp
	mov %rax, (%rbp)
	movq $-1, 8(%rbp)
	movq $0, (%rax)
	lea behind(%rip), %rdx
	mov %rdx, 8(%rax)
1:	jmp 1b
	.size _start, .-_start
	.type behind, @function
behind:
	nop
	nop
	.size behind, .-behind
`

// TestNoAddress has a stack with an entry that is not an address. The stack ends there, which is counted. The first samples of a program can be taken
// before bperf knows its mapping: they have no table.
func TestNoAddress(t *testing.T) {
	require.Root(t)
	require.Tools(t, "gcc")
	if runtime.GOARCH != "amd64" {
		t.Skip("the program is for amd64")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "bad")
	check(t, os.WriteFile(path+".S", []byte(badFrames), 0o600))
	out, err := exec.Command("gcc", "-nostdlib", "-static", "-o", path, path+".S").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var r Result
	for timeout := time.Second / 2; r.Totals.Samples == 0 && timeout <= 64*time.Second; timeout *= 4 { // the machine may be busy
		cfg := config(t, "cpu-clock:u", path)
		cfg.Record.Period, cfg.Record.Frequency, cfg.Record.Timeout = 0, 999, timeout
		r = take(t, cfg)
	}
	for _, s := range r.Profile.Samples() {
		if names := namesOf(r.Profile, &s); !slices.Equal(names, []string{"_start"}) {
			t.Errorf("%d samples with the stack %q", s.Count, names)
		}
	}
	if cut := r.Totals.Cut; cut[userstack.NoAddress] == 0 || cut[userstack.NoAddress]+cut[userstack.NoTable] != r.Totals.Truncated {
		t.Errorf("%+v", r.Totals)
	}
}

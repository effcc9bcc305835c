package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/test/require"
)

// comer loads a program while sessions count.
func comer(t *testing.T, name string) (*ebpf.Program, uint32) {
	t.Helper()
	proto := &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
		Params: []btf.FuncParam{{Name: "context", Type: &btf.Pointer{Target: &btf.Void{}}}}}
	f := &btf.Func{Name: name, Type: proto, Linkage: btf.GlobalFunc}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 0).WithSymbol(name), f), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	info, err := p.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	return p, uint32(id)
}

// tracers returns the number of tracing programs that are attached to a program.
func tracers(t *testing.T, id uint32) int64 {
	t.Helper()
	all, err := bpfprog.ReadAll(bpfprog.Detail{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := bpfprog.Tracers(all)
	if err != nil {
		t.Fatal(err)
	}
	return n[id]
}

// sessionsInside returns the number of sessions in the BPF program that most sessions count in: the entries of its map of members. A
// session holds the lock of its directory while it joins.
func sessionsInside(t *testing.T) (most int) {
	t.Helper()
	dir, err := os.Open(shared.Dir)
	if err != nil {
		return 0
	}
	defer dir.Close() // and unlocks it
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	for id := ebpf.MapID(0); ; {
		if id, err = ebpf.MapGetNextID(id); err != nil {
			return most
		}
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			continue // the map is gone
		}
		if info, err := m.Info(); err == nil && info.Name == "members" {
			n := 0
			token, member := make([]byte, m.KeySize()), make([]byte, m.ValueSize())
			for all := m.Iterate(); all.Next(&token, &member); n++ {
			}
			most = max(most, n)
		}
		m.Close()
	}
}

// eventually waits until is returns true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("after a minute not yet: ", what)
		}
	}
}

// unloaded reports whether a BPF program is gone. The kernel frees a program some time after its last user has ended.
func unloaded(id ebpf.ProgramID) bool {
	held, err := ebpf.NewProgramFromID(id)
	if err == nil {
		held.Close()
	}
	return errors.Is(err, fs.ErrNotExist)
}

// followers are sessions that count until end is called.
type followers struct {
	cmds []*exec.Cmd
	outs []*bytes.Buffer
}

// fifo creates a FIFO and opens it for reading and writing.
func fifo(t *testing.T, name string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// start starts a session and returns when it counts.
func (f *followers) start(t *testing.T, args ...string) {
	t.Helper()
	ctl, ack := fifo(t, "ctl"), fifo(t, "ack")
	cmd, out := bperf(append([]string{"stat", "--control", "fifo:" + ctl.Name() + "," + ack.Name()}, args...)...), new(bytes.Buffer)
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	f.cmds, f.outs = append(f.cmds, cmd), append(f.outs, out)
	if _, err := ctl.WriteString("ping\n"); err != nil {
		t.Fatal(err)
	}
	ack.SetReadDeadline(time.Now().Add(10 * time.Minute))
	if _, err := ack.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
}

// end ends all sessions, and returns their output.
func (f *followers) end(t *testing.T) (outs []string) {
	t.Helper()
	for i, cmd := range f.cmds {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "interrupt") {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, f.outs[i])
		}
		outs = append(outs, f.outs[i].String())
	}
	return outs
}

// TestStatFollow checks that sessions count all runs of programs that are loaded later, and let the programs go. Sessions that follow all
// programs do not count in bperf's own probes.
func TestStatFollow(t *testing.T) {
	require.AnyArch(t)
	require.Guest(t)
	// The first run makes the library load and run a program of its own, to try whether the kernel can. The sessions would count it.
	early, _ := comer(t, "early")
	if _, err := early.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil {
		t.Fatal(err)
	}
	early.Close()
	var f followers
	f.start(t, "-j", "-b", "all", "--follow", "-e", "cpu-clock,dummy")
	f.start(t, "-j", "-b", "all", "--follow", "-e", "dummy", "-I", "1000", "--summary")
	f.start(t, "-j", "-b", "name:come_*", "--follow", "--sum", "--per-func", "-e", "dummy", "-A")
	const programs, runs = 2, 500
	const probes = 2
	var names []string
	for i := range programs {
		name := fmt.Sprintf("come_%d", i)
		p, id := comer(t, name)
		names = append(names, fmt.Sprintf("%s[%d]", name, id))
		eventually(t, "all sessions count "+name, func() bool { return tracers(t, id) == probes && sessionsInside(t) == len(f.cmds) })
		for range runs { // not with Repeat, which starts again when a signal arrives
			if _, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil {
				t.Fatal(err)
			}
		}
		p.Close()
		eventually(t, name+" is unloaded", func() bool { return unloaded(ebpf.ProgramID(id)) })
	}
	for i, out := range f.end(t) {
		var sum, intervals float64
		byProgram := make(map[string]float64)
		for line := range strings.Lines(out) {
			var r programRow
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				continue // other output than rows
			}
			if strings.Contains(r.Program, "bperf_") {
				t.Errorf("session %d counts in a probe: %s", i, line)
			}
			if r.Event != "bpf-runs" {
				continue
			}
			n := value(t, []programRow{r}, "bpf-runs", "")
			if r.Interval > 0 {
				intervals += n
				continue
			}
			sum += n
			byProgram[r.Program] += n
		}
		if sum != programs*runs || i == 1 && intervals != sum {
			t.Errorf("session %d counted %v runs of %d, %v in intervals:\n%s", i, sum, programs*runs, intervals, out)
		}
		for _, name := range names {
			if i < 2 && byProgram[name] != runs {
				t.Errorf("session %d counted %v runs of %s, want %d: %v", i, byProgram[name], name, runs, byProgram)
			}
		}
	}
}

// TestStatFollowID checks that --follow still requires a program with an ID from the list to exist.
func TestStatFollowID(t *testing.T) {
	require.Root(t)
	if got := run(t, bperf("stat", "-b", "2147483647,name:none_such_*", "--follow", "true")); got.status != 1 || !strings.Contains(got.stderr, "2147483647") ||
		strings.Contains(got.stderr, "none_such") {
		t.Errorf("status %d: %s", got.status, got.stderr)
	}
	if got := run(t, bperf("stat", "-b", "2147483647", "echo", "run")); got.status != 1 || !strings.Contains(got.stderr, "2147483647") || got.stdout != "" {
		t.Errorf("status %d: %s%s", got.status, got.stdout, got.stderr)
	}
}

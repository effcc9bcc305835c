package shared

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/target"
)

// TestOnExec has two sessions on the same thread, which starts a program. Sessions that wait for an exec count from the exec on, in
// the program's process as in the thread's own.
func TestOnExec(t *testing.T) {
	dir := sharing(t)
	alone := Options{}
	onExec := Options{Options: count.Options{EnableOnExec: true}}
	both := Options{Options: count.Options{EnableOnExec: true, Inherit: true}}
	for name, tt := range map[string]struct {
		first, second Options
		want          [2]uint64
	}{
		"below who inherits":                 {inherit, both, [2]uint64{50, 50}},
		"below who does not":                 {alone, both, [2]uint64{0, 50}},
		"not inherited, below who inherits":  {inherit, onExec, [2]uint64{50, 0}},
		"then one that inherits":             {both, inherit, [2]uint64{50, 50}},
		"then one that does not":             {both, alone, [2]uint64{50, 0}},
		"twice":                              {both, both, [2]uint64{50, 50}},
		"not inherited, then one that is so": {onExec, both, [2]uint64{0, 50}},
	} {
		t.Run(name, func(t *testing.T) {
			p := startPuppet(t)
			first := open(t, dir, getppid, tids(p.pid), tt.first)
			check(t, first.Enable())
			second := open(t, dir, getppid, tids(p.pid), tt.second)
			check(t, second.Enable())
			p.run(0, caller(t, 50))
			expect(t, first, "the first", tt.want[0])
			expect(t, second, "the second", tt.want[1])
		})
	}
}

// TestExecBelow lets a shell work and then execute a program, mostly without a switch in between. A session that
// counts the shell must count all of its work, even if another session waits for the exec.
func TestExecBelow(t *testing.T) {
	const chdir = "syscalls:sys_enter_chdir"
	dir := sharing(t)
	for range 5 {
		cmd := exec.Command("/bin/sh", "-c", "read line; "+strings.Repeat("cd /; ", 50)+"exec "+caller(t, 1))
		in, err := cmd.StdinPipe()
		check(t, err)
		check(t, cmd.Start())
		var set unix.CPUSet // on one CPU, an exec cannot move the shell to another, which would be a switch
		set.Set(resolve(t, target.Spec{System: true}).CPUs[0])
		check(t, unix.SchedSetaffinity(cmd.Process.Pid, &set))
		outer := start(t, dir, chdir, pids(cmd.Process.Pid), inherit)
		inner := open(t, dir, getppid, pids(cmd.Process.Pid), Options{Options: count.Options{Inherit: true, EnableOnExec: true}})
		fmt.Fprintln(in)
		check(t, cmd.Wait())
		expect(t, outer, "the session that counts the shell", 50)
		expect(t, inner, "the session that waits", 1)
	}
}

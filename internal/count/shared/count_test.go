package shared

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/count/direct"
	"github.com/bperf/bperf/internal/target"
	loop "github.com/bperf/bperf/test/program"
)

func TestTargets(t *testing.T) {
	dir := sharing(t)
	name, group := cgroup(t, "")
	p := startPuppet(t)
	t.Cleanup(p.end) // before the cgroup is removed
	join(t, group, p.pid)
	tid := p.thread()
	program := caller(t, 1000)

	process := start(t, dir, getppid, pids(p.pid), inherit)
	alone := start(t, dir, getppid, pids(p.pid), Options{})
	thread := start(t, dir, getppid, tids(tid), Options{})
	family := start(t, dir, getppid, tids(tid), inherit)
	both := start(t, dir, getppid, tids(p.pid, tid), Options{PerThread: true})
	cgrp := start(t, dir, getppid, groups(name), Options{})
	p.call(0, 1)
	p.call(1, 20)
	p.run(0, program)
	p.run(1, program)
	expect(t, process, "process", 1+20+1000+1000)
	expect(t, alone, "process without children", 1+20)
	expect(t, thread, "thread", 20)
	expect(t, family, "thread with children", 20+1000)
	expect(t, cgrp, "cgroup", 1+20+1000+1000)
	cells, err := both.Read(nil)
	check(t, err)
	if len(cells) != 2 || cells[0].Thread != 0 || cells[0].Value != 1 || cells[1].Thread != 1 || cells[1].Value != 20 {
		wrong(t, both, "threads: counted %+v, want 1 for the first and 20 for the second", cells)
	}
}

// waiting starts a program that waits for input; proceed lets it run to its end.
func waiting(t testing.TB, p loop.Program) (pid int, proceed func()) {
	t.Helper()
	p.Wait = true
	cmd := exec.Command(p.Write(t))
	in, err := cmd.StdinPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for state(t, cmd.Process.Pid) != "S" {
		runtime.Gosched()
	}
	return cmd.Process.Pid, func() {
		t.Helper()
		check(t, in.Close())
		check(t, cmd.Wait())
	}
}

// state returns the state of a process's first thread: the field after its name (proc_pid_stat(5)).
func state(t testing.TB, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	check(t, err)
	_, after, _ := strings.Cut(string(stat), ") ")
	return after[:1]
}

// TestLikeDirect compares shared counting exactly with direct counting, for events that every machine can count.
func TestLikeDirect(t *testing.T) {
	dir := sharing(t)
	const tasks = 20
	for name, p := range map[string]loop.Program{
		"system calls":              {Body: loop.GetPPID, Times: 1000},
		"system calls of threads":   {Body: loop.GetPPID, Times: 1000, Tasks: tasks, Threads: true},
		"system calls of processes": {Body: loop.GetPPID, Times: 1000, Tasks: tasks},
		"sleep of processes":        {Body: loop.Sleep, Times: 20, Tasks: tasks},
		"page faults":               {Body: loop.Touch, Times: loop.MaxPages},
		"page faults of threads":    {Body: loop.Touch, Times: loop.MaxPages, Tasks: tasks, Threads: true},
		"page faults of processes":  {Body: loop.Touch, Times: loop.MaxPages, Tasks: tasks},
	} {
		for how, o := range map[string]Options{"inherited": inherit, "not inherited": {}} {
			t.Run(name+"/"+how, func(t *testing.T) {
				pid, proceed := waiting(t, p)
				compareWithDirect(t, dir, pids(pid), o, proceed)
			})
		}
	}
}

// compareWithDirect counts with shared and direct counters, and compares the counts.
func compareWithDirect(t *testing.T, dir string, s target.Spec, o Options, do func()) {
	t.Helper()
	events := []string{getppid, "page-faults", "minor-faults", "sched:sched_process_fork"}
	list := parseEvents(t, strings.Join(events, ","))
	c, err := direct.Open(list, resolve(t, s), o.Options)
	check(t, err)
	defer c.Close()
	check(t, c.Enable())
	ours := start(t, dir, strings.Join(events, ","), s, o)
	do()
	got, want := totals(t, ours, len(events)), totals(t, c, len(events))
	for i, e := range events {
		if got[i] != want[i] {
			wrong(t, ours, "%s: counted %d, and %d directly", e, got[i], want[i])
		}
	}
	check(t, ours.Close())
}

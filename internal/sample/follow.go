package sample

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// followPrograms has the names of the programs that follow processes (bpf/follow.h), and the raw tracepoints that they are attached to.
var followPrograms = map[string]string{
	sampleProgOnStart: "task_newtask", sampleProgOnExecute: "task_rename", sampleProgOnLastExit: "sched_process_exit", sampleProgOnRelease: "sched_process_free",
}

// withoutFollowing removes these programs from a collection.
func withoutFollowing(spec *ebpf.CollectionSpec) {
	for name := range followPrograms {
		delete(spec.Programs, name)
	}
}

// follow makes the program keep only samples of these processes and of those that they start. A command counts from its execution on.
func (c *counter) follow(pids []int) error {
	for _, pid := range pids {
		if c.command {
			if err := c.first.Variables[sampleVarCommand].Set(uint32(pid)); err != nil {
				return fmt.Errorf("sample process %d: %w", pid, err)
			}
		} else if err := c.first.Maps[sampleMapFollowed].Put(uint32(pid), uint8(1)); err != nil {
			return fmt.Errorf("sample process %d: %w", pid, err)
		}
	}
	for name, tracepoint := range followPrograms {
		l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: tracepoint, Program: c.first.Programs[name]})
		if err != nil {
			return explain("attach the BPF program "+name, err)
		}
		c.links = append(c.links, l)
	}
	return nil
}

// lostProcesses returns the number of started processes that are not followed, because the map had no room.
func (c *counter) lostProcesses() (n uint64, err error) {
	if err := c.first.Variables[sampleVarLostProcesses].Get(&n); err != nil {
		return 0, fmt.Errorf("read how many processes there was no room for: %w", err)
	}
	return n, nil
}

// unfollow detaches the programs that follow processes.
func (c *counter) unfollow() error {
	var errs []error
	for _, l := range c.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

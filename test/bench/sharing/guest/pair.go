package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// player is a process of a ping-pong. It sleeps until it gets the ball.
type player struct {
	cmd  *exec.Cmd
	to   *os.File // its standard input
	from *os.File // its standard output
}

// pair is two processes on CPU 0 that pass a byte to and fro.
type pair struct {
	ping, pong *player
}

func startPair(dir string) (*pair, error) {
	pong, err := startPlayer(dir, "pong", pong())
	if err != nil {
		return nil, err
	}
	ping, err := startPlayer(dir, "ping", ping(), pong.to, pong.from) // descriptors pingToPong and pongToPing
	if err != nil {
		return nil, err
	}
	return &pair{ping, pong}, nil
}

// startPlayer starts a program on CPU 0. files become its descriptors from 3 on.
func startPlayer(dir, name string, program []byte, files ...*os.File) (*player, error) {
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, program, 0o755); err != nil {
		return nil, err
	}
	stdin, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	from, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	p := &player{exec.Command(file), to, from}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.ExtraFiles = stdin, stdout, files
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := p.schedule(); err != nil {
		return nil, fmt.Errorf("set how %s is scheduled: %w", name, err)
	}
	return p, nil
}

// schedule pins the process to CPU 0 and gives it real-time priority. With the default policy, fairness changes the cost of a round trip by up
// to 0.7 % for some tenths of a second, and other processes run in between.
func (p *player) schedule() error {
	var first unix.CPUSet
	first.Set(0)
	if err := unix.SchedSetaffinity(p.pid(), &first); err != nil {
		return err
	}
	return unix.SchedSetAttr(p.pid(), &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
}

func (p *player) pid() int { return p.cmd.Process.Pid }

// play makes round trips and returns the average time of one, in ns. Under -icount a nanosecond is an instruction.
func (p *pair) play(trips uint64) (float64, error) {
	if _, err := p.ping.to.Write(binary.NativeEndian.AppendUint64(nil, trips)); err != nil {
		return 0, err
	}
	var times struct{ Start, End unix.Timespec }
	if err := binary.Read(p.ping.from, binary.NativeEndian, &times); err != nil {
		return 0, fmt.Errorf("read ping's times: %w", err)
	}
	return float64(times.End.Nano()-times.Start.Nano()) / float64(trips), nil
}

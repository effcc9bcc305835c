// Package control is the remote control of a session that counts or records: the option --control.
package control

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Channel is a session's remote control: lines are read from one descriptor, and each is answered
// with "ack" on another.
type Channel struct {
	in       *os.File
	ack      *os.File // nil without one
	commands chan Command
	warn     func(string)
}

// Command is a line that is understood.
type Command string

// The commands, as perf names them.
const (
	Enable  Command = "enable"
	Disable Command = "disable"
	Ping    Command = "ping"
	Stop    Command = "stop"
)

// Open opens the argument of --control: fd:CTL[,ACK], numbers of inherited descriptors, or
// fifo:CTL[,ACK], paths of FIFOs. A FIFO is opened for writing as well, so that it stays open when
// a writer goes. Lines that are not understood go to warn.
func Open(arg string, warn func(string)) (*Channel, error) {
	kind, names, _ := strings.Cut(arg, ":")
	ctl, ack, _ := strings.Cut(names, ",")
	var open func(string) (*os.File, error)
	switch kind {
	case "fd":
		open = inherited
	case "fifo":
		open = fifo
	default:
		return nil, fmt.Errorf("--control takes fd:CTL[,ACK] or fifo:CTL[,ACK], not %q", arg)
	}
	c := &Channel{commands: make(chan Command), warn: warn}
	var err error
	if c.in, err = open(ctl); err != nil {
		return nil, fmt.Errorf("--control %s: %w", arg, err)
	}
	if ack != "" {
		if c.ack, err = open(ack); err != nil {
			c.in.Close()
			return nil, fmt.Errorf("--control %s: %w", arg, err)
		}
	}
	go c.read()
	return c, nil
}

func inherited(number string) (*os.File, error) {
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 0 {
		return nil, fmt.Errorf("%q is not the number of a descriptor", number)
	}
	f := os.NewFile(uintptr(fd), "fd "+number)
	if _, err := f.Stat(); err != nil {
		return nil, fmt.Errorf("descriptor %d is not open", fd)
	}
	syscall.CloseOnExec(fd)
	return f, nil
}

func fifo(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode()&os.ModeNamedPipe == 0 {
		return nil, fmt.Errorf("%s is not a FIFO", path)
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// read takes lines until the descriptor is closed.
func (c *Channel) read() {
	defer close(c.commands)
	lines := bufio.NewScanner(c.in)
	for lines.Scan() {
		switch command := Command(strings.TrimRight(lines.Text(), "\x00 \r")); command {
		case Enable, Disable, Ping, Stop:
			c.commands <- command
		case "":
		default:
			c.warn(fmt.Sprintf("control: %q is not a command; there are enable, disable, ping and stop", command))
		}
	}
	if err := lines.Err(); err != nil {
		c.warn(fmt.Sprintf("control: %v", err))
	}
}

// Commands is closed when no more can come. Without a control there never are any.
func (c *Channel) Commands() <-chan Command {
	if c == nil {
		return nil
	}
	return c.commands
}

// Ack answers that a command was carried out.
func (c *Channel) Ack() error {
	if c.ack == nil {
		return nil
	}
	if _, err := io.WriteString(c.ack, "ack\n"); err != nil {
		return fmt.Errorf("control: acknowledge: %w", err)
	}
	return nil
}

// Package control implements the option --control, the remote control of a session that counts or records.
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

// Channel is a session's remote control. It reads commands, one per line, from one descriptor and answers with "ack" on another.
type Channel struct {
	in       *os.File
	ack      *os.File // nil if the argument has no ACK
	commands chan Command
	warn     func(string)
}

// Command is a valid command line.
type Command string

// The commands, as perf names them.
const (
	Enable  Command = "enable"
	Disable Command = "disable"
	Ping    Command = "ping"
	Stop    Command = "stop"
)

// Open opens the argument of --control: fd:CTL[,ACK], numbers of inherited descriptors, or
// fifo:CTL[,ACK], paths of FIFOs. It opens FIFOs for reading and writing, so that they stay open when a writer closes its end.
// Open calls warn with a message for each line that is no command.
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

// read reads lines until the descriptor is closed.
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

// Commands returns a channel of commands, which is closed when no more can come. If c is nil, it returns nil, which never receives a command.
func (c *Channel) Commands() <-chan Command {
	if c == nil {
		return nil
	}
	return c.commands
}

// Ack acknowledges that a command was carried out.
func (c *Channel) Ack() error {
	if c.ack == nil {
		return nil
	}
	if _, err := io.WriteString(c.ack, "ack\n"); err != nil {
		return fmt.Errorf("control: acknowledge: %w", err)
	}
	return nil
}

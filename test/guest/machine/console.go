package machine

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// console is the machine's console, which it shares with QEMU's monitor. It keeps the last bytes of what both print.
type console struct {
	conn io.ReadWriteCloser

	mu   sync.Mutex
	kept []byte
	keep int       // the number of bytes to keep
	last time.Time // when the last bytes came
}

const (
	keptOfConsole   = 4 << 10
	keptOfInterview = 256 << 10 // a kernel with 200 tasks prints 150 KB
)

// openConsole returns a console and the descriptor for QEMU.
func openConsole() (*console, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return newConsole(os.NewFile(uintptr(fds[0]), "console")), os.NewFile(uintptr(fds[1]), "console of QEMU"), nil
}

func newConsole(conn io.ReadWriteCloser) *console {
	return &console{conn: conn, keep: keptOfConsole, last: time.Now()}
}

// read reads until QEMU has ended.
func (c *console) read() {
	defer c.conn.Close()
	buf := make([]byte, 4<<10)
	for {
		n, err := c.conn.Read(buf)
		c.add(buf[:n])
		if err != nil {
			return
		}
	}
}

func (c *console) add(said []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	c.kept = append(c.kept, said...)
	if cut := len(c.kept) - c.keep; cut > 0 {
		c.kept = append(c.kept[:0], c.kept[cut:]...)
	}
}

// interview asks a machine that does not end what it is doing. QEMU prints the registers of each CPU, twice: a CPU with the same registers
// makes no progress. Then the kernel, if it still answers, prints what runs on each CPU and the kernel stack of each task.
func (c *console) interview() {
	c.mu.Lock()
	c.keep = keptOfInterview
	c.mu.Unlock()
	// In QEMU's multiplexer, Ctrl-A c switches to the monitor and back, and Ctrl-A b sends a break. After a break the kernel takes the next
	// byte as a command (Documentation/admin-guide/sysrq.rst).
	const toggle, sysrq = "\x01c", "\x01b"
	for _, s := range []string{
		toggle + "info cpus\n", "info registers -a\n", "info registers -a\n" + toggle,
		sysrq + "9", sysrq + "l", sysrq + "t",
	} {
		if _, err := io.WriteString(c.conn, s); err != nil {
			return
		}
		c.awaitSilence()
	}
}

// awaitSilence returns when nothing was printed for a second, or after a minute.
func (c *console) awaitSilence() {
	const silence, patience, pause = time.Second, time.Minute, 100 * time.Millisecond
	for start := time.Now(); time.Since(start) < patience; time.Sleep(pause) {
		c.mu.Lock()
		silent := time.Since(c.last) >= silence && time.Since(start) >= silence
		c.mu.Unlock()
		if silent {
			return
		}
	}
}

// String returns the text as the end of an error message.
func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var said strings.Builder
	for line := range bytes.Lines(bytes.ReplaceAll(c.kept, []byte("\r"), nil)) {
		if !bytes.HasPrefix(line, []byte("(qemu)")) { // the monitor's prompt with the echo of each byte
			said.Write(line)
		}
	}
	if text := strings.TrimSpace(said.String()); text != "" {
		return "; its console ended with:\n" + text
	}
	return "; its console was silent"
}

package shared

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
)

// host is a process with sessions that can be killed.
type host struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// order describes a session that a host should start.
type order struct {
	Events  string
	Target  target.Spec
	Options Options
}

func startHost(t testing.TB, dir string) *host {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "helper", "host", dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	h := &host{t, cmd, in, bufio.NewReader(out)}
	t.Cleanup(h.kill)
	return h
}

// order sends an order to start a session to the host.
func (h *host) order(events string, s target.Spec, o Options) error {
	return json.NewEncoder(h.in).Encode(order{events, s, o})
}

// start starts a session in the host, and returns once it counts.
func (h *host) start(events string, s target.Spec, o Options) {
	h.t.Helper()
	check(h.t, h.order(events, s, o))
	if line, err := h.out.ReadString('\n'); line != "started\n" {
		h.t.Fatalf("host said %q (%v)", line, err)
	}
}

// end closes the sessions and ends the host.
func (h *host) end() {
	h.t.Helper()
	check(h.t, h.in.Close())
	check(h.t, h.cmd.Wait())
}

// kill kills the host with its sessions, which cannot clean up.
func (h *host) kill() {
	h.cmd.Process.Kill()
	h.cmd.Wait()
}

func hostSessions(dir string) {
	orders := json.NewDecoder(os.Stdin)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return
		}
		c, err := hostSession(dir, o)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer c.Close()
		fmt.Println("started")
	}
}

func hostSession(dir string, o order) (*Counter, error) {
	list, err := event.Host().Parse(o.Events)
	if err != nil {
		return nil, err
	}
	at, err := o.Target.Resolve()
	if err != nil {
		return nil, err
	}
	c, err := Open(Where{Dir: dir}, list, at, o.Options)
	if err != nil {
		return nil, err
	}
	return c, c.Enable()
}

// reportOpen prints the error of opening a session that shares through a directory.
func reportOpen(dir string) {
	list, err := event.Host().Parse("task-clock")
	if err != nil {
		fmt.Println(err)
		return
	}
	at, err := target.Spec{PIDs: []int{os.Getpid()}}.Resolve()
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := Open(Where{Dir: dir}, list, at, Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Close()
}

package shared

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// uevent is the kernel's message that a CPU has come or gone.
type uevent struct {
	number uint64 // of all messages of the kernel; 0 when some were lost
	cpu    int
	online bool
}

// parseUevent reads a message (https://docs.kernel.org/driver-api/basics.html, kobject_uevent): a head, and then lines of
// "KEY=value" that each end with a zero byte. It returns false if it is not about a CPU.
func parseUevent(message []byte) (uevent, bool) {
	values := make(map[string]string)
	for part := range bytes.SplitSeq(message, []byte{0}) {
		if key, value, ok := strings.Cut(string(part), "="); ok {
			values[key] = value
		}
	}
	action := values["ACTION"]
	if values["SUBSYSTEM"] != "cpu" || action != "online" && action != "offline" {
		return uevent{}, false
	}
	cpu, err := strconv.Atoi(strings.TrimPrefix(values["DEVPATH"], "/devices/system/cpu/cpu"))
	if err != nil {
		return uevent{}, false
	}
	number, err := strconv.ParseUint(values["SEQNUM"], 10, 64)
	return uevent{number, cpu, action == "online"}, err == nil
}

// uevents is a socket that gets the kernel's messages (NETLINK_KOBJECT_UEVENT).
type uevents struct{ *os.File }

// kernelUevents is the multicast group of the kernel itself.
const kernelUevents = 1

func openUevents() (uevents, error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, syscall.NETLINK_KOBJECT_UEVENT)
	if err == nil {
		if err = syscall.Bind(fd, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK, Groups: kernelUevents}); err != nil {
			syscall.Close(fd)
		}
	}
	if err != nil {
		return uevents{}, fmt.Errorf("listen for CPUs that come and go: %w", err)
	}
	return uevents{os.NewFile(uintptr(fd), "uevents")}, nil
}

// next waits for the next message about a CPU. It fails when the socket has been closed.
func (u uevents) next() (uevent, error) {
	message := make([]byte, 8192)
	for {
		n, err := u.Read(message)
		if errors.Is(err, syscall.ENOBUFS) {
			return uevent{online: true}, nil
		}
		if err != nil {
			return uevent{}, err
		}
		if e, ok := parseUevent(message[:n]); ok {
			return e, nil
		}
	}
}

// followCPUs opens and closes perf events as CPUs come and go, until the session ends.
func (c *Counter) followCPUs(u uevents) {
	for {
		e, err := u.next()
		if err != nil {
			return
		}
		c.mu.Lock()
		if c.o != nil {
			c.failed = errors.Join(c.failed, c.changeCPU(e))
		}
		c.mu.Unlock()
	}
}

// changeCPU deals with a message. All sessions get it; the first one closes the perf events of a CPU that has gone.
func (c *Counter) changeCPU(e uevent) error {
	unlock, err := c.place.lock(alone)
	if err != nil {
		return err
	}
	defer unlock()
	b, err := openBook(c.o)
	if err != nil {
		return err
	}
	s, err := readSlots(c.o)
	if err != nil {
		return err
	}
	if e.number > b.state.Hotplug {
		b.state.Hotplug = e.number
		if err := b.writeState(); err != nil {
			return err
		}
		if !e.online {
			return s.closeCPU(e.cpu)
		}
	}
	if !e.online {
		return nil
	}
	return c.openLater(s)
}

// closeCPU closes all perf events of a CPU, which do not come back with it.
func (s *slots) closeCPU(cpu int) error {
	for i := range s.table {
		if s.table[i].used() && s.table[i].Leader == 0 {
			if err := s.closeOn(i, cpu); err != nil {
				return err
			}
		}
	}
	return nil
}

// openLater opens what this session counts on CPUs that have come online.
func (c *Counter) openLater(s *slots) error {
	online, err := onlineCPUs()
	if err != nil {
		return err
	}
	for _, e := range c.events {
		if e.err != nil || c.followed[e.slot] != nil {
			continue
		}
		for _, cpu := range online {
			if !e.wants(cpu) || s.table[e.slot].has(cpu) {
				continue
			}
			if err := c.o.syncCPUs([]int{cpu}, syncForget, 1<<e.slot); err != nil {
				return err
			}
			if err := s.openOn(e.slot, cpu); err != nil {
				return fmt.Errorf("count on CPU %d, which has come online: %w", cpu, err)
			}
		}
	}
	return nil
}

// wants is whether an event is to be open on a CPU.
func (e counted) wants(cpu int) bool { return e.opens == nil || slices.Contains(e.opens, cpu) }

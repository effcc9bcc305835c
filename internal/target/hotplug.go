package target

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// CPUChange is the kernel's message that a CPU came online or went offline.
type CPUChange struct {
	Number uint64 // the kernel's sequence number over all its messages; 0 if messages were lost
	CPU    int
	Online bool
}

// parseUevent parses a message of the kernel (https://docs.kernel.org/driver-api/basics.html, kobject_uevent): a head, and then lines of
// "KEY=value" that each end with a zero byte. It returns false if the message is not about a CPU that came online or went offline.
func parseUevent(message []byte) (CPUChange, bool) {
	values := make(map[string]string)
	for part := range bytes.SplitSeq(message, []byte{0}) {
		if key, value, ok := strings.Cut(string(part), "="); ok {
			values[key] = value
		}
	}
	action := values["ACTION"]
	if values["SUBSYSTEM"] != "cpu" || action != "online" && action != "offline" {
		return CPUChange{}, false
	}
	cpu, err := strconv.Atoi(strings.TrimPrefix(values["DEVPATH"], "/devices/system/cpu/cpu"))
	if err != nil {
		return CPUChange{}, false
	}
	number, err := strconv.ParseUint(values["SEQNUM"], 10, 64)
	return CPUChange{number, cpu, action == "online"}, err == nil
}

// CPUChanges is a socket that receives the kernel's messages (NETLINK_KOBJECT_UEVENT).
type CPUChanges struct{ file *os.File }

// kernelUevents is the multicast group of the kernel itself.
const kernelUevents = 1

// ListenForCPUs opens a socket that receives the changes of all CPUs from now on.
func ListenForCPUs() (CPUChanges, error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, syscall.NETLINK_KOBJECT_UEVENT)
	if err == nil {
		if err = syscall.Bind(fd, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK, Groups: kernelUevents}); err != nil {
			syscall.Close(fd)
		}
	}
	if err != nil {
		return CPUChanges{}, fmt.Errorf("listen for CPUs that come and go: %w", err)
	}
	return CPUChanges{os.NewFile(uintptr(fd), "uevents")}, nil
}

// Close ends All. It does nothing for the zero value.
func (u CPUChanges) Close() error {
	if u.file == nil {
		return nil
	}
	return u.file.Close()
}

// All yields the changes of CPUs as they arrive, until the socket is closed. After lost messages it yields a change with Number 0. It
// yields nothing for the zero value.
func (u CPUChanges) All() iter.Seq[CPUChange] {
	return func(yield func(CPUChange) bool) {
		message := make([]byte, 8192)
		for {
			n, err := u.file.Read(message)
			change, ok := parseUevent(message[:n])
			switch {
			case errors.Is(err, syscall.ENOBUFS):
				change, ok = CPUChange{Online: true}, true
			case err != nil:
				return
			}
			if ok && !yield(change) {
				return
			}
		}
	}
}

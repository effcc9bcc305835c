package kernel

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Capability is the number of a capability in include/uapi/linux/capability.h.
type Capability int

// The capabilities that bperf uses.
const (
	CapDACReadSearch     Capability = unix.CAP_DAC_READ_SEARCH    // read files and directories of others; open a cgroup by its ID
	CapIPCLock           Capability = unix.CAP_IPC_LOCK           // rings of any size
	CapSysPtrace         Capability = unix.CAP_SYS_PTRACE         // the files that processes of others have mapped and opened
	CapSysAdmin          Capability = unix.CAP_SYS_ADMIN          // find BPF programs and maps by ID; BPF_ENABLE_STATS
	CapSysNice           Capability = unix.CAP_SYS_NICE           // real-time priority
	CapSysResource       Capability = unix.CAP_SYS_RESOURCE       // more files than the hard limit
	CapSyslog            Capability = unix.CAP_SYSLOG             // addresses in /proc/kallsyms
	CapPerfmon           Capability = unix.CAP_PERFMON            // Linux 5.8: perf events, and BPF programs that trace
	CapBPF               Capability = unix.CAP_BPF                // Linux 5.8: BPF programs and maps
	CapCheckpointRestore Capability = unix.CAP_CHECKPOINT_RESTORE // Linux 5.9: files that processes have mapped, after they were deleted
)

// KeepCapabilities drops all other capabilities, on all threads of this process and for good. Programs that it starts do not get them
// either, because it sets no_new_privs (PR_SET_NO_NEW_PRIVS of prctl(2)): otherwise those of root would. It returns errors.ErrUnsupported
// in programs built with cgo, where Go does not know all threads. No thread may have other capabilities than the others.
func KeepCapabilities(keep ...Capability) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // of the capabilities 0 to 31, and of the others
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	var kept [2]uint32
	for _, c := range keep {
		kept[c/32] |= 1 << (c % 32)
	}
	for i := range sets {
		sets[i].Effective &= kept[i]
		sets[i].Permitted &= kept[i]
		sets[i].Inheritable &= kept[i]
	}
	if err := onAllThreads("prctl", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return err
	}
	return onAllThreads("capset", unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets[0])), 0)
}

// onAllThreads makes a system call on each thread of this process.
//
//go:uintptrescapes
func onAllThreads(name string, trap, a1, a2, a3 uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall(trap, a1, a2, a3)
	switch {
	case errno == syscall.ENOTSUP:
		return fmt.Errorf("%s on all threads: %w in a program built with cgo", name, errors.ErrUnsupported)
	case errno != 0:
		return os.NewSyscallError(name+" on all threads", errno)
	}
	return nil
}

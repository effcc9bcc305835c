// Package machine runs a kernel in QEMU, with software emulation only.
package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/test/guest/job"
)

// Machine is a machine to boot.
type Machine struct {
	Arch      Arch
	Kernel    string // file
	Initramfs string // file
	CPU       string // model as QEMU names it; empty for Arch's own
	CPUs      int
	MemoryMiB int
	CPUTime   time.Duration // the most that QEMU may take; unlike a clock's time, it does not depend on what else this machine does
	Ports     map[int]int   // TCP ports of the guest by the ports of 127.0.0.1 here that lead to them; without any there is no network
	Lockdown  bool          // boot the kernel in lockdown=confidentiality
}

// Run boots the machine and returns the status that its init reports. It copies the output of the job to output as the job prints it. It is
// an error if the machine ends without a status, not before ctx is done, or not within CPUTime. The error includes the last output of the
// console and, after CPUTime, what the machine was doing.
func (m *Machine) Run(ctx context.Context, output io.Writer) (job.Status, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, m.Arch.QEMU, m.args()...)
	cmd.Stderr = os.Stderr
	// QEMU must end with this process, even if this process is killed. The kernel sends the signal when the thread that started QEMU ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	console, theirs, err := openConsole()
	if err != nil {
		return job.Status{}, err
	}
	defer theirs.Close()
	cmd.ExtraFiles = append(cmd.ExtraFiles, theirs)
	cmd.Cancel = func() error {
		if errors.Is(context.Cause(ctx), errCPUTime) {
			console.interview()
		}
		return cmd.Process.Kill()
	}
	var status statusReader
	var readers sync.WaitGroup
	readers.Go(console.read)
	for _, consume := range []func(io.Reader){copyTo(output), status.read} {
		r, w, err := os.Pipe()
		if err != nil {
			return job.Status{}, err
		}
		defer w.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, w)
		readers.Go(func() {
			defer r.Close()
			consume(r)
		})
	}
	if err = cmd.Start(); err == nil {
		go m.limit(ctx, cancel, cmd.Process.Pid)
		err = cmd.Wait()
	}
	for _, w := range cmd.ExtraFiles {
		w.Close()
	}
	readers.Wait()

	switch {
	case ctx.Err() != nil:
		return job.Status{}, fmt.Errorf("the guest was stopped: %w%s", context.Cause(ctx), console)
	case err != nil:
		return job.Status{}, fmt.Errorf("%s: %w%s", m.Arch.QEMU, err, console)
	case status.err != nil:
		return job.Status{}, fmt.Errorf("the guest ended before its commands did: %w%s", status.err, console)
	}
	return status.Status, nil
}

var errCPUTime = errors.New("it did not end")

// limit calls cancel when QEMU has taken CPUTime. It returns when ctx is done.
func (m *Machine) limit(ctx context.Context, cancel context.CancelCauseFunc, pid int) {
	clock := int32(^pid<<3 | 2) // of the process's CPU time: MAKE_PROCESS_CPUCLOCK in include/linux/posix-timers_types.h
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var used unix.Timespec
		if unix.ClockGettime(clock, &used) == nil && time.Duration(used.Nano()) > m.CPUTime {
			cancel(fmt.Errorf("%w within %v of QEMU's CPU time", errCPUTime, m.CPUTime))
		}
	}
}

// args returns QEMU's arguments. The descriptors after standard error are the console and the pipes that Run reads, in the same order.
func (m *Machine) args() []string {
	kernelArgs := m.Arch.commandLine + " " + commandLine
	if m.Lockdown {
		kernelArgs += lockdown
	}
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-cpu", cmp.Or(m.CPU, m.Arch.cpu), "-smp", strconv.Itoa(m.CPUs), "-m", strconv.Itoa(m.MemoryMiB),
		"-kernel", m.Kernel, "-initrd", m.Initramfs,
		"-append", kernelArgs,
		"-chardev", "socket,id=console,fd=3,mux=on", "-mon", "console",
		"-chardev", "file,id=output,path=/dev/fd/4",
		"-chardev", "file,id=status,path=/dev/fd/5",
	}
	args = append(args, strings.Fields(m.Arch.args)...)
	if len(m.Ports) > 0 {
		// The device comes last, as the kernel numbers virtio devices in this order, and names ports by the number. The guest can connect
		// to nothing. Its address is the first one of such a network.
		network := "user,id=network,restrict=on"
		for here, there := range m.Ports {
			network += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-:%d", here, there)
		}
		args = append(args, "-netdev", network, "-device", "virtio-net-pci,netdev=network,romfile=")
	}
	return args
}

// statusReader reads the status, or keeps the reason why there is none.
type statusReader struct {
	job.Status
	err error
}

func (s *statusReader) read(r io.Reader) {
	s.Status, s.err = job.ReadStatus(r)
	if errors.Is(s.err, io.EOF) {
		s.err = errors.New("init reported no status")
	}
	io.Copy(io.Discard, r)
}

func copyTo(w io.Writer) func(io.Reader) {
	return func(r io.Reader) { io.Copy(w, r) }
}

package kernel

import (
	"errors"
	"io"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// load loads a program that does nothing.
func load(t ebpf.ProgramType, attach ebpf.AttachType, to string) (*ebpf.Program, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "bperf_probe",
		Type:         t,
		AttachType:   attach,
		AttachTo:     to,
		License:      "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	return p, answer(err)
}

// answer returns the kernel's errno in err, without the library's guess at the reason. It returns other errors unchanged.
func answer(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// refused returns the remedy for a refusal by the kernel, or "" if none is known.
func (x examiner) refused(err error) string {
	if errors.Is(err, unix.EPERM) && !x.capabilities.has(capBPF, capPerfmon) {
		return "Run as root, or give bperf the capabilities: setcap cap_bpf,cap_perfmon=ep BPERF"
	}
	if errors.Is(err, unix.EPERM) {
		return Policy + "."
	}
	return ""
}

// programs tries to attach a program to a raw tracepoint.
func (x examiner) programs() Finding {
	const feature = "BPF programs"
	p, err := load(ebpf.RawTracepoint, ebpf.AttachNone, "")
	if err != nil {
		return missing(feature, x.refused(err), "load a raw tracepoint program: %v", err)
	}
	defer p.Close()
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_switch", Program: p})
	if err != nil {
		return missing(feature, x.refused(err), "attach a program to the raw tracepoint sched_switch: %v", answer(err))
	}
	defer l.Close()
	return works(feature, "a raw tracepoint program loads and attaches")
}

// perfEventPrograms tries to attach a program to a sampling event. BPF links to perf events exist since Linux 5.15.
func (x examiner) perfEventPrograms() Finding {
	const feature = "BPF on perf events"
	p, err := load(ebpf.PerfEvent, ebpf.AttachNone, "")
	if err != nil {
		return missing(feature, x.refused(err), "load a perf_event program: %v", err)
	}
	defer p.Close()
	attr := software(perfdata.SoftwareCPUClock)
	attr.SamplePeriod = 1e9
	attr.Flags |= perfdata.AttrDisabled
	e, err := perfevent.Open(&attr, ownThread)
	if err != nil {
		return missing(feature, x.permission(""), "open a sampling event: %v", err)
	}
	defer e.Close()
	l, err := link.AttachRawLink(link.RawLinkOptions{Target: e.FD(), Program: p, Attach: ebpf.AttachPerfEvent})
	if err != nil {
		return missing(feature, x.refused(err), "attach a program to a sampling event: %v", answer(err))
	}
	defer l.Close()
	return works(feature, "a program runs at each sample")
}

// btf checks for the BTF of the kernel, which programs need to adapt to it.
func (x examiner) btf() Finding {
	const feature = "BTF of the kernel"
	const file = "kernel/btf/vmlinux"
	f, err := x.sys.Open(file)
	if err != nil {
		return missing(feature, "Use a kernel with CONFIG_DEBUG_INFO_BTF.", "%v", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return missing(feature, "", "%v", err)
	}
	return works(feature, "/sys/%s, %.1f MiB", file, float64(info.Size())/(1<<20))
}

// trampolines tries to attach a program to the entry of bpf_fentry_test1, a kernel function for such tests.
func (x examiner) trampolines() Finding {
	const feature = "trampolines (fentry, fexit)"
	p, err := load(ebpf.Tracing, ebpf.AttachTraceFEntry, "bpf_fentry_test1")
	if err != nil {
		return missing(feature, x.refused(err), "load an fentry program: %v", err)
	}
	defer p.Close()
	l, err := link.AttachTracing(link.TracingOptions{Program: p})
	if err != nil {
		return missing(feature, x.refused(err), "attach an fentry program: %v", answer(err))
	}
	defer l.Close()
	return works(feature, "an fentry program loads and attaches")
}

// CountRuns makes the kernel count and time the runs of BPF programs (BPF_ENABLE_STATS, Linux 5.8). It stops when the result is closed or
// the process exits.
func CountRuns() (io.Closer, error) { return ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME)) }

// IsBPFFS reports whether a path is in a BPF file system.
func IsBPFFS(path string) (bool, error) {
	var fs unix.Statfs_t
	err := unix.Statfs(path, &fs)
	return err == nil && uint32(fs.Type) == unix.BPF_FS_MAGIC, err
}

// runStats tries to enable the statistics of program runs for a moment (Linux 5.8).
func (x examiner) runStats() Finding {
	const feature = "BPF run statistics"
	c, err := CountRuns()
	if err != nil {
		return missing(feature, x.refused(err), "%v", answer(err))
	}
	defer c.Close()
	return works(feature, "run count and run time of programs")
}

// bpffs checks for the BPF file system, which IDs are pinned in.
func (x examiner) bpffs() Finding {
	const feature = "bpffs"
	const remedy = "Mount it: mount -t bpf bpf /sys/fs/bpf"
	mounts, err := procfs.Mounts(x.proc, "self")
	if err != nil {
		return missing(feature, remedy, "%v", err)
	}
	where, ok := procfs.FindMount(mounts, "bpf", "")
	if !ok {
		return missing(feature, remedy, "it is not mounted")
	}
	return works(feature, "on %s", where)
}

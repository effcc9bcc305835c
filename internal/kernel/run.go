package kernel

import "github.com/cilium/ebpf"

// testRunOnCPU is BPF_F_TEST_RUN_ON_CPU of include/uapi/linux/bpf.h.
const testRunOnCPU = 1

// RunOnCPU runs a raw tracepoint program once on the given CPU, with interrupts off, and returns its result. The error wraps syscall.ENXIO
// if the CPU is offline. RunOnCPU needs Linux 5.10.
func RunOnCPU(p *ebpf.Program, cpu int, context any) (uint32, error) {
	return p.Run(&ebpf.RunOptions{Context: context, CPU: uint32(cpu), Flags: testRunOnCPU})
}

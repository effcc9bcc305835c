package bpfprogram

import (
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// Reader is a thread that reads a byte, itself and in a BPF program of type tracepoint. A breakpoint at the byte triggers for the program's
// reads while the program runs.
type Reader struct {
	TID     int
	Address uintptr // of the byte

	orders chan [2]int
	done   chan struct{}
}

// StartReader starts a Reader that ends with the test. It needs tracefs.
func StartReader(t testing.TB) *Reader {
	t.Helper()
	page, err := syscall.Mmap(-1, 0, syscall.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	page[0] = 1 // faults the page in
	r := &Reader{Address: uintptr(unsafe.Pointer(&page[0])), orders: make(chan [2]int), done: make(chan struct{})}
	readAtGetsid(t, r.Address)
	tid := make(chan int)
	go func() {
		runtime.LockOSThread() // until the thread ends
		tid <- syscall.Gettid()
		for order := range r.orders {
			for range order[0] {
				read(&page[0])
			}
			for range order[1] {
				syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0) // with PID 0, itself, it cannot fail
			}
			r.done <- struct{}{}
		}
	}()
	r.TID = <-tid
	t.Cleanup(func() {
		close(r.orders)
		if err := syscall.Munmap(page); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Read makes the thread read the byte itself, own times, and then in the program, within times.
func (r *Reader) Read(own, within int) {
	r.orders <- [2]int{own, within}
	<-r.done
}

// read reads a byte exactly once. The race detector would add reads, which a breakpoint would count.
//
//go:noinline
//go:norace
func read(b *byte) byte { return *b }

// readAtGetsid attaches a program that reads a byte of the caller's memory at each call of getsid(2) until the test ends.
func readAtGetsid(t testing.TB, address uintptr) {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "bperf_reads", Type: ebpf.TracePoint, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, -8),
		asm.Mov.Imm(asm.R2, 1),
		asm.LoadImm(asm.R3, int64(address), asm.DWord),
		asm.FnProbeReadUser.Call(),
		asm.Mov.Imm(asm.R0, 1), // 0 would hide the event from other users of the tracepoint
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close() // the link keeps it
	attached, err := link.Tracepoint("syscalls", "sys_enter_getsid", p, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := attached.Close(); err != nil {
			t.Error(err)
		}
	})
}

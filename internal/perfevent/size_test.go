package perfevent

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/perfdata"
)

// TestKernelAttrSize checks that the kernel refuses a structure with a nonzero byte beyond this size, and that it then reports the
// same size.
func TestKernelAttrSize(t *testing.T) {
	size, err := KernelAttrSize()
	if err != nil {
		t.Fatal(err)
	}
	if size < 128 || size%8 != 0 || size >= 4096 {
		t.Fatalf("%d bytes", size)
	}
	var b [4096 / 8]uint64 // the longest structure that kernels accept
	attr := (*perfdata.Attr)(unsafe.Pointer(&b))
	attr.Type, attr.Config = perfdata.TypeSoftware, perfdata.SoftwareDummy
	attr.Size = uint32(unsafe.Sizeof(b))
	b[size/8] = 1
	_, _, errno := unix.Syscall6(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&b)), 0, ^uintptr(0), ^uintptr(0), 0, 0)
	if errno != unix.E2BIG || int(attr.Size) != size {
		t.Errorf("with something behind the %d bytes: %v, and says %d", size, errno, attr.Size)
	}
}

package perfevent

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// NewArray creates a BPF map of type BPF_MAP_TYPE_PERF_EVENT_ARRAY and returns its descriptor. Its elements stay when the map descriptor that
// stored them is closed (BPF_F_PRESERVE_ELEMS, Linux 5.10). BPF libraries limit such a map to one element per CPU; this one can have more,
// for several events per CPU. The name has at most 15 letters, digits and underscores.
func NewArray(name string, elements int) (fd int, err error) {
	attr := struct { // of union bpf_attr, for BPF_MAP_CREATE
		mapType, keySize, valueSize, maxEntries, mapFlags uint32
		innerMapFD, numaNode                              uint32
		mapName                                           [unix.BPF_OBJ_NAME_LEN]byte
	}{mapType: unix.BPF_MAP_TYPE_PERF_EVENT_ARRAY, keySize: 4, valueSize: 4, maxEntries: uint32(elements),
		mapFlags: unix.BPF_F_PRESERVE_ELEMS}
	copy(attr.mapName[:len(attr.mapName)-1], name)
	r, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return -1, os.NewSyscallError("bpf(BPF_MAP_CREATE)", errno)
	}
	return int(r), nil
}

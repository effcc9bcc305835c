package bpfprog

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/kernel"
)

// This file is the boundary to bpf(2), for what cilium/ebpf does not tell of programs and links: tags of sub-programs, whether
// a program is GPL, what a tracing program is attached to, the particulars of iterators and struct_ops.

// Kinds of BPF objects that have IDs.
type object struct {
	name         string
	next, openID int // commands of bpf(2)
}

var (
	programs = object{"BPF program", unix.BPF_PROG_GET_NEXT_ID, unix.BPF_PROG_GET_FD_BY_ID}
	maps     = object{"BPF map", unix.BPF_MAP_GET_NEXT_ID, unix.BPF_MAP_GET_FD_BY_ID}
	links    = object{"BPF link", bpfLinkGetNextID, bpfLinkGetFDByID}
	btfs     = object{"BTF", unix.BPF_BTF_GET_NEXT_ID, unix.BPF_BTF_GET_FD_BY_ID}
)

// Commands of include/uapi/linux/bpf.h (Linux 5.8).
const (
	bpfLinkGetFDByID = 30
	bpfLinkGetNextID = 31
)

// bpf is bpf(2), for commands that never wait (see files.go). It is repeated as long as a signal interrupts it.
func bpf(cmd int, attr unsafe.Pointer, size uintptr) (int, error) {
	for {
		r, _, errno := unix.RawSyscall(unix.SYS_BPF, uintptr(cmd), uintptr(attr), size)
		switch errno {
		case 0:
			return int(r), nil
		case unix.EINTR:
		default:
			return -1, errno
		}
	}
}

// idAttr is the part of union bpf_attr for commands with IDs.
type idAttr struct {
	id, next, flags uint32
}

// ids are the IDs of all objects of a kind, from the lowest on, as they are while this goes over them.
func (o object) ids() iter.Seq2[uint32, error] {
	return func(yield func(uint32, error) bool) {
		attr := idAttr{}
		for {
			_, err := bpf(o.next, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
			if err == unix.ENOENT {
				return
			}
			if err != nil {
				yield(0, fmt.Errorf("look for %ss: %w%s", o.name, err, remedy(err)))
				return
			}
			if !yield(attr.next, nil) {
				return
			}
			attr.id = attr.next
		}
	}
}

// open opens an object. It fails with fs.ErrNotExist if there is none with the ID.
func (o object) open(id uint32) (descriptor, error) {
	attr := idAttr{id: id}
	fd, err := bpf(o.openID, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	switch {
	case err == unix.ENOENT, err == unix.EAGAIN: // there is an ID already for a link that is being made
		return -1, &noneError{o.name, id}
	case err != nil:
		return -1, fmt.Errorf("open %s %d: %w%s", o.name, id, err, remedy(err))
	}
	return descriptor(fd), nil
}

// noneError is the answer where no object has an ID.
type noneError struct {
	object string
	id     uint32
}

func (e *noneError) Error() string {
	return fmt.Sprintf("there is no %s with the ID %d", e.object, e.id)
}
func (e *noneError) Unwrap() error { return fs.ErrNotExist }

// descriptor is that of a BPF object. It is closed on exec.
type descriptor int

func (d descriptor) close() { closeFile(int(d)) }

// info asks for the bpf_*_info of an object. What the kernel does not know stays as it is.
func (d descriptor) info(p unsafe.Pointer, size uintptr) error {
	attr := struct {
		fd, length uint32
		info       unsafe.Pointer
	}{uint32(d), uint32(size), p}
	_, err := bpf(unix.BPF_OBJ_GET_INFO_BY_FD, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	runtime.KeepAlive(p)
	return err
}

// getPinned opens what is pinned at a path of a bpffs.
func getPinned(path string) (descriptor, error) {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	attr := struct {
		path  unsafe.Pointer
		fd    uint32
		flags uint32
	}{unsafe.Pointer(name), 0, 0}
	fd, err := bpf(unix.BPF_OBJ_GET, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if err != nil {
		return -1, err
	}
	return descriptor(fd), nil
}

// programInfo is struct bpf_prog_info of include/uapi/linux/bpf.h, as of Linux 6.0.
type programInfo struct {
	kind, id             uint32
	tag                  [8]byte
	jitedSize            uint32 // bytes; 0 without rights or JIT compiler
	xlatedSize           uint32 // bytes
	jitedCode            unsafe.Pointer
	xlatedCode           unsafe.Pointer
	loaded               uint64 // CLOCK_BOOTTIME, ns
	user                 uint32
	maps                 uint32
	mapIDs               unsafe.Pointer // of uint32
	name                 [16]byte
	interfaceIndex       uint32
	flags                uint32 // bit 0: compatible with the GPL
	netnsDevice          uint64
	netnsInode           uint64
	symbols              uint32
	functionSizes        uint32
	symbolAddresses      unsafe.Pointer // of uint64; all 0 without rights
	functionSizeList     unsafe.Pointer // of uint32, bytes of JITed code
	btf                  uint32
	functionRecordSize   uint32
	functionList         unsafe.Pointer // of functionRecord
	functions            uint32
	lines                uint32
	lineList             unsafe.Pointer
	jitedLineList        unsafe.Pointer
	jitedLines           uint32
	lineRecordSize       uint32
	jitedLineRecordSize  uint32
	tags                 uint32
	tagList              unsafe.Pointer // of [8]byte
	runTime              uint64         // ns
	runs                 uint64
	missed               uint64
	verifiedInstructions uint32
	attachBTF            uint32
	attachType           uint32
	_                    uint32
}

// functionRecord is struct bpf_func_info.
type functionRecord struct {
	offset uint32 // instructions from the start of the program
	btf    uint32 // type of the function
}

// mapInfo is the beginning of struct bpf_map_info.
type mapInfo struct {
	kind, id                    uint32
	keySize, valueSize, entries uint32
	flags                       uint32
	name                        [16]byte
}

// remedy is what would mend a refusal.
func remedy(err error) string {
	if !errors.Is(err, fs.ErrPermission) {
		return ""
	}
	if os.Geteuid() == 0 {
		return ". " + kernel.Remedy("This process may not see the BPF programs of the machine; it needs CAP_SYS_ADMIN in the initial user namespace")
	}
	return ". Run as root: BPF programs are shown to root, or to a user with CAP_SYS_ADMIN (to find them by ID) and CAP_BPF"
}

// text is a string that ends with a 0, or with the buffer.
func text(b []byte) string { return unix.ByteSliceToString(b) }

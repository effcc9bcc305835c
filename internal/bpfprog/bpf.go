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

// This file calls bpf(2) for what cilium/ebpf does not return: the tags of sub-programs, whether a program is GPL compatible, the target of
// a tracing program, and the details of iterators and struct_ops.

// object is a kind of BPF object that has IDs.
type object struct {
	name         string
	next, openID int // bpf(2) commands
}

var (
	programs = object{"BPF program", unix.BPF_PROG_GET_NEXT_ID, unix.BPF_PROG_GET_FD_BY_ID}
	maps     = object{"BPF map", unix.BPF_MAP_GET_NEXT_ID, unix.BPF_MAP_GET_FD_BY_ID}
	links    = object{"BPF link", bpfLinkGetNextID, bpfLinkGetFDByID}
	btfs     = object{"BTF", unix.BPF_BTF_GET_NEXT_ID, unix.BPF_BTF_GET_FD_BY_ID}
)

// bpf(2) commands from include/uapi/linux/bpf.h (Linux 5.8).
const (
	bpfLinkGetFDByID = 30
	bpfLinkGetNextID = 31
)

// bpf calls bpf(2) with a command that never blocks (see files.go). It retries after EINTR.
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

// idAttr is the part of union bpf_attr for commands that take an ID.
type idAttr struct {
	id, next, flags uint32
}

// ids iterates over the IDs of all objects of this kind, in ascending order. Objects may come and go during the iteration.
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

// open opens the object with an ID. The error is fs.ErrNotExist if there is none.
func (o object) open(id uint32) (descriptor, error) {
	attr := idAttr{id: id}
	fd, err := bpf(o.openID, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	switch {
	case err == unix.ENOENT, err == unix.EAGAIN: // EAGAIN: the link has an ID but is still being created
		return -1, &noneError{o.name, id}
	case err != nil:
		return -1, fmt.Errorf("open %s %d: %w%s", o.name, id, err, remedy(err))
	}
	return descriptor(fd), nil
}

// noneError reports that no object has the ID. It wraps fs.ErrNotExist.
type noneError struct {
	object string
	id     uint32
}

func (e *noneError) Error() string {
	return fmt.Sprintf("there is no %s with the ID %d", e.object, e.id)
}
func (e *noneError) Unwrap() error { return fs.ErrNotExist }

// descriptor is the file descriptor of a BPF object. The kernel closes it on exec.
type descriptor int

func (d descriptor) close() { closeFile(int(d)) }

// info reads the object's struct bpf_*_info. Fields that the kernel does not know keep their values.
func (d descriptor) info(p unsafe.Pointer, size uintptr) error {
	attr := struct {
		fd, length uint32
		info       unsafe.Pointer
	}{uint32(d), uint32(size), p}
	_, err := bpf(unix.BPF_OBJ_GET_INFO_BY_FD, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	runtime.KeepAlive(p)
	return err
}

// getPinned opens the object that is pinned at a path in a bpffs.
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
	jitedSize            uint32 // bytes; 0 without privileges or without the JIT compiler
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
	symbolAddresses      unsafe.Pointer // of uint64; all 0 without privileges
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
	offset uint32 // in instructions, from the start of the program
	btf    uint32 // type of the function
}

// mapInfo is the beginning of struct bpf_map_info, as of Linux 4.18.
type mapInfo struct {
	kind, id                    uint32
	keySize, valueSize, entries uint32
	flags                       uint32
	name                        [16]byte
	_, _                        uint32 // interface that it is offloaded to
	_, _                        uint64 // and its network namespace
	btf                         uint32 // ID; 0 without BTF
	keyType, valueType          uint32 // in the BTF
}

// remedy returns a sentence for an error message that says how to get the missing permission; "" if err is another error.
func remedy(err error) string {
	if !errors.Is(err, fs.ErrPermission) {
		return ""
	}
	if os.Geteuid() == 0 {
		return ". " + kernel.Remedy("This process may not see the BPF programs of the machine; it needs CAP_SYS_ADMIN in the initial user namespace")
	}
	return ". Run as root: BPF programs are shown to root, or to a user with CAP_SYS_ADMIN (to find them by ID) and CAP_BPF"
}

// text returns the bytes before the first 0, or all of them, as a string.
func text(b []byte) string { return unix.ByteSliceToString(b) }

package bpfprog

import (
	"fmt"
	"unsafe"

	"github.com/bperf/bperf/internal/bpfprog/linear"
)

// linear reads the program in the form that perf.data keeps: the lengths of the arrays first, then the arrays.
func (d descriptor) linear() (*linear.Info, error) {
	var counts programInfo
	if err := d.info(unsafe.Pointer(&counts), unsafe.Sizeof(counts)); err != nil {
		return nil, err
	}
	l := &linear.Info{
		Type: counts.kind, ID: counts.id, Tag: counts.tag, JITedSize: counts.jitedSize, TranslatedSize: counts.xlatedSize,
		LoadTime: counts.loaded, UID: counts.user, Maps: counts.maps, Name: text(counts.name[:]), InterfaceIndex: counts.interfaceIndex,
		GPLCompatible: counts.flags&1 != 0, NetNSDevice: counts.netnsDevice, NetNSInode: counts.netnsInode, BTF: counts.btf,
		RunTime: counts.runTime, Runs: counts.runs,
		JITed:      make([]byte, counts.jitedSize),
		Addresses:  make([]uint64, counts.symbols),
		Sizes:      make([]uint32, counts.functionSizes),
		Functions:  make([]linear.FunctionInfo, counts.functions),
		Lines:      make([]linear.LineInfo, counts.lines),
		JITedLines: make([]uint64, counts.jitedLines),
		Tags:       make([][8]byte, counts.tags),
	}
	info := programInfo{
		jitedSize: counts.jitedSize, jitedCode: start(l.JITed),
		symbols: counts.symbols, symbolAddresses: start(l.Addresses),
		functionSizes: counts.functionSizes, functionSizeList: start(l.Sizes),
		functions: counts.functions, functionRecordSize: uint32(unsafe.Sizeof(linear.FunctionInfo{})), functionList: start(l.Functions),
		lines: counts.lines, lineRecordSize: uint32(unsafe.Sizeof(linear.LineInfo{})), lineList: start(l.Lines),
		jitedLines: counts.jitedLines, jitedLineRecordSize: 8, jitedLineList: start(l.JITedLines),
		tags: counts.tags, tagList: start(l.Tags),
	}
	if err := d.info(unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil {
		return nil, err
	}
	// The kernel sets the pointer of an array that it hides from this process to 0.
	l.JITed = shown(l.JITed, info.jitedCode)
	l.Addresses = shown(l.Addresses, info.symbolAddresses)
	l.Sizes = shown(l.Sizes, info.functionSizeList)
	l.JITedLines = shown(l.JITedLines, info.jitedLineList)
	return l, nil
}

func start[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

func shown[T any](s []T, address unsafe.Pointer) []T {
	if address == nil {
		return nil
	}
	return s
}

// btfInfo is struct bpf_btf_info from include/uapi/linux/bpf.h, as of Linux 5.11.
type btfInfo struct {
	data       unsafe.Pointer
	size, id   uint32
	name       unsafe.Pointer
	nameLength uint32
	kernel     uint32
}

// ReadBTF returns the BTF with an ID (Linux 5.1). The error is fs.ErrNotExist if there is none.
func ReadBTF(id uint32) (linear.BTF, error) {
	d, err := btfs.open(id)
	if err != nil {
		return linear.BTF{}, err
	}
	defer d.close()
	var counts btfInfo
	if err := d.info(unsafe.Pointer(&counts), unsafe.Sizeof(counts)); err != nil {
		return linear.BTF{}, fmt.Errorf("read BTF %d: %w", id, err)
	}
	b := linear.BTF{ID: id, Data: make([]byte, counts.size)}
	info := btfInfo{data: start(b.Data), size: counts.size}
	if err := d.info(unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil {
		return linear.BTF{}, fmt.Errorf("read BTF %d: %w", id, err)
	}
	return b, nil
}

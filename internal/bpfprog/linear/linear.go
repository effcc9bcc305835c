// Package linear is the form in which perf.data keeps BPF programs: the features HEADER_BPF_PROG_INFO and HEADER_BPF_BTF of perf's file
// format (tools/perf/Documentation/perf.data-file-format.txt, Linux 5.1).
//
// The first is a count (u32), and for each program
//
//	u32 info_len    bytes of struct bpf_prog_info that follow
//	u32 data_len    bytes of data, a multiple of 8
//	u64 arrays      bit n: array n is in the data
//	struct bpf_prog_info, of which pointers to arrays are offsets in the data
//	u8  data[data_len]
//
// and the second is a count (u32), and for each BTF its ID (u32), its length in bytes (u32) and itself. A file of a machine of the other byte
// order has everything but code and strings in that order.
package linear

// Info is what perf.data keeps of a BPF program: struct bpf_prog_info of include/uapi/linux/bpf.h with the arrays that perf keeps. Those that
// are not in a file, or may not be seen, are empty.
type Info struct {
	Type, ID       uint32
	Tag            [8]byte
	JITedSize      uint32 // bytes of JITed code, also where the code itself is missing
	TranslatedSize uint32 // bytes
	LoadTime       uint64 // CLOCK_BOOTTIME, ns
	UID            uint32 // user who loaded it
	Maps           uint32 // how many it uses
	Name           string // its first 15 bytes
	InterfaceIndex uint32 // of the device that it was loaded for, and that device's network namespace; 0 for most
	GPLCompatible  bool
	NetNSDevice    uint64
	NetNSInode     uint64
	BTF            uint32 // ID; 0 without BTF
	RunTime        uint64 // ns; counted only while somebody has it counted
	Runs           uint64
	JITed          []byte   // machine code of all functions, one after the other
	Addresses      []uint64 // of functions; 0 where addresses of the kernel may not be seen
	Sizes          []uint32 // of functions, in bytes of machine code
	Functions      []FunctionInfo
	Lines          []LineInfo
	JITedLines     []uint64  // address of the code of each of Lines
	Tags           [][8]byte // of functions
}

// FunctionInfo is struct bpf_func_info.
type FunctionInfo struct {
	Instruction uint32 // of the translated program
	Type        uint32 // ID in the BTF
}

// LineInfo is struct bpf_line_info.
type LineInfo struct {
	Instruction uint32
	File, Text  uint32 // offsets in the strings of the BTF
	LineColumn  uint32 // number of the line, 22 bits, and of the column, 10 bits
}

// BTF is the type information of programs, as the kernel gives it.
type BTF struct {
	ID   uint32
	Data []byte
}

// Sizes of structures.
const (
	blobHeader  = 16  // info_len, data_len, arrays
	infoMin     = 192 // of struct bpf_prog_info up to prog_tags: Linux 5.1, with which perf began to keep it
	infoSize    = 208 // up to run_cnt: Linux 5.1. perf refuses structures that are longer than its own, and takes shorter ones.
	functionLen = 8
	lineLen     = 16
	btfHeader   = 8
)

// array tells where struct bpf_prog_info has a pointer and a count, and the size of an element: at an offset, or fixed.
type array struct {
	bit     uint // in arrays
	pointer int
	count   int
	size    int // 0 if it is at sizeAt
	sizeAt  int
	name    string
}

// The arrays that perf keeps, in the order in which they are written.
var (
	jitedCode    = array{bit: 0, pointer: 24, count: 16, size: 1, name: "jited_prog_insns"}
	addresses    = array{bit: 3, pointer: 112, count: 104, size: 8, name: "jited_ksyms"}
	sizes        = array{bit: 4, pointer: 120, count: 108, size: 4, name: "jited_func_lens"}
	functionInfo = array{bit: 5, pointer: 136, count: 144, sizeAt: 132, name: "func_info"}
	lineInfo     = array{bit: 6, pointer: 152, count: 148, sizeAt: 172, name: "line_info"}
	jitedLines   = array{bit: 7, pointer: 160, count: 168, sizeAt: 176, name: "jited_line_info"}
	tags         = array{bit: 8, pointer: 184, count: 180, size: 8, name: "prog_tags"}
)

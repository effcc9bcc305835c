// Package linear encodes and decodes the BPF programs in perf.data: the features HEADER_BPF_PROG_INFO and HEADER_BPF_BTF of perf's file format
// (tools/perf/Documentation/perf.data-file-format.txt, Linux 5.1).
//
// HEADER_BPF_PROG_INFO is a count (u32), and for each program
//
//	u32 info_len    bytes of struct bpf_prog_info that follow
//	u32 data_len    bytes of data, a multiple of 8
//	u64 arrays      bit n: array n is in the data
//	struct bpf_prog_info, in which pointers to arrays are offsets in the data
//	u8  data[data_len]
//
// HEADER_BPF_BTF is a count (u32), and for each BTF its ID (u32), its length in bytes (u32) and its bytes. A file has the byte order of the
// machine that wrote it, for everything except code and strings.
package linear

// Info is a BPF program as perf.data keeps it: struct bpf_prog_info from include/uapi/linux/bpf.h with the arrays that perf keeps. Arrays that
// are not in the file, or that the kernel hid, are empty.
type Info struct {
	Type, ID       uint32
	Tag            [8]byte
	JITedSize      uint32 // bytes of machine code, even if JITed is missing
	TranslatedSize uint32 // bytes
	LoadTime       uint64 // CLOCK_BOOTTIME, ns
	UID            uint32 // of the user who loaded it
	Maps           uint32 // number of maps that it uses
	Name           string // first 15 bytes
	InterfaceIndex uint32 // of the device that it is offloaded to, with the device's network namespace in NetNSDevice and NetNSInode; 0 for most
	GPLCompatible  bool
	NetNSDevice    uint64
	NetNSInode     uint64
	BTF            uint32 // ID; 0 without BTF
	RunTime        uint64 // ns; the kernel counts it and Runs only while it is asked to
	Runs           uint64
	JITed          []byte   // machine code of all functions, concatenated
	Addresses      []uint64 // of functions; 0 if kernel addresses are hidden
	Sizes          []uint32 // of functions, in bytes of machine code
	Functions      []FunctionInfo
	Lines          []LineInfo
	JITedLines     []uint64  // address of the code of each of Lines
	Tags           [][8]byte // of functions
}

// FunctionInfo is struct bpf_func_info.
type FunctionInfo struct {
	Instruction uint32 // index in the translated program
	Type        uint32 // ID in the BTF
}

// LineInfo is struct bpf_line_info.
type LineInfo struct {
	Instruction uint32
	File, Text  uint32 // offsets in the strings of the BTF
	LineColumn  uint32 // line number in the upper 22 bits, column in the lower 10
}

// BTF is the type information of programs, as the kernel returns it.
type BTF struct {
	ID   uint32
	Data []byte
}

// Sizes of structures.
const (
	blobHeader  = 16  // info_len, data_len, arrays
	infoMin     = 192 // of struct bpf_prog_info up to prog_tags, as in the first perf that kept it (Linux 5.1)
	infoSize    = 208 // up to run_cnt (Linux 5.1). perf accepts structures that are shorter than its own, but not longer ones.
	functionLen = 8
	lineLen     = 16
	btfHeader   = 8
)

// array describes an array of struct bpf_prog_info: the offsets of its pointer and count, and the size of an element, which is either fixed
// or at an offset.
type array struct {
	bit     uint // in arrays
	pointer int
	count   int
	size    int // fixed size; 0 if sizeAt has its offset
	sizeAt  int
	name    string
}

// The arrays that perf keeps, in the order in which perf writes them.
var (
	jitedCode    = array{bit: 0, pointer: 24, count: 16, size: 1, name: "jited_prog_insns"}
	addresses    = array{bit: 3, pointer: 112, count: 104, size: 8, name: "jited_ksyms"}
	sizes        = array{bit: 4, pointer: 120, count: 108, size: 4, name: "jited_func_lens"}
	functionInfo = array{bit: 5, pointer: 136, count: 144, sizeAt: 132, name: "func_info"}
	lineInfo     = array{bit: 6, pointer: 152, count: 148, sizeAt: 172, name: "line_info"}
	jitedLines   = array{bit: 7, pointer: 160, count: 168, sizeAt: 176, name: "jited_line_info"}
	tags         = array{bit: 8, pointer: 184, count: 180, size: 8, name: "prog_tags"}
)

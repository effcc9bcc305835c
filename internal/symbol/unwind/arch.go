package unwind

// Arch is an architecture whose stacks this package unwinds.
type Arch uint8

const (
	AMD64 Arch = iota
	ARM64
)

// These are register numbers in DWARF (System V ABI for x86-64, figure 3.36; DWARF for the Arm 64-bit architecture, 4.1).
const (
	amd64BP, amd64SP, amd64PC = 6, 7, 16

	arm64FP, arm64LR, arm64SP = 29, 30, 31
	arm64PC                   = 32

	registerCount = 33 // the registers that rules follow: the general ones and the program counter
)

func (a Arch) sp() uint64 {
	if a == ARM64 {
		return arm64SP
	}
	return amd64SP
}

func (a Arch) pc() uint64 {
	if a == ARM64 {
		return arm64PC
	}
	return amd64PC
}

// framePointer returns the register that points to frames without tables.
func (a Arch) framePointer() uint64 {
	if a == ARM64 {
		return arm64FP
	}
	return amd64BP
}

// Registers holds the values of registers, by their DWARF numbers.
type Registers struct {
	values [registerCount]uint64
	known  uint64 // bit n: the value of register n is known
}

// get returns the value of a register, if it is known.
func (r *Registers) get(n uint64) (value uint64, known bool) {
	if n >= registerCount || r.known>>n&1 == 0 {
		return 0, false
	}
	return r.values[n], true
}

// Set sets the value of a register. It ignores registers other than the general ones and the program counter.
func (r *Registers) Set(n, value uint64) {
	if n < registerCount {
		r.values[n] = value
		r.known |= 1 << n
	}
}

func (r *Registers) forget(n uint64) { r.known &^= 1 << n }

// amd64Perf maps perf's register numbers (arch/x86/include/uapi/asm/perf_regs.h) to DWARF's. DWARF has none for the flags and segments.
var amd64Perf = [24]uint8{0, 3, 2, 1, 4, 5, 6, 7, 16, none, none, none, none, none, none, none, 8, 9, 10, 11, 12, 13, 14, 15}

const none = 0xff

// FromSample returns the registers of PERF_SAMPLE_REGS_USER, for a 64-bit process. mask is the event's sample_regs_user, and values has one
// value for each bit set in mask. The order on arm64 is that of arch/arm64/include/uapi/asm/perf_regs.h.
func FromSample(a Arch, mask uint64, values []uint64) (r Registers) {
	for bit := uint64(0); bit < 64 && len(values) > 0; bit++ {
		if mask>>bit&1 == 0 {
			continue
		}
		n := bit // on arm64, the same as in DWARF
		if a == AMD64 {
			n = none
			if bit < uint64(len(amd64Perf)) {
				n = uint64(amd64Perf[bit])
			}
		}
		r.Set(n, values[0])
		values = values[1:]
	}
	return r
}

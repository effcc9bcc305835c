package perfdata

import "strconv"

// The registers of enum perf_event_x86_regs.
var x86Registers = []string{"AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "IP", "FLAGS", "CS", "SS", "DS", "ES", "FS", "GS",
	"R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15"}

// The registers of enum perf_event_arm_regs from the 30th on.
var armRegisters = map[int]string{29: "x29", 30: "lr", 31: "sp", 32: "pc", 46: "vg"}

// RegisterName returns perf's name of a register. arch is the machine as FeatureArch has it; number is the register's bit in Registers.Mask.
func RegisterName(arch string, number int) string {
	switch {
	case arch == "aarch64" && number < 29:
		return "x" + strconv.Itoa(number)
	case arch == "aarch64" && armRegisters[number] != "":
		return armRegisters[number]
	case arch != "aarch64" && number < len(x86Registers):
		return x86Registers[number]
	case arch != "aarch64" && number >= 32:
		return "XMM" + strconv.Itoa((number-32)/2)
	}
	return "r" + strconv.Itoa(number)
}

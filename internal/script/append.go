package script

import (
	"strconv"

	"github.com/bperf/bperf/internal/printable"
)

// These functions append a value, right-aligned in width columns.

func appendRight(out []byte, text string, width int) []byte {
	return printable.AlignRight(append(out, text...), len(out), width)
}

func appendUint(out []byte, v uint64, width int) []byte {
	return printable.AlignRight(strconv.AppendUint(out, v, 10), len(out), width)
}

func appendInt(out []byte, v int64, width int) []byte {
	return printable.AlignRight(strconv.AppendInt(out, v, 10), len(out), width)
}

func appendHex(out []byte, v uint64, width int) []byte {
	return printable.AlignRight(strconv.AppendUint(out, v, 16), len(out), width)
}

// appendZeros appends a number with at least width digits.
func appendZeros(out []byte, v uint64, width int) []byte {
	var digits [20]byte
	at := len(digits)
	for ; v > 0 || width > 0; width-- {
		at--
		digits[at] = byte('0' + v%10)
		v /= 10
	}
	return append(out, digits[at:]...)
}

package script

import "strconv"

const spaces = "                                                                "

// appendRight appends text, right-aligned in width columns.
func appendRight(out []byte, text string, width int) []byte {
	for n := width - len(text); n > 0; n -= len(spaces) {
		out = append(out, spaces[:min(n, len(spaces))]...)
	}
	return append(out, text...)
}

// shiftRight right-aligns the text from start on in width columns.
func shiftRight(out []byte, start, width int) []byte {
	n := width - (len(out) - start)
	if n <= 0 {
		return out
	}
	out = append(out, spaces[:n]...)
	copy(out[start+n:], out[start:])
	copy(out[start:], spaces[:n])
	return out
}

// appendLeft left-aligns the text from start on in width columns.
func appendLeft(out []byte, start, width int) []byte {
	if n := width - (len(out) - start); n > 0 {
		return append(out, spaces[:n]...)
	}
	return out
}

func appendPadded(out []byte, v uint64, width int) []byte {
	start := len(out)
	return shiftRight(strconv.AppendUint(out, v, 10), start, width)
}

func appendRightInt(out []byte, v int64, width int) []byte {
	start := len(out)
	return shiftRight(strconv.AppendInt(out, v, 10), start, width)
}

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

const hexDigits = "0123456789abcdef"

// appendHex appends a number in hexadecimal, right-aligned in width columns.
func appendHex(out []byte, v uint64, width int) []byte {
	var digits [16]byte
	at := len(digits)
	for {
		at--
		digits[at] = hexDigits[v&15]
		if v >>= 4; v == 0 {
			break
		}
	}
	if n := width - (len(digits) - at); n > 0 {
		out = append(out, spaces[:n]...)
	}
	return append(out, digits[at:]...)
}

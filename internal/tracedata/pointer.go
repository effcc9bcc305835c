package tracedata

import (
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"
)

// appendPointer prints %p and its extensions.
func (p *piece) appendPointer(r *record, out []byte) []byte {
	if l, ok := p.arg.(literal); ok {
		return append(out, l...)
	}
	switch {
	case p.ext == "":
	case strings.HasPrefix(p.ext, "S"), p.ext == "s", p.ext == "F", p.ext == "f", p.ext == "B":
		return p.appendFunction(r, out)
	case strings.HasPrefix(p.ext, "M"), strings.HasPrefix(p.ext, "m"):
		return p.appendMAC(bytesOf(r, p.arg), out)
	case strings.HasPrefix(p.ext, "I"), strings.HasPrefix(p.ext, "i"):
		return p.appendIP(r, bytesOf(r, p.arg), out)
	case strings.HasPrefix(p.ext, "U"):
		return p.appendUUID(bytesOf(r, p.arg), out)
	}
	v := p.arg.num(r)
	if v == 0 {
		return append(out, "(nil)"...)
	}
	return strconv.AppendUint(append(out, "0x"...), v, 16)
}

// appendFunction prints the name of a kernel function. Like perf, it prints no blanks around the name.
func (p *piece) appendFunction(r *record, out []byte) []byte {
	addr := p.arg.num(r)
	if r.resolve != nil {
		if name, offset, ok := r.resolve(addr); ok {
			out = append(out, name...)
			if p.ext[0] == 'F' || p.ext[0] == 'S' || p.ext[0] == 'B' {
				out = strconv.AppendUint(append(out, "+0x"...), offset, 16)
			}
			return out
		}
	}
	return strconv.AppendUint(append(out, "0x"...), addr, 16)
}

func (p *piece) appendMAC(b []byte, out []byte) []byte {
	if len(b) < 6 {
		return append(out, "INVALIDMAC"...)
	}
	for i := range b[:6] {
		if i > 0 && p.ext[0] == 'M' {
			if strings.HasSuffix(p.ext, "F") {
				out = append(out, '-')
			} else {
				out = append(out, ':')
			}
		}
		out = hex.AppendEncode(out, b[i:i+1])
	}
	return out
}

// Families of addresses: AF_INET and AF_INET6.
const (
	familyIPv4 = 2
	familyIPv6 = 10
)

func (p *piece) appendIP(r *record, b []byte, out []byte) []byte {
	kind, port := byte('?'), -1
	if len(p.ext) > 1 {
		kind = p.ext[1]
	}
	compressed := strings.Contains(p.ext[1:], "c")
	if kind == 'S' {
		if len(b) < 8 {
			return append(out, "INVALIDIPv"...)
		}
		family := r.f.order.Uint16(b)
		if strings.Contains(p.ext, "p") {
			port = int(b[2])<<8 | int(b[3])
		}
		switch family {
		case familyIPv4:
			kind, b = '4', b[4:]
		case familyIPv6:
			kind, b = '6', b[8:]
		default:
			return append(out, "INVALIDIPv"...)
		}
	}
	switch {
	case kind == '4' && len(b) >= 4:
		out = appendIPv4(b, p.ext[0] == 'i', out)
	case kind == '6' && len(b) >= 16:
		if port >= 0 {
			out = append(out, '[')
		}
		out = appendIPv6(b, p.ext[0] == 'i', compressed, out)
		if port >= 0 {
			out = append(out, ']')
		}
	default:
		return append(out, "INVALIDIPv"...)
	}
	if port >= 0 {
		out = strconv.AppendUint(append(out, ':'), uint64(port), 10)
	}
	return out
}

func appendIPv4(b []byte, zeros bool, out []byte) []byte {
	for i, c := range b[:4] {
		if i > 0 {
			out = append(out, '.')
		}
		for limit := 100; zeros && limit > int(c) && limit > 1; limit /= 10 {
			out = append(out, '0')
		}
		out = strconv.AppendUint(out, uint64(c), 10)
	}
	return out
}

func appendIPv6(b []byte, plain, compressed bool, out []byte) []byte {
	if compressed && !plain {
		return netip.AddrFrom16([16]byte(b[:16])).AppendTo(out)
	}
	for i := range b[:16] {
		if i > 0 && i%2 == 0 && !plain {
			out = append(out, ':')
		}
		out = hex.AppendEncode(out, b[i:i+1])
	}
	return out
}

// appendUUID prints a UUID, or for %pUl and %pUL a GUID, whose first three parts are little-endian.
func (p *piece) appendUUID(b []byte, out []byte) []byte {
	if len(b) < 16 {
		return append(out, "INVALIDUUID"...)
	}
	order := [16]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	if strings.HasSuffix(p.ext, "l") || strings.HasSuffix(p.ext, "L") {
		order = [16]int{3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15}
	}
	start := len(out)
	for i, at := range order {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			out = append(out, '-')
		}
		out = hex.AppendEncode(out, b[at:at+1])
	}
	if strings.HasSuffix(p.ext, "B") || strings.HasSuffix(p.ext, "L") {
		for i, c := range out[start:] {
			if c >= 'a' {
				out[start+i] = c - 'a' + 'A'
			}
		}
	}
	return out
}

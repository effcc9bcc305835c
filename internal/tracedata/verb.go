package tracedata

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/printable"
)

// piece is a part of a print format: literal text, and a verb with its argument.
type piece struct {
	text string // text before the verb
	verb byte   // d u i x X o c s p, or 0 for none
	ext  string // extension of %p, as in pS or pISpc

	minus, zero, sharp, plus, blank bool
	width, precision                int  // -1 if there is none
	widthArg, precisionArg          node // * in place of a number
	size                            int  // size of a numeric argument in bytes
	arg                             node
}

// parseVerbs splits a format into pieces.
func parseVerbs(format string, args []node) ([]piece, error) {
	var pieces []piece
	var text strings.Builder
	next := func() (node, error) {
		if len(args) == 0 {
			return nil, errors.New("it has less arguments than verbs")
		}
		n := args[0]
		args = args[1:]
		return n, nil
	}
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			text.WriteByte(format[i])
			continue
		}
		if i++; i < len(format) && format[i] == '%' {
			text.WriteByte('%')
			continue
		}
		p := piece{text: text.String(), width: -1, precision: -1, size: 4}
		text.Reset()
		end, err := p.parse(format, i, next)
		if err != nil {
			return nil, err
		}
		i = end
		if p.arg, err = next(); err != nil {
			return nil, err
		}
		pieces = append(pieces, p)
	}
	return append(pieces, piece{text: text.String()}), nil
}

// parse parses a verb from the byte after its % on, and returns the index of its last byte.
func (p *piece) parse(format string, i int, next func() (node, error)) (int, error) {
	for ; i < len(format); i++ {
		switch c := format[i]; {
		case c == '-':
			p.minus = true
		case c == '0':
			p.zero = true
		case c == '#':
			p.sharp = true
		case c == '+':
			p.plus = true
		case c == ' ':
			p.blank = true
		case c == '*':
			n, err := next()
			if err != nil {
				return 0, err
			}
			p.widthArg = n
		case c == '.':
			p.precision = 0
			if i+1 < len(format) && format[i+1] == '*' {
				n, err := next()
				if err != nil {
					return 0, err
				}
				p.precisionArg = n
				i++
				continue
			}
			p.precision, i = digits(format, i+1)
		case c >= '1' && c <= '9':
			p.width, i = digits(format, i)
		case c == 'l' || c == 'L' || c == 'q' || c == 'z' || c == 'Z' || c == 't' || c == 'j':
			p.size = 8
		case c == 'h':
			p.size /= 2
		case strings.IndexByte("duixXocs", c) >= 0:
			p.verb = c
			return i, nil
		case c == 'p':
			p.verb = c
			end := i + 1
			for end < len(format) && isExtension(format[i+1:end+1]) {
				end++
			}
			p.ext = format[i+1 : end]
			return end - 1, nil
		default:
			return 0, fmt.Errorf("the verb %%%c is not known", c)
		}
	}
	return 0, errors.New("a verb does not end")
}

// digits parses a number of at most four digits. It returns the number and the index of its last digit.
func digits(s string, i int) (n, last int) {
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9' && n < 1000; i++ {
		n = n*10 + int(s[i]-'0')
	}
	return n, i - 1
}

// extensions are the known extensions of %p: https://docs.kernel.org/core-api/printk-formats.html.
var extensions = []string{"S", "s", "F", "f", "SR", "B", "K", "x", "M", "MF", "m", "mF", "U", "Ub", "Ul", "UB", "UL",
	"I4", "I6", "I6c", "i4", "i6", "IS", "ISp", "ISc", "ISpc", "ISf", "ISfs", "ISpf", "ISpfs", "ISpfsc", "b", "bl", "d", "D", "a", "ap", "ad"}

// isExtension reports whether any extension begins with s.
func isExtension(s string) bool {
	for _, e := range extensions {
		if strings.HasPrefix(e, s) {
			return true
		}
	}
	return false
}

// append appends a piece.
func (p *piece) append(r *record, out []byte) []byte {
	out = append(out, p.text...)
	if p.verb == 0 {
		return out
	}
	width, precision, minus := p.width, p.precision, p.minus
	if p.widthArg != nil {
		if width = int(int32(p.widthArg.num(r))); width < 0 {
			width, minus = -width, true
		}
		width = min(width, 4096)
	}
	if p.precisionArg != nil {
		precision = int(int32(p.precisionArg.num(r)))
	}
	start := len(out)
	switch p.verb {
	case 's':
		out = appendText(r, p.arg, out)
		if precision >= 0 && len(out)-start > precision {
			out = out[:start+precision]
		}
	case 'c':
		out = append(out, byte(p.arg.num(r)))
	case 'p':
		out = p.appendPointer(r, out)
	default:
		out = p.appendNumber(r, out, width, precision)
	}
	if minus {
		return printable.AlignLeft(out, start, width)
	}
	return printable.AlignRight(out, start, width)
}

func (p *piece) appendNumber(r *record, out []byte, width, precision int) []byte {
	signed := p.verb == 'd' || p.verb == 'i'
	v := ctype{size: max(1, p.size), signed: signed}.convert(p.arg.num(r))
	sign, prefix := "", ""
	var buffer [32]byte
	digits := buffer[:0]
	switch {
	case signed && int64(v) < 0:
		sign, v = "-", -v
	case signed && p.plus:
		sign = "+"
	case signed && p.blank:
		sign = " "
	}
	switch p.verb {
	case 'x', 'X':
		digits = strconv.AppendUint(digits, v, 16)
		if p.sharp && v != 0 {
			prefix = "0x"
		}
	case 'o':
		digits = strconv.AppendUint(digits, v, 8)
		if p.sharp && v != 0 {
			prefix = "0"
		}
	default:
		digits = strconv.AppendUint(digits, v, 10)
	}
	start := len(out)
	out = append(append(out, sign...), prefix...)
	zeros := precision - len(digits)
	if p.zero && !p.minus && precision < 0 {
		zeros = width - len(digits) - len(sign) - len(prefix)
	}
	for range zeros {
		out = append(out, '0')
	}
	out = append(out, digits...)
	if p.verb == 'X' {
		for i, c := range out[start:] {
			if c >= 'a' && c <= 'z' {
				out[start+i] = c - 'a' + 'A'
			}
		}
	}
	return out
}

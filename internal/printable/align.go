package printable

// AlignLeft appends spaces until the text from start on has width bytes.
func AlignLeft(out []byte, start, width int) []byte {
	for len(out)-start < width {
		out = append(out, ' ')
	}
	return out
}

// AlignRight inserts spaces before the text from start on until it has width bytes.
func AlignRight(out []byte, start, width int) []byte {
	end := len(out)
	out = AlignLeft(out, start, width)
	missing := len(out) - end
	copy(out[start+missing:], out[start:end])
	for i := range missing {
		out[start+i] = ' '
	}
	return out
}

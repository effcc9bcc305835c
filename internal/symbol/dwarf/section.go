package dwarf

// Section is the contents of a section, decompressed and relocated. Data must not change while it is in use.
type Section struct {
	Data []byte

	// Fill makes Data valid up to, but not including, end if it can, and further if that is cheap. It returns how many bytes from the start
	// are valid. Fill is nil if all of Data is valid. It is called by one goroutine at a time.
	Fill func(end uint64) (valid uint64)

	valid uint64
}

// upTo returns the contents up to end, or more, or less if Fill fails.
func (s *Section) upTo(end uint64) []byte {
	if s.Fill == nil {
		return s.Data
	}
	size := uint64(len(s.Data))
	if end = min(end, size); s.valid < end {
		s.valid = min(s.Fill(end), size)
	}
	return s.Data[:s.valid]
}

package dwarf

// Section is the contents of a section, decompressed and relocated. They are read as long as the Data is in use, and not changed.
type Section struct {
	Data []byte

	// Fill makes more of Data valid, if that can be had: up to, but not including, end, or further where that comes cheaply. It returns how
	// much is, from the start on. It is nil where all of Data is. It is called by one goroutine at a time.
	Fill func(end uint64) (valid uint64)

	valid uint64
}

// upTo returns the contents up to an end, or as much as there is, or more.
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

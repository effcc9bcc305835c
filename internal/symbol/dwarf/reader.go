package dwarf

// reader finds and reads the units of a file, their entries, and what the attributes of entries refer to. It keeps what lookups need again.
type reader struct {
	s   Sections
	sup *reader // of the supplementary file, or nil

	tables  map[uint64]abbrevs // by offset
	aranges *index             // from .debug_aranges; nil before the first use
	whole   *index             // of all units; nil until needed
	headers []uint64           // offsets in .debug_info of the units before walked
	walked  uint64
	known   map[uint64]*unit // by offset
	steps   int              // how many more abbreviations findAbbrev may skip
}

// maxSteps limits the time to index hostile files. In other files, the root entry of a unit uses one of the first abbreviations.
const maxSteps = 1 << 24

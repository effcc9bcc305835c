package script

// texts caches the text that was printed for a location, by the index of the location or the number of its frame. It keeps a text from the
// second time on, because most locations occur once. When it is full, it contains the most frequent locations.
type texts struct {
	at     []uint32 // 0: never printed; 1: printed once; else 2 + the position of the text in blocks
	blocks [][]byte // of 1<<blockBits bytes; each text has a prefix of two bytes with its length
}

const (
	blockBits   = 16
	maxBlocks   = 16 // 1 MiB for each texts
	maxText     = 1 << 12
	neverBefore = 0
	onceBefore  = 1
)

// get returns the cached text of a location, or nil.
func (t *texts) get(index uint32) []byte {
	if int(index) >= len(t.at) || t.at[index] <= onceBefore {
		return nil
	}
	at := t.at[index] - 2
	text := t.blocks[at>>blockBits][at&(1<<blockBits-1):]
	size := int(text[0]) | int(text[1])<<8
	return text[2 : 2+size]
}

// put caches a text that was printed for a location, except the first time.
func (t *texts) put(index uint32, text []byte) {
	for int(index) >= len(t.at) {
		t.at = append(t.at, neverBefore)
	}
	if t.at[index] == neverBefore {
		t.at[index] = onceBefore
		return
	}
	last := len(t.blocks) - 1
	full := last < 0 || len(t.blocks[last])+2+len(text) > 1<<blockBits
	if len(text) > maxText || full && len(t.blocks) == maxBlocks {
		return
	}
	if full {
		t.blocks = append(t.blocks, make([]byte, 0, 1<<blockBits))
		last++
	}
	t.at[index] = uint32(last)<<blockBits + uint32(len(t.blocks[last])) + 2
	t.blocks[last] = append(append(t.blocks[last], byte(len(text)), byte(len(text)>>8)), text...)
}

package script

// texts keep what was printed for locations, by their index or the number of their frame, from the second time on: most locations are seen once. When they are full, the
// locations that are seen most are among them.
type texts struct {
	at     []uint32 // 0: never printed, 1: once; else 2 + the position of what is kept
	blocks [][]byte // of blockSize; each text with its length in two bytes in front
}

const (
	blockBits   = 16
	maxBlocks   = 16 // 1 MiB, for each goroutine
	maxText     = 1 << 12
	neverBefore = 0
	onceBefore  = 1
)

// get returns what is kept for a location, or nil.
func (t *texts) get(index uint32) []byte {
	if int(index) >= len(t.at) || t.at[index] <= onceBefore {
		return nil
	}
	at := t.at[index] - 2
	text := t.blocks[at>>blockBits][at&(1<<blockBits-1):]
	size := int(text[0]) | int(text[1])<<8
	return text[2 : 2+size]
}

// put keeps a text that was printed for a location, if that was not the first time.
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

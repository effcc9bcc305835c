package perfdata

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// chunk is a buffer of raw records. It returns to the pool when its last reference is released.
type chunk struct {
	memory []byte // chunkSize bytes; nil if it must be read again before use
	n      int    // bytes of memory in use. Only the splitter accesses n, given and added
	base   int64  // offset of the first byte in the file
	inner  bool   // decompressed: base is the offset of the COMPRESSED record
	given  bool   // some of its records were delivered
	refs   atomic.Int64
	added  int64 // references that the splitter has handed out
}

// chunkSize has room for the first part of a record that continues from the previous chunk, and for the bytes read next.
const chunkSize = 1 << offsetBits

// held is the splitter's own reference count of a chunk that it works on. It keeps the chunk from being released.
const held = 1 << 40

func (c *chunk) offset(at uint32) int64 {
	if c.inner {
		return c.base
	}
	return c.base + int64(at)
}

// chunkStore hands out chunks and takes them back.
type chunkStore struct {
	pool   sync.Pool   // of chunks that nothing uses
	again  io.ReaderAt // the data of the recording, for chunks that are read a second time; nil for pipes
	failed error       // error of reading a chunk again
}

func (s *chunkStore) get() *chunk {
	c := s.pool.Get().(*chunk)
	c.n, c.base, c.inner, c.given, c.added = 0, 0, false, false, 0
	c.refs.Store(held)
	return c
}

// maxResident bounds the bytes of waiting records that stay in memory. The stream frees chunks beyond it and reads them from the file again.
const maxResident = 1 << 20

// drop frees the memory of a chunk if all of its records wait for their round, and if the chunk can be read again.
func (s *chunkStore) drop(c *chunk) {
	if s.again == nil || c.inner || c.given || c.added == 0 {
		return
	}
	s.pool.Put(&chunk{memory: c.memory})
	c.memory = nil
}

// fetch reads a chunk again if its memory was freed. It returns false if that fails, or if it failed before.
func (s *chunkStore) fetch(c *chunk) bool {
	if c.memory != nil || s.failed != nil {
		return s.failed == nil
	}
	c.memory = s.pool.Get().(*chunk).memory
	if _, err := s.again.ReadAt(c.memory[:c.n], c.base); err != nil {
		s.failed = fmt.Errorf("at %d, read again: %w", c.base, err)
	}
	return s.failed == nil
}

// done releases the splitter's own references of a chunk.
func (s *chunkStore) done(c *chunk) { s.release(c, held-c.added) }

// release drops n references of a chunk. It is safe for concurrent use.
func (s *chunkStore) release(c *chunk, n int64) {
	if c.refs.Add(-n) == 0 {
		s.pool.Put(c)
	}
}

package sample

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// mostQueued is the number of bytes in a queue from which on Write waits. While it waits, the kernel's rings hold the records, and the kernel
// counts those that they have no room for.
const mostQueued = 64 << 20

// errLeft is the error of writing to a queue that nobody reads any more.
var errLeft = errors.New("nobody reads the recording any more")

// queue is a pipe with much room, so that the goroutine that drains ring buffers seldom waits for the one that looks up symbols.
type queue struct {
	mu     sync.Mutex
	change sync.Cond // something was written or read, or one of the sides has ended
	all    [][]byte  // rest of each Write, never empty
	size   int       // bytes in all
	err    error     // returned at the end; nil while open
	left   bool      // nobody reads any more
}

func newQueue() *queue {
	q := &queue{}
	q.change.L = &q.mu
	return q
}

func (q *queue) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.size >= mostQueued && !q.left {
		q.change.Wait()
	}
	if q.left {
		return 0, errLeft
	}
	if len(b) == 0 {
		return 0, nil
	}
	q.all = append(q.all, bytes.Clone(b))
	q.size += len(b)
	q.change.Broadcast()
	return len(b), nil
}

func (q *queue) Read(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.all) == 0 && q.err == nil && !q.left {
		q.change.Wait()
	}
	switch {
	case q.left:
		return 0, io.EOF
	case len(q.all) == 0:
		return 0, q.err
	}
	n := copy(b, q.all[0])
	if q.all[0] = q.all[0][n:]; len(q.all[0]) == 0 {
		q.all[0], q.all = nil, q.all[1:]
	}
	q.size -= n
	q.change.Broadcast()
	return n, nil
}

// end makes Read return err, or io.EOF if err is nil, when all data is read.
func (q *queue) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil {
		err = io.EOF
	}
	q.err = err
	q.change.Broadcast()
}

// leave makes all calls of Write fail from now on, drops what was not read, and ends a call of Read.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left, q.all, q.size = true, nil, 0
	q.change.Broadcast()
}

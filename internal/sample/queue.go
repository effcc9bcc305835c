package sample

import (
	"io"
	"sync"
)

// queue is a pipe that has room for all that is written: who empties ring buffers does not wait for who looks up symbols.
type queue struct {
	mu    sync.Mutex
	ready sync.Cond
	full  [][]byte // what was written, in pieces; the last one may have room
	at    int      // of the first piece, what was read
	free  [][]byte // pieces that were read
	err   error    // at the end; nil while it is open
}

const pieceSize = 64 << 10

func newQueue() *queue {
	q := &queue{}
	q.ready.L = &q.mu
	return q
}

func (q *queue) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for rest := b; len(rest) > 0; {
		last := len(q.full) - 1
		if last < 0 || len(q.full[last]) == pieceSize {
			q.full = append(q.full, q.piece())
			last++
		}
		n := min(len(rest), pieceSize-len(q.full[last]))
		q.full[last] = append(q.full[last], rest[:n]...)
		rest = rest[n:]
	}
	q.ready.Signal()
	return len(b), nil
}

// piece is an empty one.
func (q *queue) piece() []byte {
	if n := len(q.free); n > 0 {
		p := q.free[n-1]
		q.free = q.free[:n-1]
		return p[:0]
	}
	return make([]byte, 0, pieceSize)
}

func (q *queue) Read(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.full) == 0 && q.err == nil {
		q.ready.Wait()
	}
	if len(q.full) == 0 {
		return 0, q.err
	}
	first := q.full[0]
	n := copy(b, first[q.at:])
	if q.at += n; q.at == len(first) {
		q.free, q.full, q.at = append(q.free, first), q.full[1:], 0
	}
	return n, nil
}

// end lets reads fail with an error, or io.EOF, when all has been read.
func (q *queue) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil {
		err = io.EOF
	}
	q.err = err
	q.ready.Broadcast()
}

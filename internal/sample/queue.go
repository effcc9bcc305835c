package sample

import (
	"bytes"
	"io"
	"sync"
)

// queue is a pipe that has room for all that is written: who empties ring buffers does not wait for who looks up symbols.
type queue struct {
	mu    sync.Mutex
	ready sync.Cond
	all   [][]byte // what is left of each Write, none of them empty
	err   error    // at the end; nil while it is open
}

func newQueue() *queue {
	q := &queue{}
	q.ready.L = &q.mu
	return q
}

func (q *queue) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(b) == 0 {
		return 0, nil
	}
	q.all = append(q.all, bytes.Clone(b))
	q.ready.Signal()
	return len(b), nil
}

func (q *queue) Read(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.all) == 0 && q.err == nil {
		q.ready.Wait()
	}
	if len(q.all) == 0 {
		return 0, q.err
	}
	n := copy(b, q.all[0])
	if q.all[0] = q.all[0][n:]; len(q.all[0]) == 0 {
		q.all = q.all[1:]
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

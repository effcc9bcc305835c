package sample

import (
	"io"
	"sync"
)

// queue is a pipe that has room for all that is written: who empties ring buffers does not wait for who looks up symbols.
type queue struct {
	mu    sync.Mutex
	ready sync.Cond
	data  []byte
	at    int   // of data, what was read
	err   error // at the end; nil while it is open
}

func newQueue() *queue {
	q := &queue{}
	q.ready.L = &q.mu
	return q
}

func (q *queue) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.at > 0 && q.at >= len(q.data)/2 { // what was read is at least as much as what is moved
		q.data = q.data[:copy(q.data, q.data[q.at:])]
		q.at = 0
	}
	q.data = append(q.data, b...)
	q.ready.Signal()
	return len(b), nil
}

func (q *queue) Read(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.at == len(q.data) && q.err == nil {
		q.ready.Wait()
	}
	if q.at == len(q.data) {
		return 0, q.err
	}
	n := copy(b, q.data[q.at:])
	q.at += n
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

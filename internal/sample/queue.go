package sample

import (
	"bytes"
	"io"
	"sync"
)

// queue is a pipe with unlimited room, so that the goroutine that drains ring buffers does not wait for the one that looks up symbols.
type queue struct {
	mu    sync.Mutex
	ready sync.Cond
	all   [][]byte // rest of each Write, never empty
	err   error    // returned at the end; nil while open
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

// end makes Read return err, or io.EOF if err is nil, when all data is read.
func (q *queue) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil {
		err = io.EOF
	}
	q.err = err
	q.ready.Broadcast()
}

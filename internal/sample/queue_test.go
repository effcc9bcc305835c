package sample

import (
	"errors"
	"io"
	"testing"
)

// TestQueueIsBounded writes more than a queue holds: the writer waits for the reader, and nothing is lost or reordered.
func TestQueueIsBounded(t *testing.T) {
	const piece, pieces = 1 << 20, mostQueued>>20 + 8
	q := newQueue()
	written := make(chan error, 1)
	go func() {
		b := make([]byte, piece)
		for n := range pieces {
			b[0] = byte(n)
			if _, err := q.Write(b); err != nil {
				written <- err
				return
			}
		}
		q.end(nil)
		written <- nil
	}()
	b := make([]byte, piece)
	for n := range pieces {
		if _, err := io.ReadFull(q, b); err != nil || b[0] != byte(n) {
			t.Fatalf("piece %d begins with %d, %v", n, b[0], err)
		}
		q.mu.Lock()
		size := q.size
		q.mu.Unlock()
		if size > mostQueued+piece {
			t.Fatalf("the queue holds %d bytes", size)
		}
	}
	if n, err := q.Read(b); n != 0 || err != io.EOF {
		t.Errorf("after the end there are %d bytes, %v", n, err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// TestQueueLeft has a reader that goes away while the writer waits for it.
func TestQueueLeft(t *testing.T) {
	q := newQueue()
	if _, err := q.Write(make([]byte, mostQueued)); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := q.Write([]byte{1})
		written <- err
	}()
	q.leave()
	if err := <-written; !errors.Is(err, errLeft) {
		t.Errorf("writing to nobody: %v", err)
	}
}

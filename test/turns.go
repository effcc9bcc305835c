package main

import "io"

// turns is a writer that buffers its output until turn is closed, and then copies it to another writer.
type turns struct {
	to   io.Writer
	turn <-chan struct{}
	kept []byte
}

func (t *turns) Write(p []byte) (int, error) {
	select {
	case <-t.turn:
		if err := t.flush(); err != nil {
			return 0, err
		}
		return t.to.Write(p)
	default:
		t.kept = append(t.kept, p...)
		return len(p), nil
	}
}

// wait returns when everything that was written is copied. It is called after the last Write.
func (t *turns) wait() error {
	<-t.turn
	return t.flush()
}

func (t *turns) flush() error {
	_, err := t.to.Write(t.kept)
	t.kept = nil
	return err
}

package main

import "io"

// turns keeps what is written to it until its turn comes, and copies from then on.
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

// wait is for the end: it returns when all is copied.
func (t *turns) wait() error {
	<-t.turn
	return t.flush()
}

func (t *turns) flush() error {
	_, err := t.to.Write(t.kept)
	t.kept = nil
	return err
}

package allowance

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// never returns a call that does not return before the test ends.
func never(t *testing.T) func() (int, error) {
	answer := make(chan struct{})
	t.Cleanup(func() { close(answer) })
	return func() (int, error) {
		<-answer
		return 0, errors.New("the test is over")
	}
}

func forget(int) {}

func TestRead(t *testing.T) {
	a := New(0)
	a.patience = time.Hour
	if got, err := Read(a, "file", func() (int, error) { return 1, nil }, forget); got != 1 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	a.patience = 20 * time.Millisecond
	_, err := Read(a, "file", never(t), forget)
	if err == nil || !strings.HasPrefix(err.Error(), "file: ") {
		t.Errorf("a file that does not answer gives %v", err)
	}
	if a.patience != 10*time.Millisecond {
		t.Errorf("the next file has %v", a.patience)
	}
}

// TestNil uses a nil Allowance, which sets no limits.
func TestNil(t *testing.T) {
	var a *Allowance
	a.End()
	a.Stop()
	if got, err := Work(a, "file", func() (int, error) { return 1, nil }, forget); got != 1 || err != nil || a.Ending() {
		t.Errorf("got %d, %v", got, err)
	}
}

// TestEnd checks that End gives up running work, and that quick work still succeeds after it.
func TestEnd(t *testing.T) {
	a := New(0)
	a.patience = leastPatience
	working, err := make(chan struct{}), make(chan error)
	wait := never(t)
	go func() {
		_, e := Work(a, "work", func() (int, error) { close(working); return wait() }, forget)
		err <- e
	}()
	<-working
	a.End()
	if e := <-err; e == nil {
		t.Error("work goes on after the end")
	}
	a.patience = time.Hour
	if got, err := Work(a, "work", func() (int, error) { return 1, nil }, forget); got != 1 || err != nil || !a.Ending() {
		t.Errorf("after the end, got %d, %v", got, err)
	}
	a.Stop()
	if _, err := Work(a, "work", func() (int, error) { return 1, nil }, forget); !errors.Is(err, errOver) {
		t.Errorf("after the last end, got %v", err)
	}
}

// TestUnanswered checks that Read refuses calls while too many others block a thread, and that the late results of those are dropped.
func TestUnanswered(t *testing.T) {
	a := New(0)
	a.patience = leastPatience
	answer, dropped := make(chan struct{}), make(chan int, mostUnanswered)
	for range mostUnanswered {
		_, _ = Read(a, "file", func() (int, error) { <-answer; return 7, nil }, func(n int) { dropped <- n })
	}
	if _, err := Read(a, "file", func() (int, error) { return 1, nil }, forget); !errors.Is(err, errTooMany) {
		t.Errorf("got %v", err)
	}
	a.patience = time.Hour
	close(answer)
	for range mostUnanswered {
		if n := <-dropped; n != 7 {
			t.Errorf("dropped %d", n)
		}
	}
	if _, err := Read(a, "file", func() (int, error) { return 1, nil }, forget); err != nil {
		t.Errorf("after all have returned: %v", err)
	}
}

func TestTake(t *testing.T) {
	a := New(3 << 20)
	if err := a.Take(2 << 20); err != nil {
		t.Error(err)
	}
	if err := a.Take(1<<20 + 1); err == nil || !strings.Contains(err.Error(), "take about 2 MiB") || !strings.Contains(err.Error(), " 1 MiB are left") {
		t.Errorf("got %v", err)
	}
	a.Give(1)
	if err := a.Take(1<<20 + 1); err != nil {
		t.Error(err)
	}
}

// TestRecover has a run without end, in which files once took too long.
func TestRecover(t *testing.T) {
	a := New(0)
	for range 20 {
		a.giveUp()
	}
	if a.current(true) != leastPatience {
		t.Errorf("after 20 slow files the limit is %v", a.current(true))
	}
	for range 20 {
		a.Recover()
	}
	if a.current(true) != patience {
		t.Errorf("the limit stays at %v", a.current(true))
	}
	a.End()
	a.Recover()
	if a.current(true) != patienceAtEnd {
		t.Errorf("after the end the limit is %v", a.current(true))
	}
}

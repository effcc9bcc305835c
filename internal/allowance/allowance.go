// Package allowance bounds the time and the memory that a run spends on the files of other users. Their file systems may never answer, and their files
// may be made to take long, or much. What is over the bounds is left out, and the run goes on.
package allowance

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	patience       = time.Second            // for the first file that does not answer
	patienceAtEnd  = 500 * time.Millisecond // the same, when the run has been asked to end
	leastPatience  = 10 * time.Millisecond
	mostUnanswered = 64 // each keeps a thread
)

// DefaultMemory is for how many bytes of symbols there is room unless the user says otherwise.
const DefaultMemory = 256 << 20

// Allowance is what all parts of a run share. Each file that takes too long halves the time that the next one may take, so that together they
// take little more than twice the time of the first. Goroutines may share it. A nil Allowance sets no bounds.
type Allowance struct {
	ending, over chan struct{}

	mu         sync.Mutex
	isEnding   bool
	isOver     bool
	patience   time.Duration // for the next file
	unanswered int           // calls that were given up and have not returned
	memory     int64         // bytes that are left
}

// New returns the allowance of a run. Symbols may take at most memory bytes.
func New(memory int64) *Allowance {
	return &Allowance{ending: make(chan struct{}), over: make(chan struct{}), patience: patience, memory: memory}
}

// Take takes memory for what is kept of a file, or is an error if so much is not left.
func (a *Allowance) Take(bytes int64) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if bytes > a.memory {
		const mib = 1 << 20
		return fmt.Errorf("its symbols take about %d MiB, and of the memory for symbols %d MiB are left: raise --symbol-memory", (bytes+mib-1)/mib, a.memory/mib)
	}
	a.memory -= bytes
	return nil
}

// Give gives memory back.
func (a *Allowance) Give(bytes int64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.memory += bytes
}

// End notes that the run was asked to end. From now on Work is bounded, too.
func (a *Allowance) End() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.isEnding {
		a.isEnding = true
		a.patience = min(a.patience, patienceAtEnd)
		close(a.ending)
	}
}

// Stop gives up all that is under way, and refuses what is asked for from now on.
func (a *Allowance) Stop() {
	a.End()
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.isOver {
		a.isOver = true
		close(a.over)
	}
}

// Ending reports whether the run was asked to end.
func (a *Allowance) Ending() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isEnding
}

// Read calls read, which may block in the kernel, and returns what it returns. If that takes too long, Read returns an error that begins with what,
// and drop gets the value of a read that succeeds later; it is nil for values that need no end. The goroutine of read then still runs: nothing
// else may use what it uses.
func Read[T any](a *Allowance, what string, read func() (T, error), drop func(T)) (T, error) {
	return do(a, what, true, read, drop)
}

// Work is Read for what takes time on the CPU: it is given up only when the run has been asked to end.
func Work[T any](a *Allowance, what string, work func() (T, error), drop func(T)) (T, error) {
	return do(a, what, false, work, drop)
}

var (
	errNoAnswer = errors.New("it was given up, as it took too long")
	errOver     = errors.New("it was given up, as the run ended")
	errTooMany  = fmt.Errorf("it is not read, as %d other files do not answer", mostUnanswered)
)

func do[T any](a *Allowance, what string, blocks bool, call func() (T, error), drop func(T)) (T, error) {
	if a == nil {
		return call()
	}
	var none T
	if err := a.refusal(); err != nil {
		return none, fmt.Errorf("%s: %w", what, err)
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := call()
		done <- result{value, err}
	}()
	var late <-chan time.Time
	if blocks {
		late = time.After(a.current())
	}
	ending := a.ending
	for {
		var err error
		select {
		case r := <-done:
			return r.value, r.err
		case <-ending:
			ending, late = nil, time.After(a.current())
			continue
		case <-late:
			err = errNoAnswer
		case <-a.over:
			err = errOver
		}
		select { // it may have been done at the same time
		case r := <-done:
			return r.value, r.err
		default:
		}
		a.giveUp()
		go func() {
			r := <-done
			a.returned()
			if r.err == nil && drop != nil {
				drop(r.value)
			}
		}()
		return none, fmt.Errorf("%s: %w", what, err)
	}
}

// refusal is why nothing more is begun, or nil.
func (a *Allowance) refusal() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.isOver:
		return errOver
	case a.unanswered >= mostUnanswered:
		return errTooMany
	}
	return nil
}

func (a *Allowance) current() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.patience
}

func (a *Allowance) giveUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unanswered++
	a.patience = max(a.patience/2, leastPatience)
}

func (a *Allowance) returned() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unanswered--
}

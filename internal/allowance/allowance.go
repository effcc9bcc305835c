// Package allowance limits the time and memory that a run spends on files of other users. Their file systems may never answer, and they may
// craft files that take long to read or need much memory. bperf skips a file that exceeds the limits, and the run goes on.
package allowance

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	patience       = time.Second            // for the first file that does not answer
	patienceAtEnd  = 500 * time.Millisecond // the same, after End
	leastPatience  = 10 * time.Millisecond
	effort         = 10 // times the patience, for calls that use the CPU: large files take seconds, and longer on a busy machine
	mostUnanswered = 64 // each blocks a thread
)

// DefaultMemory is the default memory for symbols, in bytes.
const DefaultMemory = 256 << 20

// Allowance is shared by all parts of a run. Each file that takes too long halves the time limit of the next one, so that all of them
// together take little more than twice the time of the first. An Allowance is safe for concurrent use. A nil Allowance sets no limits.
type Allowance struct {
	ending, over chan struct{}

	mu         sync.Mutex
	isEnding   bool
	isOver     bool
	patience   time.Duration // for the next file
	unanswered int           // calls that were given up and still run
	memory     int64         // bytes left
}

// New returns the allowance of a run whose symbols may take the given number of bytes.
func New(memory int64) *Allowance {
	return &Allowance{ending: make(chan struct{}), over: make(chan struct{}), patience: patience, memory: memory}
}

// Take reserves memory for the data of a file. It fails if fewer bytes are left.
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

// Give returns memory that Take reserved.
func (a *Allowance) Give(bytes int64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.memory += bytes
}

// End records that the run was asked to end. From now on, the time of Work is limited too.
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

// Recover raises the time limit of the next file again, after a while without such files: a run that takes months would otherwise end with
// the least limit. Each call doubles it, up to that of the first file.
func (a *Allowance) Recover() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.isEnding {
		a.patience = min(2*a.patience, patience)
	}
}

// Stop gives up all running calls and refuses new ones.
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

// Over returns a channel that Stop closes. It is nil for a nil Allowance.
func (a *Allowance) Over() <-chan struct{} {
	if a == nil {
		return nil
	}
	return a.over
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

// Read calls read, which may block in the kernel, and returns its result. If read takes too long, Read returns an error that begins with
// what. The goroutine of read then still runs, so the caller must not use anything that read uses. If read succeeds later, its value is
// passed to drop, which may be nil.
func Read[T any](a *Allowance, what string, read func() (T, error), drop func(T)) (T, error) {
	return do(a, what, true, read, drop)
}

// Work is like Read, for calls that use the CPU: their time is limited only after End.
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
		late = time.After(a.current(blocks))
	}
	ending := a.ending
	for {
		var err error
		select {
		case r := <-done:
			return r.value, r.err
		case <-ending:
			ending, late = nil, time.After(a.current(blocks))
			continue
		case <-late:
			err = errNoAnswer
		case <-a.over:
			err = errOver
		}
		select { // the call may have returned at the same time
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

// refusal returns the reason why no call may start, or nil.
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

func (a *Allowance) current(blocks bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !blocks {
		return effort * a.patience
	}
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

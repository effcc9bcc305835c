package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// job is a part of the tests that can run independently.
type job struct {
	where where
	name  string // the packages or step that it runs
	// alone is set for tests on this machine's kernel: only one such job runs at a time. Linux 6.18 deadlocks if several processes load and
	// free hundreds of BPF programs (docs/kernel-notes.md), and tests that record the whole machine must not record other tests.
	alone bool
	run   func(context.Context, *run) error
}

// run is the state of a running job.
type run struct {
	*tally
	phases []phase
}

// phase is a part of a job that is not a test.
type phase struct {
	name string
	took time.Duration
}

// phase runs f and records the time that it took.
func (r *run) phase(name string, f func() error) error {
	start := time.Now()
	err := f()
	r.phases = append(r.phases, phase{name, time.Since(start)})
	return err
}

// pool runs jobs.
type pool struct {
	jobs []job // in starting order; later jobs overtake a job that must wait for another one
	at   int   // number of jobs that run at once

	mu    sync.Mutex
	ended *sync.Cond
	alone bool // a job with alone set is running
}

// notStarted is the note of a job that did not start before the timeout.
const notStarted = "not started"

// runAll runs the jobs and copies their output to w in the order of the jobs, as if they ran one after another. The error of a job becomes a
// failure in its tally.
func (p *pool) runAll(ctx context.Context, w io.Writer) []*run {
	p.ended = sync.NewCond(&p.mu)
	runs := make([]*run, len(p.jobs))
	turn := closed()
	outputs := make([]*turns, len(p.jobs))
	copied := make([]chan struct{}, len(p.jobs)) // each is closed when its job has ended and the output is copied
	for i, j := range p.jobs {
		outputs[i] = &turns{to: w, turn: turn}
		runs[i] = &run{tally: newTally(outputs[i], j.where)}
		copied[i] = make(chan struct{})
		turn = copied[i]
	}
	waiting := make([]int, len(p.jobs))
	for i := range waiting {
		waiting[i] = i
	}
	var workers, copies sync.WaitGroup
	for range p.at {
		workers.Go(func() {
			for {
				i, more := p.next(&waiting)
				if !more {
					return
				}
				p.work(ctx, p.jobs[i], runs[i])
				copies.Go(func() {
					outputs[i].wait()
					close(copied[i])
				})
			}
		})
	}
	workers.Wait()
	copies.Wait()
	return runs
}

// next removes the first job that may run from waiting and returns its index. It waits if no job may run yet, and returns false if none is
// left.
func (p *pool) next(waiting *[]int) (i int, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(*waiting) > 0 {
		at := slices.IndexFunc(*waiting, func(i int) bool { return !p.jobs[i].alone || !p.alone })
		if at < 0 {
			p.ended.Wait()
			continue
		}
		i := (*waiting)[at]
		*waiting = slices.Delete(*waiting, at, at+1)
		p.alone = p.alone || p.jobs[i].alone
		return i, true
	}
	return 0, false
}

func (p *pool) work(ctx context.Context, j job, r *run) {
	if ctx.Err() != nil {
		r.failed = append(r.failed, failure{pkg: j.name, note: notStarted})
	} else {
		r.since = time.Now()
		err := j.run(ctx, r)
		r.end()
		if err != nil {
			fmt.Fprintf(r.to, "%s %s: %v\n", j.where, j.name, err)
			if len(r.failed) == 0 {
				r.failed = append(r.failed, failure{pkg: j.name, note: "not tested to the end"})
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if j.alone {
		p.alone = false
	}
	p.ended.Broadcast()
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

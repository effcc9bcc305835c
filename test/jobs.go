package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// job is a part of the tests that runs by itself.
type job struct {
	where where
	name  string // of what runs
	// alone is set for tests on this machine's kernel: one such job runs at a time. Linux 6.18 deadlocks when several processes load and free
	// BPF programs by the hundred (docs/kernel-notes.md), and what tests record of the whole machine is theirs alone.
	alone bool
	run   func(context.Context, *run) error
}

// run is a job that runs.
type run struct {
	*tally
	phases []phase
}

// phase is a part of a job that is no test.
type phase struct {
	name string
	took time.Duration
}

// phase runs f and keeps the time that it took.
func (r *run) phase(name string, f func() error) error {
	start := time.Now()
	err := f()
	r.phases = append(r.phases, phase{name, time.Since(start)})
	return err
}

// pool runs jobs.
type pool struct {
	jobs []job // in the order in which they start; a job that has to wait for another one lets those behind it pass
	at   int   // how many run at once

	mu    sync.Mutex
	ended *sync.Cond
	alone bool // a job runs that is alone
}

// notStarted is the failure of a job for which no time was left.
const notStarted = "not started"

// runAll runs the jobs and copies their output to w in their order, as if they ran one after another. A job that fails is a failure in
// its tally.
func (p *pool) runAll(ctx context.Context, w io.Writer) []*run {
	p.ended = sync.NewCond(&p.mu)
	runs := make([]*run, len(p.jobs))
	turn := closed()
	outputs := make([]*turns, len(p.jobs))
	copied := make([]chan struct{}, len(p.jobs)) // closed when a job has ended and its output is copied
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

// next takes the first job that may run out of those that wait.
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

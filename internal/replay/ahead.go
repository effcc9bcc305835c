package replay

import (
	"context"
	"sync"

	"github.com/bperf/bperf/perfdata"
)

// openedAtOnce is the number of files that are opened ahead at the same time.
const openedAtOnce = 8

// ahead opens the files that samples are in before handlers need them, so that several are fetched from debuginfod at once: a handler
// waits for one file after the other. Only the goroutine of Run calls its methods.
type ahead struct {
	ctx      context.Context
	stop     context.CancelFunc
	noStacks bool
	seen     map[*userFile]bool
	last     *mapping // that was found

	mu      sync.Mutex
	waiting []*userFile
	workers int
	working sync.WaitGroup
}

func newAhead(o *Options) *ahead {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		select {
		case <-o.Allowance.Over():
			stop()
		case <-ctx.Done():
		}
	}()
	return &ahead{ctx: ctx, stop: stop, noStacks: o.NoStacks, seen: map[*userFile]bool{}}
}

// add asks for the files of user code in samples.
func (a *ahead) add(items []Item) {
	for i := range items {
		item := &items[i]
		if item.Sample == nil || item.user == nil {
			continue
		}
		a.last = nil // it may be of another process
		if item.Misc.CPUMode() == perfdata.MiscUser {
			a.want(item.user, item.Sample.IP)
		}
		if a.noStacks || !item.Sample.Fields.Has(perfdata.SampleCallchain) {
			continue
		}
		mode := perfdata.MiscUser
		for _, ip := range item.Sample.Callchain {
			if perfdata.IsContext(ip) {
				mode, _ = modeOf(ip)
			} else if mode == perfdata.MiscUser {
				a.want(item.user, ip)
			}
		}
	}
}

func (a *ahead) want(maps *addressSpace, ip uint64) {
	if m := a.last; m != nil && ip >= m.Start && ip < m.End {
		return
	}
	m := maps.find(ip)
	if m == nil {
		return
	}
	a.last = m
	u, is := m.DSO.names.(*userFile)
	if !is || a.seen[u] {
		return
	}
	a.seen[u] = true
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, u)
	if a.workers < openedAtOnce {
		a.workers++
		a.working.Go(a.work)
	}
}

// work opens files until none is waiting.
func (a *ahead) work() {
	for {
		a.mu.Lock()
		if len(a.waiting) == 0 || a.ctx.Err() != nil {
			a.workers--
			a.mu.Unlock()
			return
		}
		u := a.waiting[0]
		a.waiting = a.waiting[1:]
		a.mu.Unlock()
		u.prepare()
	}
}

// close waits until no file is being opened.
func (a *ahead) close() {
	a.stop()
	a.working.Wait()
}

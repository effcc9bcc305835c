package sample

import (
	"syscall"
	"time"
)

// report calls Config.Progress every second until stop is called.
func (s *sampler) report() (stop func()) {
	if s.cfg.Progress == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		last, used := began, usedCPU()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			now, usedNow := time.Now(), usedCPU()
			p, err := s.progress()
			if err != nil {
				continue
			}
			p.Elapsed, p.CPU = now.Sub(began), float64(usedNow-used)/float64(now.Sub(last))
			s.cfg.Progress(p)
			last, used = now, usedNow
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

func (s *sampler) progress() (p Progress, err error) {
	all, err := s.counter.counts()
	if err != nil {
		return p, err
	}
	for _, c := range all {
		p.Samples += c.Samples
		p.Lost += c.NoSum
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Sums, p.Stacks, err = s.counter.fills()
	return p, err
}

// usedCPU returns the CPU time of this process.
func usedCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

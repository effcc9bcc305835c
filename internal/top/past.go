package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/bpfprog"
)

const (
	pastLength  = 300 // intervals of a program that are kept
	graphLength = 60  // columns of a graph of them
)

// past is what a program did in the last intervals.
type past struct {
	runs, cpus []float64 // per second, and the number of CPUs that it kept busy; the latest last
	windows    []time.Duration
	stats      bpfprog.Stats // since it was loaded
}

func (p *past) add(o *bpfprog.Observed, window time.Duration) {
	if len(p.runs) == pastLength {
		p.runs, p.cpus, p.windows = p.runs[1:], p.cpus[1:], p.windows[1:]
	}
	p.runs = append(p.runs, float64(o.Use.Runs)/window.Seconds())
	p.cpus = append(p.cpus, o.Use.CPUs)
	p.windows = append(p.windows, window)
	p.stats = o.Stats
}

// remember adds an observation to the pasts of its programs, and forgets programs that are not loaded any more.
func remember(pasts map[uint32]*past, o *bpfprog.Observation) map[uint32]*past {
	next := make(map[uint32]*past, len(o.Programs))
	for i := range o.Programs {
		program := &o.Programs[i]
		if next[program.ID] = cmp.Or(pasts[program.ID], &past{}); o.Window > 0 {
			next[program.ID].add(program, o.Window)
		}
	}
	return next
}

// Past draws how often a program ran in the last intervals, at most 300, and how much of a CPU it took. Below are its sums since it was
// loaded. It may be called while Next is running.
func (p *Programs) Past(id uint64) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	past := p.past[uint32(id)]
	if past == nil || len(past.runs) == 0 {
		return nil
	}
	window := time.Duration(0)
	for _, w := range past.windows {
		window += w
	}
	graph := func(title string, values []float64, text func(float64) string) string {
		return fmt.Sprintf("%-7s%s  at most %s", title, bars(merged(values, graphLength)), text(slices.Max(values)))
	}
	return []string{
		graph("runs/s", past.runs, func(v float64) string { return fmt.Sprintf("%.1f", v) }),
		graph("cpu %", past.cpus, percent),
		fmt.Sprintf("These are the last %v. Since it was loaded, %d runs in %v were counted.",
			window.Round(time.Second), past.stats.Runs, past.stats.RunTime),
	}
}

// merged returns the means of neighbours, so that at most n values are left. All but the first have the same number of neighbours.
func merged(values []float64, n int) []float64 {
	each := (len(values) + n - 1) / n
	var means []float64
	for end := len(values); end > 0; end -= each {
		part := values[max(0, end-each):end]
		sum := 0.0
		for _, v := range part {
			sum += v
		}
		means = append(means, sum/float64(len(part)))
	}
	slices.Reverse(means)
	return means
}

// bars draws values that are not negative, the latest at the right. The largest one is as high as a line; 0 is empty.
func bars(values []float64) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range values {
		if v == 0 {
			b.WriteByte(' ')
		} else {
			b.WriteRune(levels[min(int(v/most*float64(len(levels))), len(levels)-1)])
		}
	}
	return b.String()
}

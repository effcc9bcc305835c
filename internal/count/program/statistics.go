package program

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
)

// statistics are the kernel's own of a program: how often it ran, and for how long. The kernel counts while a descriptor for it is
// open, so that this ends with the process.
type statistics struct {
	program *ebpf.Program
	on      io.Closer // nil while it is not wanted

	total ebpf.ProgramStats // up to the last end
	since ebpf.ProgramStats
}

func openStatistics(t Target) (*statistics, error) {
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(t.ID))
	if err != nil {
		return nil, fmt.Errorf("open BPF program %s: %w", t, err)
	}
	return &statistics{program: p}, nil
}

func (s *statistics) begin() (err error) {
	if s.on, err = kernel.CountRuns(); err != nil {
		return fmt.Errorf("enable the statistics of BPF programs: %w", err)
	}
	s.since, err = s.now()
	return err
}

func (s *statistics) end() (err error) {
	s.total, err = s.read()
	on := s.on
	s.on = nil
	return errors.Join(err, on.Close())
}

func (s *statistics) now() (ebpf.ProgramStats, error) {
	stats, err := s.program.Stats()
	if err != nil {
		return ebpf.ProgramStats{}, fmt.Errorf("read the statistics of a BPF program: %w", err)
	}
	return *stats, nil
}

// read is what was counted.
func (s *statistics) read() (ebpf.ProgramStats, error) {
	if s.on == nil {
		return s.total, nil
	}
	now, err := s.now()
	now.RunCount += s.total.RunCount - s.since.RunCount
	now.Runtime += s.total.Runtime - s.since.Runtime
	return now, err
}

func (s *statistics) close() error {
	var err error
	if s.on != nil {
		err = s.on.Close()
	}
	return errors.Join(err, s.program.Close())
}

// readStatistics appends what the kernel counted, which is of all CPUs together.
func (c *Counter) readStatistics(cells []count.Cell, program int) ([]count.Cell, error) {
	now, err := c.programs[program].kernel.read()
	if err != nil {
		return nil, err
	}
	time := c.time()
	for i, v := range [...]uint64{ownRuns: now.RunCount, ownRunTime: uint64(now.Runtime)} {
		r := perfevent.Reading{Value: v, Enabled: time, Running: time}
		cells = append(cells, count.Cell{Event: c.events + i, CPU: count.None, Thread: count.None, Cgroup: count.None, Program: program, Reading: r})
	}
	return cells, nil
}

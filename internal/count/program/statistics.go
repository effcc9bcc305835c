package program

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
)

// statistics has the kernel's statistics of a program: the number of its runs and their time. The kernel counts while a process has a
// descriptor for that open, so counting ends with the process.
type statistics struct {
	id      ebpf.ProgramID
	program *ebpf.Program // nil if it may be unloaded; the last reading stays
	last    ebpf.ProgramStats
	on      io.Closer // nil while disabled

	total ebpf.ProgramStats // up to the last end
	since ebpf.ProgramStats // at the last begin
}

// openStatistics opens the statistics of a program. With hold, the program stays loaded until they are closed.
func openStatistics(t Target, hold bool) (*statistics, error) {
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(t.ID))
	if err != nil {
		return nil, fmt.Errorf("open BPF program %s: %w", t, err)
	}
	if !hold {
		return &statistics{id: ebpf.ProgramID(t.ID)}, p.Close()
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
	program := s.program
	if program == nil {
		var err error
		program, err = ebpf.NewProgramFromID(s.id)
		if errors.Is(err, fs.ErrNotExist) {
			return s.last, nil
		}
		if err != nil {
			return ebpf.ProgramStats{}, fmt.Errorf("open a BPF program for its statistics: %w", err)
		}
		defer program.Close()
	}
	stats, err := program.Stats()
	if err != nil {
		return ebpf.ProgramStats{}, fmt.Errorf("read the statistics of a BPF program: %w", err)
	}
	s.last = *stats
	return *stats, nil
}

// read returns the counts up to now.
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
	if s.program != nil {
		err = errors.Join(err, s.program.Close())
	}
	return err
}

// readStatistics appends the kernel's statistics, which are for all CPUs together.
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

package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bperf/bperf/test/binaries"
	"github.com/bperf/bperf/test/guest/boot"
	"github.com/bperf/bperf/test/require"
)

// guestJobs returns jobs that run the tests of guests on other kernels.
func guestJobs(b *binaries.Builder) []job {
	var fetching sync.Mutex
	var jobs []job
	for _, g := range guests {
		if g.long && !require.Long() {
			continue
		}
		o := boot.Options{Kernel: g.kernel, Packages: g.packages, Run: g.run, Perf: true, Newest: g.newest, CPU: g.cpu, CPUTime: guestCPUTime}
		flags := ""
		if g.newest {
			flags += "-newest-perf "
		}
		if g.cpu != "" {
			flags += "-cpu " + g.cpu + " "
		}
		jobs = append(jobs, job{
			where: where{kernel: g.kernel, flags: flags},
			name:  strings.TrimPrefix(strings.Join(g.packages, " "), "./"), // in the form of Package.Path
			run: func(ctx context.Context, r *run) error {
				err := r.phase("fetch", func() error {
					fetching.Lock()
					defer fetching.Unlock()
					return boot.Fetch(&o)
				})
				if err != nil {
					return err
				}
				return runGuest(ctx, r, b, &o)
			},
		})
	}
	return jobs
}

func runGuest(ctx context.Context, r *run, b *binaries.Builder, o *boot.Options) error {
	var g *boot.Guest
	err := r.phase("compile", func() (err error) {
		g, err = boot.Prepare(b, o)
		return err
	})
	if err != nil {
		return err
	}
	defer g.Remove()
	start := time.Now()
	out := &booting{run: r, start: start}
	status, err := g.Run(ctx, out)
	if err != nil {
		return err
	}
	r.phases = append(r.phases, phase{"in the guest", time.Since(start)})
	if status != 0 && len(r.failed) == 0 {
		return fmt.Errorf("status %d", status)
	}
	return nil
}

// booting receives the output of a guest. The first byte shows that the guest has booted.
type booting struct {
	*run
	start  time.Time
	booted bool
}

func (b *booting) Write(p []byte) (int, error) {
	if !b.booted {
		b.booted = true
		b.phases = append(b.phases, phase{"boot", time.Since(b.start)})
		b.since = time.Now()
	}
	return b.run.Write(p)
}

package record

import (
	"fmt"
	"runtime"

	"github.com/bperf/bperf/internal/perfevent"
)

// checkRealtime returns an error if the collector may not have the priority of Config.Realtime. It tries on a thread that ends with its priority.
func (c *Config) checkRealtime() error {
	tried := make(chan error)
	go func() { tried <- c.becomeRealtime() }()
	return <-tried
}

// becomeRealtime gives the calling goroutine's thread the priority of Config.Realtime. The thread ends with the goroutine.
func (c *Config) becomeRealtime() error {
	if c.Realtime == 0 {
		return nil
	}
	runtime.LockOSThread() // never unlocked: the thread has another priority
	if err := perfevent.SetRealtime(c.Realtime); err != nil {
		return fmt.Errorf("record with the real-time priority %d: %w. Run as root, with CAP_SYS_NICE, or allow it with ulimit -r", c.Realtime, err)
	}
	return nil
}

package record

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// TestSwitchEvents begins another file at an event, and then ends.
func TestSwitchEvents(t *testing.T) {
	require.Tracefs(t)
	cfg := config(t, "page-faults")
	var err error
	cfg.Switch.Events, err = event.Host().Parse(getppid)
	check(t, err)
	signals := make(chan os.Signal, 1)
	cfg.Target.System, cfg.Signals = true, signals
	cfg.Verbose = func(text string) {
		if text == "events are enabled" {
			syscall.Getppid()
		}
	}
	var once sync.Once
	cfg.Notify = func(text string) {
		if strings.Contains(text, "Dump") {
			once.Do(func() { signals <- syscall.SIGINT })
		}
	}
	result, err := Run(cfg)
	check(t, err)
	files, err := filepath.Glob(cfg.Output + ".*")
	check(t, err)
	if result.Files < 2 || len(files) != result.Files || result.Signal != syscall.SIGINT {
		t.Errorf("%+v; files %v", result, files)
	}
	for _, name := range files {
		r, err := perfdata.Open(name)
		check(t, err)
		for _, e := range r.Events() {
			if e.Name == getppid {
				t.Errorf("%s has the event at which it ends", name)
			}
		}
		r.Close()
	}
}

// TestTimedName appends the time to the name of a file, and leaves a device alone.
func TestTimedName(t *testing.T) {
	cfg := config(t, "page-faults")
	cfg.Command, cfg.TimedName = []string{"true"}, true
	result, err := Run(cfg)
	check(t, err)
	if ok := regexp.MustCompile(`^perf\.data\.\d{16}$`).MatchString(filepath.Base(result.LastOutput)); !ok || exists(cfg.Output) {
		t.Errorf("%+v", result)
	}
	if got := read(t, result.LastOutput); len(got.samples) != 1 {
		t.Errorf("%v", got.samples)
	}
	check(t, os.Symlink(os.DevNull, cfg.Output))
	if result, err = Run(cfg); err != nil || result.LastOutput != cfg.Output || !exists(cfg.Output) {
		t.Errorf("to a device: %+v, %v", result, err)
	}
}

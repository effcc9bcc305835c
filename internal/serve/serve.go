// Package serve is the daemon of bperf serve: it counts on this node, and answers those who ask for the counts.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/serve/budget"
	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/serve/kubelet"
	"github.com/bperf/bperf/internal/serve/metrics"
	"github.com/bperf/bperf/internal/serve/node"
	"github.com/bperf/bperf/internal/serve/page"
	"github.com/bperf/bperf/internal/serve/profiles"
	"github.com/bperf/bperf/internal/serve/remote"
	"github.com/bperf/bperf/internal/serve/settings"
	"github.com/bperf/bperf/internal/serve/web"
)

// Config is what the command line says.
type Config struct {
	Path    string                   // of the configuration file; empty for none
	Change  func(*settings.Settings) // replaces what flags set, each time after the file is read
	Version string                   // of bperf
	Log     io.Writer

	// DropCapabilities makes Run drop the capabilities that the daemon does not need, for the whole process and for good.
	DropCapabilities bool
}

// load reads the settings, with those of flags.
func (c *Config) load() (*settings.Settings, error) {
	s, err := settings.Load(c.Path)
	if err != nil {
		return nil, err
	}
	c.Change(s)
	return s, s.Check()
}

// Daemon counts and answers until it is stopped.
type Daemon struct {
	config   Config
	settings *settings.Settings // of the start
	level    *slog.LevelVar
	log      *slog.Logger
	server   *web.Server
	pull     *profiles.Pull
	remote   *remote.Server
	servers  *servers        // to push to
	profile  *profiling      // nil if no profile is taken
	kubelet  *kubelet.Client // nil if the kubelet is not asked for names
	budget   *budgeting      // what the daemon takes, and may take
	page     *page.Page
	reloads  reloads
	fetching context.CancelFunc            // ends what is being fetched from debuginfod
	doctor   atomic.Pointer[kernel.Report] // what works on this machine; nil while that is not known
	current  atomic.Pointer[generation]    // nil while the daemon starts
}

// generation is what changes when the configuration is reloaded.
type generation struct {
	settings  *settings.Settings
	collector *node.Collector
	began     time.Time // of collector
	metrics   *metrics.Collector
}

// New reads the configuration and opens the addresses. Run does the rest.
func New(config Config) (*Daemon, error) {
	s, err := config.load()
	if err != nil {
		return nil, err
	}
	d := &Daemon{config: config, settings: s, level: new(slog.LevelVar)}
	d.level.Set(s.Log.Level)
	d.log = newLog(config.Log, s.Log.Format, d.level)
	fetching, stop := context.WithCancel(context.Background())
	d.fetching = stop
	fetch := newDebuginfod(fetching, s, d.log)
	d.pull = profiles.NewPull(profiles.PullConfig{Container: d.Container, Debuginfod: fetch, Log: d.log})
	d.remote = remote.NewServer(remote.Config{Program: ownProgram, Longest: s.Sessions.Longest, Bytes: s.Sessions.Bytes, Log: d.log})
	if d.servers, err = openServers(s, d.log); err != nil {
		return nil, err
	}
	if d.profile, err = newProfiling(s, d.log, d.Container, d.servers, fetch); err != nil {
		return nil, errors.Join(err, d.servers.close())
	}
	if s.Kubelet.URL != "" {
		d.kubelet = kubelet.New(kubelet.Config(s.Kubelet), d.log)
	}
	d.budget = newBudgeting(d.log, d.cost)
	d.page = d.newPage()
	if d.server, err = web.Listen(s, d.log, d.routes(s.Sessions)); err != nil {
		return nil, errors.Join(err, d.servers.close())
	}
	return d, nil
}

// ownProgram is the program of this process, even if another version has replaced the file since.
const ownProgram = "/proc/self/exe"

func newLog(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// Addresses returns the addresses that the daemon listens on.
func (d *Daemon) Addresses() []string { return d.server.Addresses() }

// Run counts and answers until the context ends. It reads the configuration again at each signal of reload. The addresses answer before
// counting has begun: /-/ready says when it has.
func (d *Daemon) Run(ctx context.Context, reload <-chan os.Signal) error {
	defer d.fetching()
	serving, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(serving, d.remote.Stop)()
	served := make(chan error, 1)
	go func() { served <- d.server.Serve(serving) }()
	d.examine() // before counting: it opens a counter for a moment
	err := d.start()
	var working sync.WaitGroup
	working.Go(func() { d.page.Run(serving) })
	if d.kubelet != nil {
		working.Go(func() { d.kubelet.Run(serving) })
	}
	working.Go(func() { d.pushMetrics(serving, d.settings.MetricsEvery) })
	if d.profile != nil {
		working.Go(func() { d.profile.Run(serving) })
	}
	if err == nil {
		err = d.wait(ctx, reload, served, stop)
	} else {
		stop()
		err = errors.Join(err, <-served)
	}
	stop()
	d.remote.Close()
	d.budget.end()
	working.Wait()
	if lost := d.servers.close(); lost != nil {
		d.log.Warn("not everything was pushed", "error", lost)
	}
	if g := d.current.Load(); g != nil {
		err = errors.Join(err, g.collector.Close())
	}
	d.log.Info("ended")
	return err
}

// newPage returns the page of this node.
func (d *Daemon) newPage() *page.Page {
	config := page.Config{Version: d.config.Version, Snapshot: d.Snapshot, Budget: d.budget.status.Load, Sessions: d.remote.Stats,
		Doctor: d.doctor.Load}
	if host, err := os.Hostname(); err == nil { // the page does without
		config.Host = host
	}
	config.Pushes = d.servers.stats
	if d.kubelet != nil {
		config.Kubelet = func() error { return d.kubelet.Stats().Err }
	}
	if d.profile != nil {
		config.Windows = d.profile.windows
	}
	return page.New(config)
}

// examine finds out what works on this machine, for the page.
func (d *Daemon) examine() {
	report, err := kernel.Examine()
	if err != nil {
		d.log.Warn("the page does not say what does not work here", "error", err)
		return
	}
	d.doctor.Store(&report)
}

// start begins to count.
func (d *Daemon) start() error {
	began := time.Now()
	collector, err := d.open(d.settings, budget.Plan{Switches: true})
	if err != nil {
		return fmt.Errorf("count on this node: %w", err)
	}
	if d.config.DropCapabilities {
		if err := kernel.KeepCapabilities(needed...); err != nil {
			d.log.Warn("the capabilities that bperf does not need were not dropped", "error", err)
		}
	}
	d.use(d.settings, collector, began)
	d.beginBudget(d.settings, collector)
	d.reloads.succeeded()
	d.log.Info("counting", "version", d.config.Version, "events", d.settings.Events)
	d.warnOfUncounted()
	return nil
}

// warnOfUncounted logs the events of the configuration that this machine does not count.
func (d *Daemon) warnOfUncounted() {
	snap, err := d.Snapshot()
	if err != nil {
		d.log.Warn("the counters cannot be read", "error", err)
		return
	}
	for _, e := range slices.Concat(snap.Events, snap.InsideEvents) {
		if e.Reason != "" {
			d.log.Warn("an event is not counted", "event", e.Name, "reason", e.Reason)
		}
	}
}

// needed are the capabilities that the daemon and its sessions use once it has started. docs/serve.md says for what.
var needed = []kernel.Capability{
	kernel.CapBPF, kernel.CapPerfmon, kernel.CapSysAdmin, kernel.CapSyslog, kernel.CapSysPtrace, kernel.CapDACReadSearch,
	kernel.CapCheckpointRestore, kernel.CapIPCLock, kernel.CapSysNice, kernel.CapSysResource,
}

// wait reloads the configuration at signals and keeps the budget, until the context ends or the server fails.
func (d *Daemon) wait(ctx context.Context, reload <-chan os.Signal, served <-chan error, stop func()) error {
	for {
		select {
		case <-ctx.Done():
			d.log.Info("ending", "reason", context.Cause(ctx))
			d.remote.Finish() // the server cuts requests off earlier than sessions need
			stop()
			return <-served
		case err := <-served:
			return err
		case <-d.budget.tick:
			d.keepBudget()
		case <-reload:
			if err := d.Reload(); err != nil {
				d.reloads.failed()
				d.log.Error("reload failed: nothing changed", "error", err)
				continue
			}
			d.reloads.succeeded()
			d.log.Info("reloaded", "config", d.config.Path)
		}
	}
}

// open opens a collector for the settings. Of a plan, it follows the number of events, 0 for all, and whether anything runs at switches.
func (d *Daemon) open(s *settings.Settings, plan budget.Plan) (*node.Collector, error) {
	config := node.Config{Events: s.Events, Most: plan.Events, NoContainers: !plan.Switches, Share: shared.Dir, Inside: node.Inside(s.Inside),
		Duty: node.Duty{For: s.Statistics.On, Every: s.Statistics.Every}}
	if d.kubelet != nil {
		config.Names = d.kubelet.Complete
	}
	return node.Open(config)
}

// use makes the daemon use these settings and this collector, which began to count then.
func (d *Daemon) use(s *settings.Settings, collector *node.Collector, began time.Time) {
	d.current.Store(&generation{s, collector, began, metrics.New(d.Snapshot, s.SeriesLimit, d.export)})
}

// errStarting is the error of Snapshot until counting has begun.
var errStarting = errors.New("bperf has not begun to count yet")

// Snapshot returns the current counts.
func (d *Daemon) Snapshot() (*node.Snapshot, error) {
	for {
		g := d.current.Load()
		if g == nil {
			return nil, errStarting
		}
		snap, err := g.collector.Read()
		if errors.Is(err, node.ErrClosed) && d.current.Load() != g {
			continue // a reload replaced the collector
		}
		return snap, err
	}
}

// Container returns the container, or else the unit, that a cgroup belongs to, or false.
func (d *Daemon) Container(cgroup uint64) (container.Name, bool) {
	for {
		g := d.current.Load()
		if g == nil {
			return container.Name{}, false
		}
		name, known := g.collector.Container(cgroup)
		if known || d.current.Load() == g {
			return name, known
		}
		// A reload replaced the collector, which knows nothing when it is closed.
	}
}

// Reload reads the configuration again. With an error, nothing has changed.
func (d *Daemon) Reload() error {
	s, err := d.config.load()
	if err != nil {
		return err
	}
	g := d.current.Load()
	if err := unchangeable(g.settings, s); err != nil {
		return err
	}
	useRoles, err := d.server.Prepare(s)
	if err != nil {
		return err
	}
	collector, began := g.collector, g.began
	recount := !slices.Equal(s.Events, g.settings.Events) || s.Statistics != g.settings.Statistics ||
		s.Budget.Limits != g.settings.Budget.Limits || !reflect.DeepEqual(s.Inside, g.settings.Inside)
	if recount {
		began = time.Now()
		if collector, err = d.open(s, budget.Plan{Switches: true}); err != nil {
			return fmt.Errorf("count on this node: %w", err)
		}
	}
	useRoles()
	d.level.Set(s.Log.Level)
	if recount || s.SeriesLimit != g.settings.SeriesLimit {
		d.use(s, collector, began)
	} else {
		d.current.Store(&generation{s, collector, began, g.metrics})
	}
	if recount {
		d.beginBudget(s, collector)
		d.warnOfUncounted()
		if err := g.collector.Close(); err != nil {
			d.log.Warn("close the counters of the old configuration", "error", err)
		}
	}
	return nil
}

// unchangeable returns an error if a key changed that needs a restart.
func unchangeable(before, after *settings.Settings) error {
	for _, key := range []struct {
		name          string
		before, after any
	}{
		{"listen", before.Listen, after.Listen},
		{"insecure", before.Insecure, after.Insecure},
		{"web_config", before.WebConfig, after.WebConfig},
		{"kubelet", before.Kubelet, after.Kubelet},
		{"profile", before.Profile, after.Profile},
		{"push", before.Push, after.Push},
		{"metrics_every", before.MetricsEvery, after.MetricsEvery},
		{"sessions", before.Sessions, after.Sessions},
		{"log.format", before.Log.Format, after.Log.Format},
	} {
		if !reflect.DeepEqual(key.before, key.after) {
			return fmt.Errorf("%s changed: this needs a restart", key.name)
		}
	}
	return nil
}

// reloads are the results of reading the configuration.
type reloads struct {
	successful atomic.Bool  // the last attempt
	time       atomic.Int64 // of the last success, in seconds since 1970
}

func (r *reloads) succeeded() {
	r.successful.Store(true)
	r.time.Store(time.Now().Unix())
}

func (r *reloads) failed() { r.successful.Store(false) }

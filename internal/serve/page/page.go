// Package page draws the page of the daemon: what the node's containers, CPUs and BPF programs do, against their own past minutes, and what
// the daemon itself costs. It measures nothing.
//
// It does without html/template. That package looks methods up by name, and with it the linker would keep the exported methods of all types
// in the program: 2 MB. So each text of others goes through the function text.
package page

import (
	"bytes"
	"context"
	_ "embed" // for the style and the script of the page
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/bperf/bperf/internal/httpd"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/serve/budget"
	"github.com/bperf/bperf/internal/serve/node"
	"github.com/bperf/bperf/internal/serve/profiles"
	"github.com/bperf/bperf/internal/serve/push"
	"github.com/bperf/bperf/internal/serve/remote"
)

//go:embed page.css
var style string

//go:embed page.js
var script string

// every is the time between two steps of the history. The page reloads itself as often: see page.js.
const every = 10 * time.Second

// Config says what the page shows. Several goroutines call its functions.
type Config struct {
	Host     string // name of the node
	Version  string // of bperf
	Snapshot func() (*node.Snapshot, error)

	// Budget returns what bperf takes and may take, or nil while that is not known.
	Budget func() *budget.Status

	// Doctor returns what bperf doctor finds on this machine, or nil while that is not known.
	Doctor func() *kernel.Report

	// Kubelet returns why the kubelet gives no names of containers at the moment, or nil. It is nil if the kubelet is not asked.
	Kubelet func() error

	// Sessions returns the sessions from afar.
	Sessions func() remote.Stats

	// Pushes returns the numbers of the servers that get profiles; Windows returns the last windows of these profiles, the oldest first,
	// and why there is no profile at the moment, or nil. Both are nil if no profiles are taken.
	Pushes  func() []push.Stats
	Windows func() ([]*profiles.Window, error)
}

// Page is the page of a node. It is safe for concurrent use.
type Page struct {
	config Config

	mu      sync.Mutex // guards all below
	past    *history
	last    *step // nil before the first one
	failure error // of the last attempt to read a snapshot
}

// New returns a page without history.
func New(config Config) *Page { return &Page{config: config, past: newHistory(0)} }

// Run adds to the history until the context is done.
func (p *Page) Run(ctx context.Context) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		p.add(p.config.Snapshot())
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// add adds a snapshot to the history.
func (p *Page) add(s *node.Snapshot, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure = err; err != nil {
		return
	}
	var before *node.Snapshot
	if p.last != nil {
		before = p.last.now
		if before == s {
			return
		}
	}
	if before == nil || !slices.Equal(before.Events, s.Events) {
		p.past = newHistory(len(s.Events))
	}
	p.last = newStep(before, s)
	p.past.add(p.last)
}

// policy allows the style and the script of the page, and that the script asks for the page again.
var policy = sync.OnceValue(func() string {
	return "default-src 'none'; style-src " + httpd.Source(style) + "; script-src " + httpd.Source(script) +
		"; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
})

// ServeHTTP answers with the page.
func (p *Page) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	body := p.draw()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy())
	_, _ = w.Write(body) // the client is gone if it fails
}

// draw returns the page. It holds no lock while a client reads.
func (p *Page) draw() []byte {
	v := view{Config: &p.config}
	if p.config.Budget != nil {
		v.budget = p.config.Budget()
	}
	if p.config.Doctor != nil {
		v.doctor = p.config.Doctor()
	}
	if p.config.Kubelet != nil {
		v.noNames = p.config.Kubelet()
	}
	if p.config.Sessions != nil {
		v.sessions = p.config.Sessions()
	}
	if p.config.Pushes != nil {
		v.pushes = p.config.Pushes()
	}
	if p.config.Windows != nil {
		var all []*profiles.Window
		if all, v.noWindow = p.config.Windows(); len(all) > 0 {
			v.window, v.before = all[len(all)-1], earlier(all)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v.past, v.step, v.failure = p.past, p.last, p.failure
	var b bytes.Buffer
	v.write(&b)
	return b.Bytes()
}

// Package debuginfod fetches what belongs to a build ID from the servers that $DEBUGINFOD_URLS names: debugging information, executables
// and source files (debuginfod(8)). It keeps them in the cache that all clients share.
//
// Servers are trusted to have the right files, as with other clients, but not to answer: all that they send is bounded in bytes and time.
package debuginfod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/bperf/bperf/internal/printable"
)

// Options configure a Client.
type Options struct {
	Getenv   func(name string) string // os.Getenv
	Notes    io.Writer                // gets a line for each problem with a server or the environment, once
	Progress bool                     // Notes is a terminal: show there what is being fetched
}

// A Client fetches files. It is safe for concurrent use.
type Client struct {
	*shared
	ctx   context.Context
	later bool // the methods do not wait
}

// shared is the state of a Client and its copies.
type shared struct {
	options  Options
	settings *settings
	display  display
	slots    chan struct{} // a place for each file that is being fetched

	openOnce sync.Once
	cache    *cache
	cacheErr error

	web webClient

	mu      sync.Mutex
	calls   map[string]*call // by name in the cache
	fetched uint64           // files that later calls find
}

// call is a file that was asked for.
type call struct {
	done chan struct{}
	err  error
}

// atOnce is the number of files that are fetched at once.
const atOnce = 8

// ErrMissing reports that no server has a file.
var ErrMissing = errors.New("no debuginfod server has it")

// errLater reports that a Client that does not wait has no file yet.
var errLater = errors.New("it is being fetched from debuginfod")

// mostLater is the number of files from which on a Client that does not wait asks for no more.
const mostLater = 64

// New returns a Client for the servers in $DEBUGINFOD_URLS. Without any, it returns nil. It contacts no server and opens no file, except
// that of $DEBUGINFOD_HEADERS_FILE.
func New(ctx context.Context, o Options) *Client {
	s := read(o.Getenv)
	if s == nil {
		return nil
	}
	c := &Client{shared: &shared{options: o, settings: s, slots: make(chan struct{}, atOnce), calls: map[string]*call{}}, ctx: ctx}
	c.display = display{w: o.Notes, shows: o.Progress}
	c.web.init(s, &c.display)
	return c
}

// WithContext returns a copy of the Client that stops fetching when the context ends. It shares everything with the original. A Client that
// does not wait returns itself.
func (c *Client) WithContext(ctx context.Context) *Client {
	if c.later {
		return c
	}
	return &Client{shared: c.shared, ctx: ctx}
}

// WithoutWaiting returns a copy of the Client whose methods return at once: what the cache lacks is fetched for later calls. It shares
// everything with the original.
func (c *Client) WithoutWaiting() *Client { return &Client{c.shared, c.ctx, true} }

// Fetched returns the number of files that were fetched while nobody waited for them. A nil Client has fetched none.
func (c *Client) Fetched() uint64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fetched
}

// Cached is a file in the cache: Path below Dir, where symbolic links must not lead out of Dir.
type Cached struct{ Dir, Path string }

// request is a file to ask for.
type request struct {
	name  string // in the cache
	path  string // on servers
	label string // what progress messages call it
	limit int64  // bytes
	check func(*os.File) error
}

// Debuginfo returns the file with the debugging information of a build. name is what progress messages call it. check reports whether a
// fetched file is what was asked for, before it gets into the cache.
func (c *Client) Debuginfo(buildID, name string, check func(*os.File) error) (Cached, error) {
	return c.file(buildID, request{"debuginfo", "debuginfo", name, maxTotal, check})
}

// Executable returns the program or library of a build. The arguments are those of Debuginfo.
func (c *Client) Executable(buildID, name string, check func(*os.File) error) (Cached, error) {
	return c.file(buildID, request{"executable", "executable", name, maxTotal, check})
}

// Source returns a source file of a build, of at most limit bytes, by the absolute path that the debugging information has.
func (c *Client) Source(buildID, file string, limit int64) (Cached, error) {
	if !path.IsAbs(file) {
		return Cached{}, fmt.Errorf("%s: debuginfod knows source files by absolute paths", file)
	}
	file = path.Clean(file)
	return c.file(buildID, request{sourceName(file), "source" + file, path.Base(file), limit, func(*os.File) error { return nil }})
}

// file returns a file of a build from the cache or a server.
func (c *Client) file(buildID string, q request) (Cached, error) {
	if !isBuildID(buildID) {
		return Cached{}, fmt.Errorf("debuginfod has no build ID like %q", buildID)
	}
	c.openOnce.Do(c.open)
	if c.cacheErr != nil {
		return Cached{}, c.cacheErr
	}
	q.name, q.path = path.Join(buildID, q.name), path.Join("buildid", buildID, q.path)
	found := Cached{c.cache.dir, "/" + q.name}
	if c.later {
		return found, c.fetchLater(q)
	}
	c.mu.Lock()
	running, known := c.calls[q.name]
	if !known {
		running = &call{done: make(chan struct{})}
		c.calls[q.name] = running
	}
	c.mu.Unlock()
	if known {
		select {
		case <-running.done:
			return found, running.err
		case <-c.ctx.Done():
			return Cached{}, c.ctx.Err()
		}
	}
	running.err = c.get(q)
	if c.ctx.Err() != nil { // others may still want it
		c.mu.Lock()
		delete(c.calls, q.name)
		c.mu.Unlock()
	}
	close(running.done)
	return found, running.err
}

// fetchLater returns nil if the cache has a file. Otherwise it begins to fetch the file, unless that has begun before.
func (c *Client) fetchLater(q request) error {
	switch there, missing := c.cache.find(q.name); {
	case there:
		return nil
	case missing:
		return ErrMissing
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[q.name] == nil && len(c.calls) < mostLater {
		running := &call{done: make(chan struct{})}
		c.calls[q.name] = running
		go func() {
			running.err = c.get(q)
			c.mu.Lock()
			defer c.mu.Unlock()
			if running.err == nil {
				c.fetched++
			}
			delete(c.calls, q.name) // the cache knows what there is, and what is missing
			close(running.done)
		}()
	}
	return errLater
}

// open opens the cache.
func (c *Client) open() {
	for _, note := range c.settings.notes {
		c.display.note(note)
	}
	if c.cache, c.cacheErr = openCache(c.settings.cache); c.cacheErr != nil {
		c.display.note("nothing is fetched from debuginfod: " + c.cacheErr.Error())
		return
	}
	c.cache.clean()
}

// get makes sure that the cache has a file.
func (c *Client) get(q request) error {
	there, missing := c.cache.find(q.name)
	switch {
	case there:
		return nil
	case missing:
		return ErrMissing
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
	f, err := c.cache.create(q.name)
	if err != nil {
		c.display.note("nothing is fetched from debuginfod: " + err.Error())
		return err
	}
	part := c.cache.part(f)
	defer func() {
		_ = f.Close()
		_ = c.cache.root.Remove(part) // it is gone if it was kept
	}()
	t := c.display.begin(q.label)
	defer c.display.end(t)
	err = c.web.fetch(c.ctx, q, f, t)
	if errors.Is(err, ErrMissing) {
		_ = c.cache.missed(q.name) // the next run asks again
	}
	if err != nil {
		return err
	}
	return c.cache.keep(f, q.name)
}

// display shows notes, and on a terminal a line with what is being fetched.
type display struct {
	mu    sync.Mutex
	w     io.Writer
	shows bool
	said  map[string]bool
	all   []*transfer // in the order of their start
	lines updates
}

// note prints a line, once.
func (d *display) note(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.said[text] {
		return
	}
	if d.said == nil {
		d.said = map[string]bool{}
	}
	d.said[text] = true
	if d.shows && len(d.all) > 0 {
		fmt.Fprint(d.w, "\r\x1b[K")
	}
	fmt.Fprintln(d.w, "Warning:", printable.Text(strings.ReplaceAll(text, "\n", "; ")))
}

// label returns the last part of a path for messages.
func label(name string) string { return printable.Short(printable.Text(filepath.Base(name)), 40) }

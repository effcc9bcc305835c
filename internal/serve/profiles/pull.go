package profiles

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/internal/sample"
	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/symbol/debuginfod"
)

// PullConfig configures a Pull.
type PullConfig struct {
	MostSeconds   uint64 // length of a profile; 0 for DefaultMostSeconds
	MostFrequency uint64 // samples per second and CPU; 0 for DefaultMostFrequency
	MostSessions  int    // at the same time; 0 for DefaultMostSessions

	Container  func(cgroup uint64) (container.Name, bool) // like Config.Container, but several goroutines call it
	Debuginfod *debuginfod.Client                         // like Config.Debuginfod, for later profiles

	Log *slog.Logger // nil for none
}

// The defaults of PullConfig, and of requests.
const (
	DefaultMostSeconds   = 60
	DefaultMostFrequency = 999
	DefaultMostSessions  = 4

	defaultSeconds       = 10
	defaultPullFrequency = 99
)

// mostParameter is the maximum length of a parameter of a request, in bytes.
const mostParameter = 256

// Grace is the time that bperf may take for a profile beyond the time of sampling: to start a session, to find symbols and to send it. That is
// seconds, but minutes on a slow machine whose CPUs are busy.
const Grace = 5 * time.Minute

// reading is the time that a client may take to read its profile.
const reading = time.Minute

// Pull answers requests for profiles, each with a session of its own. Handlers end their session when the context of the request is done,
// so nothing is left of it when the server is closed and its handlers have returned.
type Pull struct {
	cfg      PullConfig
	sessions chan struct{} // has an element for each session
}

// NewPull returns a Pull.
func NewPull(cfg PullConfig) *Pull {
	cfg.MostSeconds, cfg.MostFrequency = cmp.Or(cfg.MostSeconds, DefaultMostSeconds), cmp.Or(cfg.MostFrequency, DefaultMostFrequency)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Pull{cfg: cfg, sessions: make(chan struct{}, cmp.Or(cfg.MostSessions, DefaultMostSessions))}
}

// index is the text of the index. Its first column is what Go's net/http/pprof has there.
const index = `/debug/pprof/

Profiles of this node by bperf, in the format of pprof:

profile	where CPUs spend their time, or where another event happens
	?seconds=10&event=cpu-clock&frequency=99
offcpu	how long threads are blocked, by the stack that they wait in
	?seconds=10
	both: &container=ID or name&pod=name or UID&namespace=name
`

// Index returns the handler of /debug/pprof/.
func (p *Pull) Index() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowed(w, r) {
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write([]byte(index)) // the client is gone if it fails
	})
}

// Profile returns the handler of /debug/pprof/profile.
func (p *Pull) Profile() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, "profile", p.parseProfile) })
}

// OffCPU returns the handler of /debug/pprof/offcpu.
func (p *Pull) OffCPU() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, "offcpu", p.parseOffCPU) })
}

// request is what a client asks for.
type request struct {
	event     string // empty for off-CPU time
	list      event.List
	duration  time.Duration
	frequency uint64
	filter    Filter
}

// httpError is an error with the status that a client gets. Its text has nothing that was not cleaned.
type httpError struct {
	status int
	text   string
}

func (e *httpError) Error() string { return e.text }

func badRequest(format string, args ...any) error {
	return &httpError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// serve answers a request.
func (p *Pull) serve(w http.ResponseWriter, r *http.Request, name string, parse func(*http.Request) (request, error)) {
	if !allowed(w, r) {
		return
	}
	asked, err := parse(r)
	if err != nil {
		fail(w, err)
		return
	}
	select {
	case p.sessions <- struct{}{}:
		defer func() { <-p.sessions }()
	default:
		w.Header().Set("Retry-After", strconv.Itoa(int(asked.duration.Seconds())))
		fail(w, &httpError{http.StatusServiceUnavailable,
			fmt.Sprintf("%d profiles are being taken, which is the limit: try again later", cap(p.sessions))})
		return
	}
	// The time limits of the server are for short requests. The read deadline, too, would end the context of this one.
	control, until := http.NewResponseController(w), time.Now().Add(asked.duration+Grace)
	err = errors.Join(control.SetReadDeadline(until), control.SetWriteDeadline(until))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		fail(w, fmt.Errorf("extend the time limits of the connection: %w", err))
		return
	}
	body, err := p.take(r.Context(), asked)
	if r.Context().Err() != nil {
		return // nobody reads the answer
	}
	if err != nil {
		p.cfg.Log.Error("no profile for a client", "profile", name, "event", asked.event, "err", err)
		fail(w, err)
		return
	}
	if soon := time.Now().Add(reading); soon.Before(until) {
		_ = control.SetWriteDeadline(soon) // not supported, or as before
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+name+`.pb.gz"`)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(body) // the client is gone if it fails
}

// allowed reports whether the method of a request is allowed, and answers the request if it is not.
func allowed(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet {
		return true
	}
	w.Header().Set("Allow", http.MethodGet)
	fail(w, &httpError{http.StatusMethodNotAllowed, "profiles are asked for with GET"})
	return false
}

// fail answers a request with an error, which go tool pprof shows.
func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if known := (*httpError)(nil); errors.As(err, &known) {
		status = known.status
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Go-Pprof", "1")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, printable.Text(err.Error())) // the client is gone if it fails
}

// take takes a profile and returns it in pprof's format.
func (p *Pull) take(ctx context.Context, asked request) ([]byte, error) {
	known := newNames(p.cfg.Container)
	cfg := sampling(ctx, asked.list, asked.frequency, known, asked.list == nil)
	cfg.Entries = entries(asked.frequency, asked.list == nil)
	cfg.Replay.Debuginfod = p.cfg.Debuginfod
	cfg.Record.Timeout, cfg.Record.Allowance = asked.duration, allowance.New(DefaultSymbols)
	result, err := sample.Run(cfg)
	if err != nil {
		return nil, err
	}
	result.Profile.RemoveDummies()
	var out bytes.Buffer
	if err := report.WritePprof(&out, selected(result.Profile, asked.filter, known), &report.Options{}); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// selected returns the samples that a filter selects. The losses are those of the whole machine.
func selected(all *profile.Profile, f Filter, known *names) *profile.Profile {
	if f.all() {
		return all
	}
	part := ofPaths(all, func(path string) bool {
		n := known.of(path)
		return path != "" && f.Matches(&n)
	})
	part.Losses = all.Losses
	return part
}

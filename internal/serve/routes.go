package serve

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/bperf/bperf/internal/serve/profiles"
	"github.com/bperf/bperf/internal/serve/remote"
	"github.com/bperf/bperf/internal/serve/settings"
	"github.com/bperf/bperf/internal/serve/web"
)

// maxScrapes is the limit of scrapes at once: each holds all its series in memory.
const maxScrapes = 4

// The limits of pages and flame graphs that are drawn at once.
const (
	maxPages       = 4
	maxFlameGraphs = 2
)

// profileTimeout is the time-out of the longest profile.
const profileTimeout = profiles.DefaultMostSeconds*time.Second + profiles.Grace

// routes returns what the daemon answers.
func (d *Daemon) routes(sessions settings.Sessions) []web.Route {
	return []web.Route{
		{Pattern: "/{$}", Roles: settings.Metrics, Limit: maxPages, Handler: d.page},
		{Pattern: "/flamegraph", Roles: settings.Read, Limit: maxFlameGraphs, Handler: http.HandlerFunc(d.page.FlameGraph)},
		{Pattern: "/metrics", Roles: settings.Metrics, Limit: maxScrapes, Handler: http.HandlerFunc(d.serveMetrics)},
		{Pattern: "/debug/pprof/{$}", Roles: settings.Read, Handler: d.pull.Index()},
		{Pattern: "/debug/pprof/profile", Roles: settings.Read, Timeout: profileTimeout, Handler: d.started(d.pull.Profile())},
		{Pattern: "/debug/pprof/offcpu", Roles: settings.Read, Timeout: profileTimeout, Handler: d.started(d.pull.OffCPU())},
		{Pattern: "/session", Roles: settings.Record, Methods: []string{http.MethodPost}, MaxBody: remote.MaxBody,
			Timeout: sessions.Longest + 2*remote.Grace, Limit: sessions.AtOnce, Handler: d.remote},
		{Pattern: "/-/healthy", Roles: settings.AnyRole, Handler: text("text/plain; charset=utf-8", "bperf is healthy.\n")},
		{Pattern: "/-/ready", Roles: settings.AnyRole, Handler: d.started(text("text/plain; charset=utf-8", "bperf is ready.\n"))},
	}
}

// text returns a handler of a text that never changes.
func text(kind, content string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, content) // an error means that the client went away
	})
}

// started answers with status 503 until counting has begun.
func (d *Daemon) started(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.current.Load() == nil {
			http.Error(w, errStarting.Error(), http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (d *Daemon) serveMetrics(w http.ResponseWriter, r *http.Request) {
	g := d.current.Load()
	if g == nil {
		http.Error(w, errStarting.Error(), http.StatusServiceUnavailable)
		return
	}
	families, err := g.metrics.Gather()
	if err != nil {
		d.log.Error("a scrape failed", "error", err)
		http.Error(w, "An error has occurred while serving metrics:\n\n"+err.Error(), http.StatusInternalServerError)
		return
	}
	format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultAcceptedFormats()...)
	w.Header().Set("Content-Type", string(format))
	w.Header().Set("Vary", "Accept, Accept-Encoding")
	if err := writeMetrics(w, r, format, families); err != nil { // mostly because the client went away
		d.log.Error("a scrape was cut off", "error", err)
	}
}

// writeMetrics writes families, or only those that the query names as Prometheus' libraries have it, and compresses them at the fastest level:
// the default takes three times the CPU time for a third fewer bytes.
func writeMetrics(w http.ResponseWriter, r *http.Request, format expfmt.Format, families []*dto.MetricFamily) (err error) {
	var to io.Writer = w
	if takesGzip(r.Header) {
		w.Header().Set("Content-Encoding", "gzip")
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
		defer func() { err = errors.Join(err, z.Close()) }()
		to = z
	}
	encoder, names := expfmt.NewEncoder(to, format), r.URL.Query()["name[]"]
	for _, f := range families {
		if names != nil && !slices.Contains(names, f.GetName()) {
			continue
		}
		if err := encoder.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

// takesGzip reports whether a client accepts compressed answers.
func takesGzip(h http.Header) bool {
	for coding := range strings.SplitSeq(h.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";")
		if name == "gzip" {
			q, err := strconv.ParseFloat(strings.TrimPrefix(quality, "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}

package serve

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

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
	if takesGzip(r.Header) {
		z := &gzipResponse{ResponseWriter: w}
		defer z.close()
		w = z
	}
	promhttp.HandlerFor(g.metrics, d.metricsOptions()).ServeHTTP(w, r)
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

// gzipResponse compresses an answer with status 200. promhttp compresses too, at a level that takes three times the CPU time for a third
// fewer bytes.
type gzipResponse struct {
	http.ResponseWriter
	to *gzip.Writer // nil before the first byte, and for other answers
	is bool         // an answer has begun
}

// WriteHeader implements http.ResponseWriter.
func (z *gzipResponse) WriteHeader(status int) {
	if z.is = true; status == http.StatusOK {
		z.Header().Set("Content-Encoding", "gzip")
		z.Header().Add("Vary", "Accept-Encoding")
		z.to, _ = gzip.NewWriterLevel(z.ResponseWriter, gzip.BestSpeed) // the level is valid
	}
	z.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (z *gzipResponse) Write(b []byte) (int, error) {
	if !z.is {
		z.WriteHeader(http.StatusOK)
	}
	if z.to == nil {
		return z.ResponseWriter.Write(b)
	}
	return z.to.Write(b)
}

// close ends the answer. An error means that the client went away.
func (z *gzipResponse) close() {
	if z.to != nil {
		_ = z.to.Close()
	}
}

package serve

import (
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/bperf/bperf/internal/serve/metrics"
	"github.com/bperf/bperf/internal/serve/node"
	"github.com/bperf/bperf/test/require"
)

func TestTakesGzip(t *testing.T) {
	require.NoKernel(t)
	for header, want := range map[string]bool{
		"": false, "gzip": true, "deflate, gzip": true, "zstd;q=1,gzip;q=0.5": true, "gzip;q=0": false, "gzip; q=0.0": false, "identity": false, "xgzip": false,
	} {
		if got := takesGzip(http.Header{"Accept-Encoding": {header}}); got != want {
			t.Errorf("%q: %t", header, got)
		}
	}
}

// scraped returns the answer to a request for metrics, with this header, of a node whose counts read returns.
func scraped(read func() (*node.Snapshot, error), target, name, value string) *httptest.ResponseRecorder {
	d := &Daemon{log: slog.New(slog.DiscardHandler)}
	d.current.Store(&generation{metrics: metrics.New(read, 1000, metrics.Runtime)})
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, target, nil)
	r.Header.Set(name, value)
	d.serveMetrics(w, r)
	return w
}

func noCounts() (*node.Snapshot, error) { return &node.Snapshot{}, nil }

// TestGzip compares compressed metrics with others, and checks that errors are not compressed.
func TestGzip(t *testing.T) {
	require.NoKernel(t)
	const target = "/metrics?name[]=go_info&name[]=bperf_series_left_out_total"
	want := scraped(noCounts, target, "Accept-Encoding", "").Body.String()
	w := scraped(noCounts, target, "Accept-Encoding", "gzip")
	unpacked, err := gzip.NewReader(w.Body)
	check(t, err)
	got, err := io.ReadAll(unpacked)
	check(t, err)
	if string(got) != want || strings.Count(want, "# TYPE") != 2 || w.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("%q, want %q; %v", got, want, w.Header())
	}
	fails := func() (*node.Snapshot, error) { return nil, errors.New("the map is gone") }
	w = scraped(fails, "/metrics", "Accept-Encoding", "gzip")
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "the map is gone") || w.Header().Get("Content-Encoding") != "" {
		t.Errorf("%d, %q, %v", w.Code, w.Body, w.Header())
	}
}

// TestFormats checks that clients get the format that they ask for, as from Prometheus' library.
func TestFormats(t *testing.T) {
	require.NoKernel(t)
	for _, accept := range []string{"", "*/*", "text/html", "text/plain;version=0.0.4;escaping=allow-utf-8", "application/openmetrics-text",
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.8,text/plain;q=0.5"} {
		got := scraped(noCounts, "/metrics", "Accept", accept)
		families, err := metrics.New(noCounts, 1000, metrics.Runtime).Gather()
		check(t, err)
		library := promhttp.HandlerFor(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, nil }), promhttp.HandlerOpts{})
		want, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept", accept)
		library.ServeHTTP(want, r)
		kind := got.Header().Get("Content-Type")
		if kind != want.Header().Get("Content-Type") {
			t.Errorf("%q: %q, want %q", accept, kind, want.Header().Get("Content-Type"))
		}
		kinds, decoder := map[string]dto.MetricType{}, expfmt.NewDecoder(got.Body, expfmt.ResponseFormat(got.Header()))
		for {
			var f dto.MetricFamily
			if err = decoder.Decode(&f); err != nil {
				break
			}
			kinds[f.GetName()] = f.GetType()
		}
		if err != io.EOF || len(kinds) != len(families) {
			t.Errorf("%q: %d metrics, want %d: %v", accept, len(kinds), len(families), err)
		}
		for _, f := range families {
			if kinds[f.GetName()] != f.GetType() {
				t.Errorf("%q: %s is a %s, want a %s", accept, f.GetName(), kinds[f.GetName()], f.GetType())
			}
		}
	}
}

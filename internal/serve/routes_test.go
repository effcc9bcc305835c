package serve

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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

// TestGzip compares a compressed answer with what was written, and checks that errors are not compressed.
func TestGzip(t *testing.T) {
	require.NoKernel(t)
	recorder := httptest.NewRecorder()
	z := &gzipResponse{ResponseWriter: recorder}
	want := strings.Repeat("bperf_sessions 1\n", 1000)
	_, err := io.WriteString(z, want)
	check(t, err)
	z.close()
	unpacked, err := gzip.NewReader(recorder.Body)
	check(t, err)
	got, err := io.ReadAll(unpacked)
	check(t, err)
	if string(got) != want || recorder.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("%d bytes, want %d; %v", len(got), len(want), recorder.Header())
	}
	recorder = httptest.NewRecorder()
	z = &gzipResponse{ResponseWriter: recorder}
	http.Error(z, "no", http.StatusInternalServerError)
	z.close()
	if recorder.Body.String() != "no\n" || recorder.Header().Get("Content-Encoding") != "" {
		t.Errorf("%q, %v", recorder.Body, recorder.Header())
	}
}

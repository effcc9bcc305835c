package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/bperf/bperf/test/engines"
	"github.com/bperf/bperf/test/fleet/server"
)

// engine is a server with the HTTP API of Prometheus.
type engine struct {
	t       *testing.T
	address string
}

// job is a part of a configuration: the scrapes of a node.
func (n *node) job() string {
	return fmt.Sprintf(`
scrape_configs:
- job_name: bperf
  scrape_interval: 1s
  scheme: https
  static_configs: [{targets: ['127.0.0.1:%s']}]
  tls_config: {ca_file: %s/ca.crt, cert_file: %[2]s/prometheus.crt, key_file: %[2]s/prometheus.key}
- job_name: stranger
  scrape_interval: 1s
  scheme: https
  static_configs: [{targets: ['127.0.0.1:%[1]s']}]
  tls_config: {ca_file: %[2]s/ca.crt}
`, n.port, n.dir)
}

// release is a release of Prometheus.
type release struct {
	program string
	flags   []string // so that it takes native histograms and, where it can, metrics by OTLP
	global  string   // the same, in its configuration
}

var (
	oldest = release{program: engines.Prometheus, flags: []string{"--enable-feature=native-histograms"}}
	newest = release{program: engines.Prometheus3, flags: []string{"--web.enable-otlp-receiver"}, global: ", scrape_native_histograms: true"}
)

// withEach runs a test with each release of Prometheus.
func withEach(t *testing.T, f func(*testing.T, release)) {
	for _, r := range []release{oldest, newest} {
		t.Run(r.program, func(t *testing.T) { f(t, r) })
	}
}

// start starts a Prometheus with a configuration, without the global part.
func (r release) start(t *testing.T, config string) *engine {
	t.Helper()
	prometheus, err := engines.Get(r.program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "prometheus.yml")
	write(t, path, "global: {evaluation_interval: 1s"+r.global+"}\n"+config)
	s := server.Start(t, exec.Command(prometheus, append(r.flags,
		"--config.file="+path, "--storage.tsdb.path="+t.TempDir(), "--web.listen-address=127.0.0.1:0")...))
	return &engine{t, s.Logged(`msg="Listening on" (?:component=web )?address=(\S+)`)}
}

// series is a part of the result of a query.
type series struct {
	Metric map[string]string
	Value  sample   // of an instant vector
	Values []sample // of a matrix
}

// sample is a time in seconds and a value.
type sample [2]json.RawMessage

// value returns the value of a sample.
func (s sample) value() (v float64, err error) {
	var text string
	if err := json.Unmarshal(s[1], &text); err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// ask evaluates an expression.
func (e *engine) ask(expr string) ([]series, error) {
	response, err := http.Get("http://" + e.address + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result json.RawMessage }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", expr, response.Status, err)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", expr, answer.Error)
	}
	var result []series
	err = json.Unmarshal(answer.Data.Result, &result)
	return result, err
}

// query is like ask, and fails the test with an error.
func (e *engine) query(expr string) []series {
	e.t.Helper()
	result, err := e.ask(expr)
	if err != nil {
		e.t.Fatal(err)
	}
	return result
}

// awaitSeries waits until an expression has n series, and returns them.
func (e *engine) awaitSeries(n int, expr string) (found []series) {
	e.t.Helper()
	server.Await(e.t, expr, func() (missing string) {
		found, missing = e.find(n, expr)
		return missing
	})
	return found
}

// find returns the series of an expression. If they are not n, missing says so.
func (e *engine) find(n int, expr string) (found []series, missing string) {
	found, err := e.ask(expr)
	switch {
	case err != nil:
		return nil, err.Error()
	case len(found) != n:
		return nil, fmt.Sprintf("%d series, not %d: %v", len(found), n, found)
	}
	return found, ""
}

package page

import (
	"bytes"
	_ "embed" // for the script of the test
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/httpd"
	"github.com/bperf/bperf/internal/serve/node"
	"github.com/bperf/bperf/test/require"
)

// probes is the script that runs in the pages before their own.
//
//go:embed testdata/probes.js
var probes string

// visit is a page that the browser opens, and what it does there.
type visit struct {
	path  string
	page  *Page
	snap  func(int) *node.Snapshot
	steps int    // that the page has seen
	probe string // the function of probes.js that runs in the page

	result result
	others []string // paths of requests for something else than the page
}

// result is what a probe sends.
type result struct {
	Seen       []string // by the probe
	Complaints []string // of the browser
	Document   string   // the HTML of the page at the end
}

// tour serves pages to a browser, one visit after the other. Each request for the page is a step later.
type tour struct {
	mu     sync.Mutex
	visits []*visit
	at     int           // the visit that the browser is at
	ended  chan struct{} // closed after the last visit
}

func (s *tour) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == len(s.visits) {
		http.NotFound(w, r)
		return
	}
	v := s.visits[s.at]
	switch r.URL.Path {
	case "/":
		v.steps++
		v.page.add(v.snap(v.steps), nil)
		v.serve(w, r, v.page)
	case "/flamegraph":
		v.serve(w, r, http.HandlerFunc(v.page.FlameGraph))
	case "/probe/report": // in which the browser has the result of the probe as the name of its window
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<script>fetch("/probe/result", { method: "POST", body: window.name }).then(a => a.text()).then(next => { location.href = next; })</script>`))
	case "/probe/result":
		if err := json.NewDecoder(r.Body).Decode(&v.result); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if s.at++; s.at == len(s.visits) {
			close(s.ended)
			break
		}
		_, _ = w.Write([]byte(s.visits[s.at].path)) // where the browser goes next
	case "/favicon.ico":
		http.NotFound(w, r)
	default:
		v.others = append(v.others, r.URL.Path)
		http.NotFound(w, r)
	}
}

// serve answers with the page and the probe in it, which its Content-Security-Policy then allows.
func (v *visit) serve(w http.ResponseWriter, r *http.Request, page http.Handler) {
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, r)
	script := probes + "probe(" + v.probe + ");"
	policy := answer.Header().Get("Content-Security-Policy")
	w.Header().Set("Content-Security-Policy", strings.Replace(policy, "script-src ", "script-src "+httpd.Source(script)+" ", 1))
	w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
	_, _ = w.Write([]byte(strings.Replace(answer.Body.String(), "<head>", "<head><script>"+script+"</script>", 1)))
}

// browse makes Chromium go through the visits. It starts only once, because that takes most of the time.
func browse(t *testing.T, visits ...*visit) {
	t.Helper()
	chromium := require.Browser(t)
	s := &tour{visits: visits, ended: make(chan struct{})}
	server := httptest.NewServer(s)
	defer server.Close()
	dir, err := os.MkdirTemp("", "bperf-browser-")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--no-first-run",
		"--user-data-dir="+filepath.Join(dir, "data"), "--enable-logging=stderr", server.URL+visits[0].path)
	cmd.Stderr, cmd.WaitDelay = &log, time.Minute
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	select {
	case <-s.ended:
	case err = <-exited:
		exited <- err
		err = errors.Join(errors.New("the browser has exited"), err)
	case <-time.After(5 * time.Minute):
		err = errors.New("the probes have not ended in five minutes")
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails if it has exited
	<-exited
	for os.RemoveAll(dir) != nil { // processes of the browser that have not quite ended write files
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		t.Fatalf("visit %d of %d: %v\n%s", s.at, len(visits), err, log.String())
	}
}

// TestBrowser checks in Chromium that the page updates itself, that its Content-Security-Policy lets all of it work, and that hostile names
// do nothing.
func TestBrowser(t *testing.T) {
	own := &visit{path: "/", page: New(Config{Host: "node-1"}), snap: snapshot, probe: "updates"}
	hostile := &visit{path: "/", page: hostilePage(), snap: hostileSnapshot, steps: 3, probe: "update"}
	flames := &visit{path: "/flamegraph?cgroup=101", page: hostilePage(), snap: hostileSnapshot, probe: "nothing"}
	all := []*visit{own, hostile, flames}
	browse(t, all...)
	for i, v := range all {
		if len(v.others) > 0 || len(v.result.Complaints) > 0 {
			t.Errorf("visit %d: requests %q, complaints %q:\n%s", i, v.others, v.result.Complaints, v.result.Document)
		}
	}
	const want = "every 10000 ms; numbers right; 20.0 %: focus p7, in a new element; paused: no request; continued: 30.0 %; selection: no request; after it: 40.0 %"
	if got := strings.Join(own.result.Seen, "; "); got != want {
		t.Errorf("the page was seen to do\n%s\nwant\n%s", got, want)
	}
	if got := strings.Join(hostile.result.Seen, "; "); got != "updated" {
		t.Errorf("hostile names: the page was seen to do %q", got)
	}
	for i, v := range all[1:] {
		document := v.result.Document
		if !strings.Contains(document, "&lt;script&gt;") {
			t.Errorf("hostile visit %d has no hostile name: the test checks nothing:\n%s", i, document)
		}
		if _, title, _ := strings.Cut(document, "<title>"); strings.HasPrefix(title, "owned") || strings.Contains(document, "<img") {
			t.Errorf("hostile visit %d:\n%s", i, document)
		}
	}
}

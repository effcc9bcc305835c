package page

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/serve/node"
	"github.com/bperf/bperf/test/require"
)

// site serves a page to a browser. Each request for the page is a step later.
type site struct {
	page *Page
	snap func(int) *node.Snapshot

	mu       sync.Mutex
	requests []string
	steps    int
	probe    string // a script that is added to the page
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.URL.Path)
	switch r.URL.Path {
	case "/":
		s.steps++
		s.page.add(s.snap(s.steps), nil)
		if s.probe == "" {
			s.page.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		s.page.ServeHTTP(answer, r)
		csp := answer.Header().Get("Content-Security-Policy")
		w.Header().Set("Content-Security-Policy", strings.Replace(csp, "script-src ", "script-src "+source(s.probe)+" ", 1))
		w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		_, _ = w.Write([]byte(strings.Replace(answer.Body.String(), "</body>", "<script>"+s.probe+"</script></body>", 1)))
	case "/flamegraph":
		s.page.FlameGraph(w, r)
	default:
		http.NotFound(w, r)
	}
}

// browse opens a path of the site in Chromium, lets virtual time pass, and returns the document and what the browser complained about.
// Virtual time stands still while the browser waits for an answer, so the result does not depend on the speed of the machine.
func (s *site) browse(t *testing.T, path string, virtual time.Duration) (document, complaints string) {
	t.Helper()
	chromium := require.Browser(t)
	server := httptest.NewServer(s)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(),
		"--enable-logging=stderr", "--virtual-time-budget="+strconv.FormatInt(virtual.Milliseconds(), 10), "--dump-dom", server.URL+path)
	cmd.WaitDelay = 10 * time.Second
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", chromium, err, log.String())
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "CONSOLE") && !strings.Contains(line, "favicon") {
			complaints += line
		}
	}
	return string(out), complaints
}

// others returns the requests for something else than the page itself.
func (s *site) others() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(path string) bool { return path == "/" || path == "/flamegraph" || path == "/favicon.ico" })
}

// TestBrowser checks that the page updates itself, and that its Content-Security-Policy lets all of it work.
func TestBrowser(t *testing.T) {
	s := &site{page: New(Config{Host: "node-1"}), snap: snapshot}
	document, complaints := s.browse(t, "/", 25*time.Second)
	if want := "30.0 %"; !strings.Contains(document, want) || complaints != "" || len(s.others()) > 0 {
		t.Errorf("after two updates, %q is not there; requests %q, console %q:\n%s", want, s.others(), complaints, document)
	}
}

// TestBrowserFocus checks that the focus and the position of the page stay when the page updates itself, that Pause stops the updates, and
// that a selection does.
func TestBrowserFocus(t *testing.T) {
	const probe = `
window.addEventListener("load", function () {
  var seen = [], link = document.getElementById("p7"), cpu = function () { return document.querySelector("td.n").textContent.trim().slice(0, 6); };
  seen.push(getComputedStyle(document.querySelector("td.n")).textAlign);
  link.focus();
  setTimeout(function () {
    seen.push(document.activeElement.id, String(document.activeElement !== link), cpu());
    document.getElementById("pause").click();
  }, 15000);
  setTimeout(function () { seen.push(cpu(), document.getElementById("pause").textContent); document.getElementById("pause").click(); }, 35000);
  setTimeout(function () { seen.push(cpu()); getSelection().selectAllChildren(document.querySelector("dl")); }, 45000);
  setTimeout(function () { seen.push(cpu()); document.body.setAttribute("data-seen", seen.join("; ")); }, 65000);
});`
	s := &site{page: New(Config{Host: "node-1"}), snap: snapshot, probe: probe}
	document, complaints := s.browse(t, "/", 70*time.Second)
	if want := `data-seen="` + focusSeen + `"`; !strings.Contains(document, want) || complaints != "" {
		t.Errorf("the page has no %s; console %q:\n%s", want, complaints, document)
	}
}

// focusSeen is what the probe of TestBrowserFocus sees: the updates at 10 s, when the page continues at 35 s, and at 40 s.
const focusSeen = "right; p7; true; 20.0 %; 20.0 %; Continue; 40.0 %; 40.0 %"

// TestBrowserHostile checks that hostile names do nothing in a browser.
func TestBrowserHostile(t *testing.T) {
	for _, path := range []string{"/", "/flamegraph?cgroup=101"} {
		s := &site{page: hostilePage(), snap: hostileSnapshot, steps: 3}
		document, complaints := s.browse(t, path, 25*time.Second)
		if !strings.Contains(document, "&lt;script&gt;") {
			t.Errorf("%s has no hostile name: the test checks nothing:\n%s", path, document)
		}
		if title := document[strings.Index(document, "<title>"):strings.Index(document, "</title>")]; strings.HasSuffix(title, ">owned") {
			t.Errorf("%s: %s", path, title)
		}
		if strings.Contains(document, "<img") || len(s.others()) > 0 || complaints != "" {
			t.Errorf("%s: requests %q, console %q:\n%s", path, s.others(), complaints, document)
		}
	}
}

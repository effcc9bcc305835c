package profiles

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	pprof "github.com/google/pprof/profile"

	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/test/require"
)

// serving serves a Pull. ended gets a value when a request for a profile has been answered.
func serving(t *testing.T, p *Pull) (url string, ended <-chan struct{}) {
	t.Helper()
	answered := make(chan struct{}, 100)
	noted := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { answered <- struct{}{} }()
			h.ServeHTTP(w, r)
		})
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/pprof/{$}", p.Index())
	mux.Handle("/debug/pprof/profile", noted(p.Profile()))
	mux.Handle("/debug/pprof/offcpu", noted(p.OffCPU()))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL, answered
}

// connection is the connection of a request, which notes its time limits.
type connection struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (c *connection) SetReadDeadline(at time.Time) error  { c.read = at; return nil }
func (c *connection) SetWriteDeadline(at time.Time) error { c.write = at; return nil }

// TestTimeLimits has a server with time limits for short requests, which would cut off a profile.
func TestTimeLimits(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	c := &connection{ResponseRecorder: httptest.NewRecorder()}
	before := time.Now()
	NewPull(PullConfig{}).OffCPU().ServeHTTP(c, httptest.NewRequest(http.MethodGet, "/debug/pprof/offcpu?seconds=1", nil))
	if c.Code != http.StatusOK {
		t.Errorf("status %d: %s", c.Code, c.Body)
	}
	after := time.Now() // at least a second later
	for what, limit := range map[string]struct {
		at    time.Time
		grace time.Duration
	}{"reading the request": {c.read, Grace}, "writing the answer": {c.write, reading}} {
		least, most := before.Add(time.Second+limit.grace), after.Add(limit.grace)
		if limit.at.Before(least) || limit.at.After(most) {
			t.Errorf("the time limit of %s is %v, want one from %v to %v", what, limit.at, least, most)
		}
	}
}

func get(t *testing.T, url string) (*http.Response, []byte) {
	t.Helper()
	r, err := http.Get(url)
	check(t, err)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	check(t, err)
	return r, body
}

// TestRefused has requests that are answered without a session.
func TestRefused(t *testing.T) {
	require.NoKernel(t)
	url, _ := serving(t, NewPull(PullConfig{MostSeconds: 20, MostFrequency: 500}))
	for _, tt := range []struct {
		path string
		want string // part of the answer
	}{
		{"profile?seconds=0", `seconds="0": it is a whole number from 1 to 20`},
		{"profile?seconds=21", "from 1 to 20"},
		{"profile?seconds=-1", "from 1 to 20"},
		{"profile?seconds=1.5", "from 1 to 20"},
		{"profile?seconds=99999999999999999999", "from 1 to 20"},
		{"profile?seconds=1&seconds=2", "seconds is given 2 times"},
		{"profile?second=1", `unknown parameter "second"`},
		{"profile?frequency=501", "frequency=\"501\": it is a whole number from 1 to 500"},
		{"profile?%zz", "cannot be parsed"},
		{"profile?container=" + strings.Repeat("a", 257), "container has 257 bytes"},
		{"profile?event=" + strings.Repeat("a", 257), "event has 257 bytes"},
		{"profile?event=nosuch", "nosuch"},
		{"profile?event=cpu-clock,page-faults", "that is 2 events"},
		{"profile?event=%1b%5d0x%07", `'\x1b' is no part of an event's name`},
		{"profile?event=../../etc/passwd", "event"},
		{"profile?event=@/tmp/x.o", `'@' is no part`},
		{"profile?event=%7bcpu-clock%7d", "'{' is no part"},
		{"profile?event=mem:0x1000", "breakpoints"},
		{"profile?event=duration_time", "cannot be sampled"},
		{"profile?event=cpu-clock:D", "take counters from others"},
		{"profile?event=cpu-clock:b", "the modifier b"},
		{"profile?event=cpu-clock/call-graph%3dfp/", "only terms that select"},
		{"offcpu?event=cpu-clock", `unknown parameter "event"`},
		{"offcpu?seconds=x", "from 1 to 20"},
	} {
		r, body := get(t, url+"/debug/pprof/"+tt.path)
		if r.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), tt.want) || len(body) > 1000 {
			t.Errorf("%.60s: %s %s, want %s", tt.path, r.Status, body, tt.want)
		}
		if kind := r.Header.Get("Content-Type"); kind != "text/plain; charset=utf-8" || r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%.60s: %v", tt.path, r.Header)
		}
	}
	r, err := http.Post(url+"/debug/pprof/profile", "text/plain", strings.NewReader("x"))
	check(t, err)
	r.Body.Close()
	if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET" {
		t.Errorf("POST: %s %v", r.Status, r.Header)
	}
	if r, body := get(t, url+"/debug/pprof/"); r.StatusCode != http.StatusOK || !strings.Contains(string(body), "\nprofile\t") {
		t.Errorf("index: %s %s", r.Status, body)
	}
}

// pull asks for a profile and parses it.
func pull(t *testing.T, url string) *pprof.Profile {
	t.Helper()
	r, body := get(t, url)
	if r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s", url, r.Status, body)
	}
	kind, as := r.Header.Get("Content-Type"), r.Header.Get("Content-Disposition")
	if kind != "application/octet-stream" || !strings.HasPrefix(as, "attachment; filename=") {
		t.Errorf("%v", r.Header)
	}
	p, err := pprof.Parse(bytes.NewReader(body))
	check(t, err)
	return p
}

// cgroups returns the number of samples by cgroup.
func cgroups(p *pprof.Profile) map[string]int64 {
	of := map[string]int64{}
	for _, s := range p.Sample {
		of[strings.Join(s.Label["cgroup"], ",")] += s.Value[0]
	}
	return of
}

// TestPull asks for profiles of a pod that uses a CPU, of another one that does not, and of everything.
func TestPull(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	all, find := pods(t, "busy", "lazy")
	url, _ := serving(t, NewPull(PullConfig{Container: find}))
	url += "/debug/pprof/"
	busy := all[0].newLoad(t, time.Hour)
	busy.start()
	p := pullUntil(t, url+"profile?seconds=1&frequency=499&container="+all[0].ID[:12], all[0].Path)
	if of := cgroups(p); len(of) != 1 {
		t.Errorf("%v", of)
	}
	if p.DurationNanos < int64(time.Second) || p.TimeNanos == 0 || p.DefaultSampleType != "cpu" || p.Period != int64(time.Second)/499 {
		t.Errorf("%d ns from %d, %s, period %d", p.DurationNanos, p.TimeNanos, p.DefaultSampleType, p.Period)
	}
	if !require.IsGuest() || require.Long() { // a guest takes five seconds for each
		pullMore(t, url, all)
	}
	all[1].newLoad(t, time.Hour) // it waits for its standard input
	pullUntil(t, url+"offcpu?seconds=1&container=main&pod=lazy", all[1].Path)
}

// pullMore asks for profiles of the pods of TestPull in other ways.
func pullMore(t *testing.T, url string, all []pod) {
	t.Helper()
	if of := cgroups(pullUntil(t, url+"profile?seconds=1&pod=uid-busy&namespace=tests&event=task-clock", all[0].Path)); len(of) != 1 {
		t.Errorf("%v", of)
	}
	if of := cgroups(pull(t, url+"profile?seconds=1&pod=lazy")); len(of) != 0 {
		t.Errorf("the lazy pod has samples: %v", of)
	}
	pullUntil(t, url+"profile?seconds=1", all[0].Path)
	off := pull(t, url+"offcpu?seconds=1&pod=lazy")
	if of := cgroups(off); len(of) != 0 || off.DefaultSampleType != "offcpu-time" {
		t.Errorf("the lazy pod has waited: %v, %s", of, off.DefaultSampleType)
	}
}

// pullUntil asks for profiles until one has samples of the cgroup: on a busy machine a process may not run for a second.
func pullUntil(t *testing.T, url, cgroup string) *pprof.Profile {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; {
		p := pull(t, url)
		of := cgroups(p)
		if of[cgroup] > 0 {
			return p
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: no samples of %s in five minutes, but %v", url, cgroup, of)
		}
	}
}

// TestGoTool makes go tool pprof ask for a profile.
func TestGoTool(t *testing.T) {
	require.Root(t)
	require.Tools(t, "go")
	all, find := pods(t, "busy")
	url, _ := serving(t, NewPull(PullConfig{Container: find}))
	all[0].newLoad(t, time.Hour).start()
	profile := url + "/debug/pprof/profile?seconds=1&frequency=499&pod=busy"
	for deadline := time.Now().Add(5 * time.Minute); ; { // on a busy machine a process may not run for a second
		cmd := exec.Command("go", "tool", "pprof", "-timeout", "300", "-top", profile)
		cmd.Env = append(cmd.Environ(), "PPROF_TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err == nil && strings.Contains(string(out), ".spin") && strings.Contains(string(out), "Type: cpu") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	cmd := exec.Command("go", "tool", "pprof", "-top", url+"/debug/pprof/profile?seconds=1&event=nosuch")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "nosuch") || !strings.Contains(string(out), "event: ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestLimit asks for more profiles than are taken at the same time, then goes away: the sessions end, and there is room for others.
func TestLimit(t *testing.T) {
	require.AnyArch(t)
	require.Root(t)
	before := state(t)
	const most = 2
	p := NewPull(PullConfig{MostSessions: most, MostSeconds: 3600})
	url, ended := serving(t, p)
	ctx, leave := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for range most {
		clients.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/debug/pprof/profile?seconds=3600", nil)
			if err != nil {
				t.Error(err)
				return
			}
			if answer, err := http.DefaultClient.Do(r); err == nil {
				t.Errorf("%s", answer.Status)
				answer.Body.Close()
			}
		})
	}
	deadline := time.Now().Add(2 * time.Minute)
	for len(p.sessions) < most || state(t).programs < before.programs+most { // both have begun, and one samples at least
		if time.Sleep(time.Millisecond); time.Now().After(deadline) {
			t.Fatal("the sessions have not begun in two minutes")
		}
	}
	r, body := get(t, url+"/debug/pprof/offcpu?seconds=7")
	refused := r.StatusCode == http.StatusServiceUnavailable && r.Header.Get("Retry-After") == "7"
	if !refused || !strings.Contains(string(body), "2 profiles are being taken") {
		t.Errorf("%s %v %s", r.Status, r.Header, body)
	}
	<-ended
	leave()
	clients.Wait()
	for range most { // else the test would wait for an hour
		<-ended
	}
	if got := state(t); got != before {
		t.Errorf("left: %+v, before %+v", got, before)
	}
	pull(t, url+"/debug/pprof/profile?seconds=1")
}

// TestFilter matches containers.
func TestFilter(t *testing.T) {
	n := container.Name{ID: strings.Repeat("a0", 32), PodUID: "uid-web", Namespace: "tests", Pod: "web", Container: "main"}
	for f, want := range map[Filter]bool{
		{}:                                      true,
		{Container: n.ID}:                       true,
		{Container: n.ID[:6]}:                   true,
		{Container: "main"}:                     true,
		{Container: "mai"}:                      false,
		{Pod: "web"}:                            true,
		{Pod: "uid-web", Namespace: "tests"}:    true,
		{Pod: "we"}:                             false,
		{Namespace: "other", Container: "main"}: false,
	} {
		if got := f.Matches(&n); got != want {
			t.Errorf("%+v: %v", f, got)
		}
	}
}

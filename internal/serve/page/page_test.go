package page

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bperf/bperf/internal/count/process"
	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/internal/serve/budget"
	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/serve/node"
	"github.com/bperf/bperf/internal/serve/profiles"
	"github.com/bperf/bperf/internal/serve/push"
	"github.com/bperf/bperf/internal/serve/remote"
	"github.com/bperf/bperf/test/golden"
)

var start = time.Date(2026, 2, 3, 4, 5, 0, 0, time.UTC)

// cart is a container of a pod.
var cart = container.Name{
	Cgroup: 7, Path: "/kubepods.slice/x.scope", ID: strings.Repeat("ab", 32), PodUID: "d9b2d63d-a233-4123-847a-8fa2fbd4c6a1",
	Namespace: "shop", Pod: "cart-0", Container: "cart",
}

// snapshot returns the counts after n steps of 10 s, in which the container cart took n seconds more CPU time each.
func snapshot(n int) *node.Snapshot {
	steps, sum := uint64(n), uint64(n*(n+1)/2)
	reading := func(value uint64) perfevent.Reading {
		return perfevent.Reading{Value: value, Enabled: 1e9 * (sum + 1), Running: 1e9 * (sum + 1)}
	}
	shared := perfevent.Reading{Value: 5e5 * steps, Enabled: 4e9 * steps, Running: 1e9 * steps}
	readings := func(by uint64) []perfevent.Reading {
		return []perfevent.Reading{reading(2e9 * sum * by), reading(3e9 * sum * by), shared, {}, reading(40 * steps * by)}
	}
	window := time.Duration(n) * time.Second
	return &node.Snapshot{
		Time: start.Add(time.Duration(n) * every),
		Events: []node.Event{{Name: "cycles"}, {Name: "instructions"}, {Name: "cache-misses"},
			{Name: "nosuch", Reason: "nosuch: this CPU has no such event"}, {Name: "page-faults"}},
		CPUs: []node.CPU{{Number: 0, Readings: readings(1)}, {Number: 3, Readings: readings(2)}},
		Containers: []node.Container{
			{Name: container.Name{Cgroup: 8, Path: "/system.slice/cron.service"}, CPUTime: window / 100, Switches: 20 * steps},
			{Name: cart, CPUTime: time.Duration(sum) * time.Second, Switches: 12345 * steps, Readings: readings(1),
				OffCPU: [process.Reasons]time.Duration{process.Runnable: window / 4, process.Sleeping: 30 * window, process.Blocked: window / 100}},
			{Name: container.Name{Cgroup: 9, ID: strings.Repeat("cd", 32)}, Ended: true},
		},
		Programs: []node.Program{
			{ID: 12, Name: "bperf_switch", Type: "tracing", Tag: "0123456789abcdef", Runs: 1000 * steps, Time: window / 1000, Window: window},
			{ID: 11, Name: "drop", Type: "xdp", Tag: "fedcba9876543210", Runs: 1e6 * steps, Time: window / 10, Window: window},
			{ID: 13, Name: "idle", Type: "kprobe", Tag: "aaaaaaaaaaaaaaaa", Window: window},
		},
		NotShared: "another bperf of version 1 has the counters",
		Losses:    []node.Loss{{What: "cgroup_switches", Count: 3}, {What: "cgroup_nanoseconds"}},
		Self: node.Self{CPUTime: 25 * time.Millisecond * time.Duration(n), Memory: 40 << 20, Unfiled: 22 << 20, Window: window,
			Programs: map[string]time.Duration{"bperf_switch": window / 1000}},
	}
}

// pushes has a server that works and one that does not.
func pushes() []push.Stats {
	good := push.Stats{Kind: "otlp", URL: "https://collector:4318", Accepted: 1200, Bytes: 3 << 20, Limit: 8 << 20, LastSuccess: start}
	bad := push.Stats{Kind: "pyroscope", URL: "https://pyroscope:4040", Waiting: 3, WaitingBytes: 1 << 20, Limit: 8 << 20,
		LastError: "dial tcp: connection refused", LastFailure: start.Add(time.Minute)}
	bad.Dropped[push.Full] = push.Drop{Items: 42, Requests: 2, Bytes: 1000}
	return []push.Stats{good, bad}
}

// status returns a budget that is not exceeded any more.
func status() *budget.Status {
	return &budget.Status{Level: 4, All: budget.Plan{Frequency: 19, Events: 6, Profile: true}, Plan: budget.Plan{Frequency: 2, Events: 3, Profile: true},
		Why: "at 04:04:00 UTC bperf took 1.20 % of the CPU time (the budget is 1 %)", Process: budget.Known(0.004), Programs: budget.Known(0.0012), Sessions: budget.Known(0.0003),
		Memory: budget.Known(70 << 20), Limits: budget.Limits{CPU: 0.01, Memory: 64 << 20}}
}

// doctor has a feature in each state.
func doctor() *kernel.Report {
	return &kernel.Report{CanCount: true, Findings: []kernel.Finding{{Feature: "count own threads", State: kernel.Works, Detail: "yes"},
		{Feature: "bpffs", State: kernel.Missing, Detail: "it is not mounted", Remedy: "Mount it: mount -t bpf bpf /sys/fs/bpf"},
		{Feature: "capabilities", State: kernel.Limited, Detail: "not CAP_SYS_RESOURCE"}}}
}

// sessions has a session that runs, and some that have ended.
func sessions() remote.Stats {
	return remote.Stats{Longest: 10 * time.Minute, Bytes: 256 << 20, Started: map[string]uint64{"stat": 4, "record": 1},
		Ended: map[string][remote.Outcomes]uint64{"stat": {remote.Succeeded: 2, remote.Gone: 2}}, Refused: 3, CPUTime: 1500 * time.Millisecond,
		Running: []remote.Running{{Client: "10.0.0.1:4711 certificate ana", Command: "record", Args: "--event=cycles", Begin: start, Sent: 3 << 20}}}
}

// window returns a profile with one sample of a container.
func window(of container.Name, function string) *profiles.Window {
	return windowAt(start, of, function)
}

func windowAt(start time.Time, of container.Name, function string) *profiles.Window {
	p := profile.New(profile.Comm | profile.Cgroup)
	p.Info = profile.Info{Hostname: "node-1", Start: start, Duration: 15 * time.Second}
	p.Events = []profile.Event{{Name: "cpu-clock", Unit: "ns"}}
	id := p.Strings.ID
	module := p.Modules.ID(profile.Module{Name: id("server"), Path: id("/usr/bin/server")})
	leaf := p.Frame(profile.Frame{Function: p.Functions.ID(profile.Function{Name: id(function), Module: module, End: 16}), Module: module, Kind: profile.User})
	p.Add(profile.Sample{Labels: p.Label(profile.Labels{Comm: id("server"), Cgroup: id(of.Path)}), Leaf: leaf,
		Stack: p.Stacks.ID([]profile.FrameID{leaf}), Count: 1, Value: 1e6})
	return &profiles.Window{Start: start, Duration: 15 * time.Second, Profile: p, Parts: []profiles.Part{{Name: of, Profile: p}}}
}

// pageOf returns a page that has seen the first steps.
func pageOf(steps int, snap func(int) *node.Snapshot, w *profiles.Window) *Page {
	p := New(Config{Host: "node-1", Version: "1.2.3", Budget: status, Doctor: doctor, Sessions: sessions, Pushes: pushes, Windows: func() ([]*profiles.Window, error) {
		if w == nil {
			return nil, errors.New("no room")
		}
		return []*profiles.Window{w}, nil
	}})
	for n := 1; n <= steps; n++ {
		p.add(snap(n), nil)
	}
	return p
}

// get returns the body of an answer, after checks of its status and headers.
func get(t *testing.T, h http.Handler, target string, status int) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	if w.Code != status {
		t.Fatalf("%s: status %d, want %d:\n%s", target, w.Code, status, w.Body)
	}
	if csp := w.Header().Get("Content-Security-Policy"); status == http.StatusOK &&
		(!strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp[strings.Index(csp, "script-src"):], "unsafe")) {
		t.Errorf("%s: Content-Security-Policy: %s", target, csp)
	}
	return w.Body.String()
}

func TestGolden(t *testing.T) {
	for _, test := range []struct {
		name string
		page *Page
	}{
		{"full", pageOf(5, snapshot, window(cart, "main.work"))},
		{"first", pageOf(1, snapshot, nil)},
		{"starting", New(Config{})},
		{"little", pageOf(2, func(n int) *node.Snapshot {
			return &node.Snapshot{Time: start.Add(time.Duration(n) * every), NoContainers: "cgroup v2 is not mounted", NoPrograms: "CAP_SYS_ADMIN is missing"}
		}, nil)},
	} {
		got := get(t, test.page, "/", http.StatusOK)
		main := got[strings.Index(got, "<main>"):strings.Index(got, "<script>")]
		golden.Compare(t, "testdata/"+test.name+".html", main)
	}
}

// TestFailure checks that the page says when counts are old, and that a failure leaves the history alone.
func TestFailure(t *testing.T) {
	p := pageOf(3, snapshot, nil)
	p.add(nil, errors.New("no <counts>"))
	if got := get(t, p, "/", http.StatusOK); !strings.Contains(got, "The counts could not be read: no &lt;counts&gt;") || !strings.Contains(got, "cart-0") {
		t.Errorf("the page is\n%s", got)
	}
	p.add(snapshot(4), nil)
	if got := get(t, p, "/", http.StatusOK); strings.Contains(got, "could not be read") || !strings.Contains(got, "40.0 %") {
		t.Errorf("the page is\n%s", got)
	}
}

// TestHistory checks that the history keeps its limits, forgets those that are gone, and that counts which begin anew leave a gap.
func TestHistory(t *testing.T) {
	many := func(first, n int) *node.Snapshot {
		s := snapshot(first + 1)
		s.Containers = nil
		for i := range n {
			s.Containers = append(s.Containers, node.Container{Name: container.Name{Cgroup: uint64(first*10000 + i), Path: fmt.Sprint("/", i)}})
		}
		return s
	}
	p := New(Config{})
	for i := range points + 5 {
		p.add(many(i, 1000), nil)
	}
	if n := len(p.past.tracks); n != mostTracks {
		t.Errorf("%d tracks", n)
	}
	if got, most := p.past.bytes(), (mostTracks*measures+6)*points*4; got != most {
		t.Errorf("the history has %d bytes, want %d", got, most)
	}
	if got := get(t, p, "/", http.StatusOK); !strings.Contains(got, "Left out: 744 containers") || len(got) > 1<<20 {
		t.Errorf("a page of 1000 containers has %d bytes", len(got))
	}
	p.add(many(500, 1), nil)
	if n := len(p.past.tracks); n != 1 {
		t.Errorf("%d tracks of one container", n)
	}

	p = pageOf(5, snapshot, nil)
	again := snapshot(1)
	again.Time = start.Add(6 * every)
	p.add(again, nil)
	if r := p.last.rows; r[1].Cgroup != cart.Cgroup || !isNaN(r[1].rates[cpuTime].value) || !isNaN(p.last.own.value) || !isNaN(p.last.events[0].value) {
		t.Errorf("after counts began anew: %v", r)
	}
	if got := get(t, p, "/", http.StatusOK); !strings.Contains(got, "<span>–</span><svg") || strings.Contains(got, "NaN") {
		t.Errorf("after counts began anew:\n%s", got)
	}
	p.add(&node.Snapshot{Events: []node.Event{{Name: "other"}}}, nil)
	if len(p.past.tracks) != 0 || len(p.past.events) != 1 {
		t.Error("the history of other events stayed")
	}
}

// TestEventsUsed checks that only events of the same modes are divided by each other.
func TestEventsUsed(t *testing.T) {
	events := func(names ...string) (all []node.Event) {
		for _, name := range names {
			name, reason, _ := strings.Cut(name, "!")
			all = append(all, node.Event{Name: name, Reason: reason})
		}
		return all
	}
	for _, test := range []struct {
		events []node.Event
		want   uses
	}{
		{events("faults", "cpu-cycles", "instructions", "cache-misses"), uses{1, 2, 3, 0}},
		{events("cycles", "cycles:u", "instructions:u", "cache-misses"), uses{1, 2, -1, -1}},
		{events("cycles", "instructions!no PMU", "page-faults!none"), uses{-1, -1, -1, -1}},
	} {
		if got := eventsUsed(test.events); got != test.want {
			t.Errorf("%v: %v, want %v", test.events, got, test.want)
		}
	}
}

// hostile is a name that would be an element, an attribute, or another letter.
const hostile = "\"><script>document.title='owned'</script><img src=/owned onerror=alert(1)>'`&\x1b[31m\x00\xff\u202e\n"

// hostileSnapshot has hostile text wherever text of others can be.
func hostileSnapshot(n int) *node.Snapshot {
	s := snapshot(n)
	long := hostile + strings.Repeat("é", 5000)
	s.Events = append(s.Events[:len(s.Events):len(s.Events)], node.Event{Name: hostile}, node.Event{Name: "no" + hostile, Reason: long})
	s.Containers = append(s.Containers,
		node.Container{Name: container.Name{Cgroup: 100, Path: "/" + long, ID: long, Namespace: hostile, Pod: long, Container: hostile, PodUID: hostile}},
		node.Container{Name: container.Name{Cgroup: 101, Path: long}})
	s.Programs = append(s.Programs, node.Program{ID: 1, Name: hostile, Type: hostile, Tag: hostile, Runs: 1, Time: 1, Window: time.Second})
	s.NoContainers, s.NoPrograms, s.NotShared = long, long, long
	s.Losses = append(s.Losses, node.Loss{What: hostile, Count: 1})
	s.Self.Programs = map[string]time.Duration{hostile: 1}
	return s
}

// hostilePage has hostile text of each source.
func hostilePage() *Page {
	p := pageOf(3, hostileSnapshot, window(container.Name{Cgroup: 101, Path: hostile}, hostile))
	p.config.Host, p.config.Version = hostile, hostile
	p.config.Pushes = func() []push.Stats { return []push.Stats{{Kind: hostile, URL: hostile, LastError: hostile}} }
	p.config.Doctor = func() *kernel.Report {
		return &kernel.Report{Findings: []kernel.Finding{{Feature: hostile, State: hostile, Detail: hostile, Remedy: hostile}}}
	}
	p.config.Sessions = func() remote.Stats {
		return remote.Stats{Running: []remote.Running{{Client: hostile, Command: hostile, Args: hostile}}}
	}
	p.config.Budget = func() *budget.Status { return &budget.Status{Level: 1, Why: hostile} }
	p.failure = errors.New(hostile)
	return p
}

// tags are those that the pages have, with their attributes in double quotes.
var (
	tags = regexp.MustCompile(`^/?(!DOCTYPE|html|head|meta|noscript|title|style|body|header|h1|h2|p|button|span|main|time|nav|a|dl|dt|dd|small|bdi|code|br|` +
		`table|thead|tbody|tr|th|td|svg|path|div|ul|li|script|section|label|input|g|rect|text|strong)$`)
	attribute = regexp.MustCompile(`^ ([a-zA-Z-]+)(?:="([^"]*)")?`)
)

// TestHostile reads the pages as browsers do: hostile names make no element and no attribute, and no control character is left of them.
func TestHostile(t *testing.T) {
	p := hostilePage()
	for _, body := range []string{
		get(t, p, "/", http.StatusOK),
		get(t, http.HandlerFunc(p.FlameGraph), "/flamegraph", http.StatusOK),
		get(t, http.HandlerFunc(p.FlameGraph), "/flamegraph?cgroup=101", http.StatusOK),
	} {
		if !strings.Contains(body, "&lt;script&gt;") {
			t.Fatal("the page has no hostile name: the test checks nothing")
		}
		if bad := regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f]").FindString(body); bad != "" || !utf8.ValidString(body) || len(body) > 100_000 {
			t.Errorf("the page of %d bytes has %q", len(body), bad)
		}
		for _, own := range []string{style, script, report.PageScript()} {
			body = strings.Replace(body, own, "", 1)
		}
		body = regexp.MustCompile(`(?s)<style>[^<]*</style>`).ReplaceAllString(body, "")
		if n := strings.Count(body, "<script"); n != 1 {
			t.Errorf("the page has %d scripts", n)
		}
		for _, tag := range strings.Split(body, "<")[1:] {
			tag, _, _ = strings.Cut(tag, ">")
			name, rest, _ := strings.Cut(strings.TrimSuffix(tag, "/"), " ")
			if !tags.MatchString(name) {
				t.Errorf("the page has <%s>", tag)
			}
			for rest = " " + rest; strings.TrimSpace(rest) != "" && name != "!DOCTYPE"; {
				m := attribute.FindStringSubmatch(rest)
				if m == nil || strings.HasPrefix(m[1], "on") || m[1] == "src" || m[1] == "href" && !strings.HasPrefix(m[2], "#") && !strings.HasPrefix(m[2], "/") {
					t.Errorf("the page has <%s>", tag)
					break
				}
				rest = rest[len(m[0]):]
			}
		}
	}
}

func TestFlameGraph(t *testing.T) {
	p := pageOf(1, snapshot, window(cart, "main.work"))
	flames := http.HandlerFunc(p.FlameGraph)
	if got := get(t, flames, "/flamegraph", http.StatusOK); !strings.Contains(got, "main.work") || !strings.Contains(got, "<h1>Profile of node-1, 2026") {
		t.Errorf("of the node:\n%s", got)
	}
	if got := get(t, flames, "/flamegraph?cgroup=7", http.StatusOK); !strings.Contains(got, "main.work") || !strings.Contains(got, "<h1>Profile of shop/cart-0/cart on") {
		t.Errorf("of a container:\n%s", got)
	}
	none := http.HandlerFunc(New(Config{}).FlameGraph)
	failed := http.HandlerFunc(pageOf(1, snapshot, nil).FlameGraph)
	for _, test := range []struct {
		h      http.Handler
		target string
		status int
		want   string
	}{
		{flames, "/flamegraph?cgroup=8", http.StatusNotFound, "cgroup 8 has no samples"},
		{flames, "/flamegraph?cgroup=0", http.StatusNotFound, "cgroup 0 has no samples"},
		{flames, "/flamegraph?cgroup=" + strings.Repeat("1", 50), http.StatusBadRequest, "is not the number of a cgroup"},
		{flames, "/flamegraph?cgroup=%00", http.StatusBadRequest, "is not the number of a cgroup"},
		{none, "/flamegraph", http.StatusNotFound, "no profile is taken"},
		{flames, "/flamegraph?diff", http.StatusServiceUnavailable, "no earlier profile"},
		{failed, "/flamegraph", http.StatusServiceUnavailable, "no room"},
	} {
		if got := get(t, test.h, test.target, test.status); !strings.Contains(got, test.want) {
			t.Errorf("%s: %s", test.target, got)
		}
	}
}

// TestBudget checks what the page says of a budget.
func TestBudget(t *testing.T) {
	for _, test := range []struct {
		status *budget.Status
		want   []string
	}{
		{&budget.Status{Limits: budget.Limits{CPU: 0.005}}, []string{"not measured yet, of 0.5 % of all CPUs", "not measured yet, no limit",
			"<dt>Given up for it</dt><dd>nothing</dd>"}},
		{&budget.Status{Process: budget.Known(0.02), Memory: budget.Known(1 << 20), Limits: budget.Limits{CPU: 0.01}}, []string{
			`class="bar over"`, `<rect width="100.0" height="10"/></svg>2.00 of 1 % of all CPUs <small>the process 2.00 %</small>`, "1.0 MiB, no limit"}},
		{&budget.Status{Level: 9, All: budget.Plan{Frequency: 19, Events: 2, Profile: true}, Plan: budget.Plan{Events: 1}, Why: "a & b"}, []string{
			"the profile; events: the first 1 of 2 are counted</strong> <small>level 9: a &amp; b<"}},
	} {
		p := pageOf(2, snapshot, nil)
		p.config.Budget = func() *budget.Status { return test.status }
		got := get(t, p, "/", http.StatusOK)
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("the page of %+v has no %s:\n%s", test.status, want, got)
			}
		}
	}
}

// TestComparison compares the last window with the oldest one.
func TestComparison(t *testing.T) {
	at := func(back time.Duration, of container.Name, function string) *profiles.Window {
		return windowAt(start.Add(-back), of, function)
	}
	other := container.Name{Cgroup: 8, Path: "/other"}
	last := at(0, cart, "main.now")
	for _, test := range []struct {
		earlier []*profiles.Window // the oldest first
		target  string
		status  int
		want    string
	}{
		{[]*profiles.Window{at(5*time.Minute, cart, "main.then"), at(time.Minute, cart, "main.late")},
			"/flamegraph?diff", http.StatusOK, "Compared with the profile of 2026-02-03 04:00:00 UTC"},
		{[]*profiles.Window{at(2*time.Minute, cart, "main.old"), at(time.Minute, cart, "main.late")},
			"/flamegraph?cgroup=7&diff", http.StatusOK, "Compared with the profile of 2026-02-03 04:03:00 UTC"},
		{[]*profiles.Window{at(5*time.Minute, other, "main.old")}, "/flamegraph?cgroup=7&diff", http.StatusNotFound,
			"cgroup 7 has no samples in the profile of 04:00:00 to 04:00:15 UTC"},
	} {
		p := pageOf(2, snapshot, nil)
		p.config.Windows = func() ([]*profiles.Window, error) { return append(test.earlier, last), nil }
		if got := get(t, http.HandlerFunc(p.FlameGraph), test.target, test.status); !strings.Contains(got, test.want) {
			t.Errorf("%s: %.2000s", test.target, got)
		}
		got := get(t, p, "/", http.StatusOK)
		hasLink := strings.Contains(got, `<a id="d7" href="/flamegraph?cgroup=7&amp;diff">`)
		if hasLink != (test.status == http.StatusOK) || !strings.Contains(got, `<a id="flames-diff" href="/flamegraph?diff">`) {
			t.Errorf("link of the container %v:\n%s", hasLink, got)
		}
	}
}

func TestShort(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 0.001: "0.00", 1: "1.00", 9.996: "10.0", 99.96: "100", 999.4: "999", 999.6: "1.00 k", 12345: "12.3 k",
		3e9: "3.00 G", 5e15: "5 P"} {
		if got := short(f); got != want {
			t.Errorf("%v: %s, want %s", f, got, want)
		}
	}
}

// BenchmarkDraw draws a page of 110 containers with a full history.
func BenchmarkDraw(b *testing.B) {
	p := New(Config{})
	for n := range points + 2 {
		s := snapshot(n)
		c := s.Containers[1]
		for i := range 110 {
			c.Cgroup = uint64(1000 + i)
			s.Containers = append(s.Containers, c)
		}
		p.add(s, nil)
	}
	var size int
	for b.Loop() {
		size = len(p.draw())
	}
	b.ReportMetric(float64(size), "bytes/page")
}

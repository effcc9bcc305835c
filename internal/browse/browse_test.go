package browse

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/annotate"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/report"
)

// hostile is a name that would do something on a page that does not escape it.
const hostile = `<script>document.title="owned"</script>"'&<img src=x onerror=alert(1)>`

// invented returns a profile of n samples, one each millisecond from 1 s on: of two events, two processes with two threads each, and two
// functions below main.
func invented(keep profile.Keys, n int) *profile.Profile {
	p := profile.New(keep)
	p.Events = []profile.Event{{Name: "cpu-clock", Unit: "ns"}, {Name: hostile}, {Name: "never"}}
	p.Info.Command = []string{hostile}
	id := p.Strings.ID
	module := p.Modules.ID(profile.Module{Name: id("server" + hostile)})
	frame := func(name string, start uint64) profile.FrameID {
		f := p.Functions.ID(profile.Function{Name: id(name), Module: module, Start: start, End: start + 0x100})
		return p.Frame(profile.Frame{Function: f, Module: module, Address: start + 8, Kind: profile.User})
	}
	main := frame("main", 0x1000)
	leaves := []profile.FrameID{frame("one", 0x2000), frame(hostile, 0x3000)}
	for i := range n {
		leaf := leaves[i/4%2]
		thread := i % 4
		p.Add(profile.Sample{Event: uint32(i / 8 % 2), Labels: p.Label(profile.Labels{Comm: id("comm" + hostile), PID: int32(10 + 10*(thread/2)), TID: int32(10 + 5*thread)}),
			Leaf: leaf, Stack: p.Stacks.ID([]profile.FrameID{leaf, main}), Time: 1e9 + int64(i)*1e6, Count: 1, Value: 1000})
	}
	return p
}

// code is the annotation of an invented function.
func code(_ profile.ModuleID, s replay.Symbol, e annotate.Event, at map[uint64]annotate.Value) (*annotate.Function, error) {
	f := &annotate.Function{Name: s.Name, Module: hostile, Values: make([]annotate.Value, 1), Note: hostile}
	for _, v := range at {
		f.Values[0].Samples += v.Samples
		f.Values[0].Value += v.Value
		v.Percent = 100
		f.Instructions = append(f.Instructions, annotate.Instruction{Text: hostile, Target: hostile, Values: []annotate.Value{v},
			Source: &annotate.Line{File: hostile, Number: 7, Text: hostile}})
	}
	f.Values[0].Percent = 100 * float64(f.Values[0].Value) / float64(e.Value)
	return f, nil
}

func browser(t *testing.T, c Config) *Browser {
	t.Helper()
	if c.Options == nil {
		c.Options = &report.Options{}
	}
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func get(t *testing.T, h http.Handler, path string) (status int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

// TestSelections checks the sums of selections, and that wrong ones are refused.
func TestSelections(t *testing.T) {
	b := browser(t, Config{Profile: invented(Keys, 800), Name: hostile, Code: code, Base: invented(profile.Comm, 100), BaseName: hostile})
	for _, test := range []struct {
		query string
		want  string // of the graph: the number of samples; or the beginning of an error, or another text
	}{
		{"", "cpu-clock: 400 samples"},
		{"e=0&pid=10", "cpu-clock: 200 samples"},
		{"e=0&tid=25", "cpu-clock: 100 samples"},
		{"pid=20&tid=25&from=0.4", "cpu-clock: 50 samples"},
		{"from=0&to=0.007", "cpu-clock: 8 samples"},
		{"from=0.003&to=0.003", "cpu-clock: 1 samples"},
		{"from=0.0031&to=0.0039", "no samples in this selection"},
		{"from=0&to=99999", "cpu-clock: 400 samples"},
		{"from=99999", "no samples in this selection"},
		{"pid=11", "no samples in this selection"},
		{"diff=time&bfrom=0&bto=0.1", "blue has shrunk"},
		{"diff=time&bfrom=0.0031&bto=0.0039", "no samples in the time to compare with"},
		{"diff=base", "blue has shrunk"},
		{"e=1", ": 400 samples"},
		{"e=2", "400 bperf: there is no such event"},
		{"e=3", `400 bperf: e="3" is not a number from 0 to 2`},
		{"e=-1", `400 bperf: e="-1"`},
		{"pid=4294967296", `400 bperf: pid=`},
		{"tid=x", `400 bperf: tid=`},
		{"from=-1", `400 bperf: from=`},
		{"from=1e9", `400 bperf: from=`},
		{"from=9999999999999999999", `400 bperf: from=`},
		{"from=0.0000000001", `400 bperf: from=`},
		{"from=0.5&to=0.4", `400 bperf: the time ends before`},
		{"bfrom=0.5&bto=0.4", `400 bperf: the time ends before`},
		{"diff=x", `400 bperf: diff="x"`},
		{"e=0&e=1", `400 bperf: the parameter "e"`},
		{"x=" + strings.Repeat("1", 100), `400 bperf: the parameter "x"`},
	} {
		status, body := get(t, b, "/?"+test.query)
		if got := body; status == 200 && !strings.Contains(got, test.want) || status != 200 && !strings.HasPrefix(fmt.Sprint(status, " ", got), test.want) {
			t.Errorf("?%s: %d, not %s:\n%.600s", test.query, status, test.want, got[max(0, strings.Index(got, "<main>")):])
		}
		if strings.Contains(body, "<img") || strings.Contains(body, "<script>document.title") {
			t.Errorf("?%s: a name is not escaped", test.query)
		}
	}
	for path, want := range map[string]int{"/nosuch": 404, "/function": 404, "/function?f=0": 404, "/function?f=99": 404, "/function?f=x": 404, "/function?f=1&e=7": 400} {
		if status, body := get(t, b, path); status != want {
			t.Errorf("%s: %d, want %d: %.100s", path, status, want, body)
		}
	}
}

// TestFunction follows the links of the table to the functions: their samples are those of the selection.
func TestFunction(t *testing.T) {
	b := browser(t, Config{Profile: invented(Keys, 800), Name: "x", Code: code})
	_, body := get(t, b, "/?e=0&tid=25&from=0&to=0.399")
	links := regexp.MustCompile(`<a href="(/function[^"]*)">`).FindAllStringSubmatch(body, -1)
	if len(links) != 2 {
		t.Fatalf("links %v, want those of the two functions with samples", links)
	}
	for _, l := range links {
		status, page := get(t, b, strings.ReplaceAll(l[1], "&amp;", "&"))
		if status != 200 || !strings.Contains(page, "cpu-clock: 25 samples, 50.00 % of the selection") || !strings.Contains(page, "tid=25") {
			t.Errorf("%s: %d\n%s", l[1], status, page)
		}
		if strings.Contains(page, "<img") || strings.Contains(page, "<script>document") {
			t.Errorf("%s: a name is not escaped", l[1])
		}
	}
	if _, page := get(t, b, "/function?f=1"); !strings.Contains(page, "no samples of this function") {
		t.Errorf("main, in which no sample is:\n%s", page)
	}
}

// TestLess shows profiles that have less: no times, no threads, no code, and fewer samples than were taken.
func TestLess(t *testing.T) {
	b := browser(t, Config{Profile: invented(profile.Comm, 80), Name: "x", NoCode: "use a recording"})
	_, body := get(t, b, "/")
	for _, want := range []string{"These samples have no times", "use a recording"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, unwanted := range []string{`name="from"`, `name="tid"`, `name="diff"`, "/function?"} {
		if strings.Contains(body, unwanted) {
			t.Errorf("the page has %s", unwanted)
		}
	}
	if status, _ := get(t, b, "/?diff=time"); status != 400 {
		t.Errorf("a comparison with another time: %d", status)
	}
	if status, _ := get(t, b, "/function?f=1"); status != 500 {
		t.Errorf("a function without code: %d", status)
	}
	limited := profile.New(Keys)
	limited.SetLimit(20)
	limited.Events = []profile.Event{{Name: "e"}}
	for i := range 1000 {
		limited.Add(profile.Sample{Time: int64(i) * 1000, Count: 1, Value: 1})
	}
	if _, body := get(t, browser(t, Config{Profile: limited, Name: "x"}), "/"); !strings.Contains(body, "1000 samples are merged into 1: their times are rounded down to steps of 0.001048576 s") {
		t.Errorf("the page does not say that samples are merged:\n%.3000s", body[strings.Index(body, "<header>"):])
	}
	if _, err := New(Config{Profile: profile.New(Keys), Options: &report.Options{}}); err == nil {
		t.Error("there is a page without samples")
	}
}

// TestServer checks who gets answers.
func TestServer(t *testing.T) {
	s, err := Listen(DefaultAddress, browser(t, Config{Profile: invented(Keys, 80), Name: "x"}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	home, _, _ := strings.Cut(s.URL(), "?")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	known, stranger := &http.Client{Jar: jar}, &http.Client{}
	ask := func(c *http.Client, method, url, host, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Origin", "https://evil.example")
		answer, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
		for name := range answer.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s %s: header %s", method, url, name)
			}
		}
		if policy := answer.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s %s: policy %s", method, url, policy)
		}
		return answer
	}
	first := ask(known, "GET", s.URL(), "", "")
	if c := first.Cookies(); first.StatusCode != 200 || len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode {
		t.Errorf("with the token: %d, cookies %v", first.StatusCode, c)
	}
	port := home[strings.LastIndex(home, ":") : len(home)-1]
	for _, test := range []struct {
		client               *http.Client
		method, url, host, b string
		want                 int
	}{
		{known, "GET", home, "", "", 200},
		{known, "HEAD", home, "", "", 200},
		{known, "GET", home + "nosuch", "", "", 404},
		{known, "POST", home, "", "", 405},
		{known, "OPTIONS", home, "", "", 405},
		{known, "DELETE", home, "", "", 405},
		{known, "GET", home, "", "body", 413},
		{known, "GET", home, "evil.example", "", 403},
		{known, "GET", home, "evil.example" + port, "", 403},
		{known, "GET", home, "127.0.0.1", "", 403},
		{known, "GET", s.URL(), "evil.example" + port, "", 403},
		{stranger, "GET", home, "", "", 403},
		{stranger, "GET", home + "function?f=1", "", "", 403},
		{stranger, "GET", home + "favicon.ico", "", "", 403},
		{stranger, "GET", home + "?token=", "", "", 403},
		{stranger, "GET", s.URL() + "x", "", "", 403},
		{stranger, "GET", s.URL()[:len(s.URL())-1], "", "", 403},
	} {
		if got := ask(test.client, test.method, test.url, test.host, test.b).StatusCode; got != test.want {
			t.Errorf("%s %s to host %q: %d, want %d", test.method, test.url, test.host, got, test.want)
		}
	}
}

// TestAddresses checks that only loopback addresses are served.
func TestAddresses(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:0": "", "localhost:8000": "", "[::1]:0": "", "127.9.9.9:1": "", "[::ffff:127.0.0.1]:1": "",
		"0.0.0.0:0": "ssh -L", ":0": "ssh -L", "[::]:0": "ssh -L", "192.0.2.1:80": "ssh -L", "example.com:80": "ssh -L",
		"8000": "HOST:PORT", "": "HOST:PORT", "127.0.0.1:http": "port", "127.0.0.1:65536": "port", "127.0.0.1:-1": "port",
	} {
		err := CheckAddress(addr)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", addr, err, want)
		}
	}
}

package debuginfod

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const id = "0123456789abcdef0123456789abcdef01234567"

// environment is the variables of a client.
type environment map[string]string

// client returns a client with an environment, whose cache is dir, and what it notes.
func client(t testing.TB, dir string, e environment) (*Client, *bytes.Buffer) {
	t.Helper()
	var notes bytes.Buffer
	e = maps.Clone(e)
	e["DEBUGINFOD_CACHE_PATH"] = dir
	c := New(t.Context(), Options{Getenv: func(name string) string { return e[name] }, Notes: &notes})
	if c == nil {
		t.Fatal("there is no client")
	}
	return c, &notes
}

// serve starts a server, whose requests end with the test.
func serve(t testing.TB, handle http.HandlerFunc) (url string) {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// valid accepts the answers "right" and "right again".
func valid(f *os.File) error {
	text, err := io.ReadAll(f)
	if err == nil && !strings.HasPrefix(string(text), "right") {
		err = fmt.Errorf("the answer is wrong")
	}
	return err
}

func right(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "right") }

func TestFetch(t *testing.T) {
	var requests []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.URL.EscapedPath()+" "+r.UserAgent()+" "+r.Header.Get("X-Token"))
		right(w, r)
	})
	dir := t.TempDir()
	headers := filepath.Join(dir, "headers")
	write(t, headers, "X-Token: secret\n \n")
	e := environment{"DEBUGINFOD_URLS": url + "/below/ ", "DEBUGINFOD_HEADERS_FILE": headers}
	c, notes := client(t, dir+"/cache", e)
	for range 2 {
		for _, get := range []func() (Cached, error){
			func() (Cached, error) { return c.Debuginfo(id, "program", valid) },
			func() (Cached, error) { return c.Executable(id, "program", valid) },
			func() (Cached, error) { return c.Source(id, "/src/../a b#?.c", 10) },
		} {
			got, err := get()
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(got.Dir + got.Path)
			text, readErr := os.ReadFile(got.Dir + got.Path)
			if errors.Join(err, readErr) != nil || string(text) != "right" || info.Mode().Perm() != 0o400 {
				t.Errorf("%s has %q, mode %v: %v", got.Path, text, info.Mode(), errors.Join(err, readErr))
			}
		}
		c, _ = client(t, dir+"/cache", environment{"DEBUGINFOD_URLS": "http://127.0.0.1:1"}) // all is in the cache
	}
	want := []string{"/below/buildid/" + id + "/debuginfo bperf secret", "/below/buildid/" + id + "/executable bperf secret",
		"/below/buildid/" + id + "/source/a%20b%23%3F.c bperf secret"}
	if !slices.Equal(requests, want) || notes.Len() > 0 {
		t.Errorf("the requests are %q, want %q; notes %q", requests, want, notes)
	}
	files, err := filepath.Glob(dir + "/cache/" + id + "/*")
	for i, f := range files {
		files[i] = filepath.Base(f)
	}
	if err != nil || !slices.Equal(files, []string{"debuginfo", "executable", sourceName("/a b#?.c")}) {
		t.Errorf("the cache has %q, %v", files, err)
	}
}

// TestMissing has a server without the file, which is remembered as elfutils does.
func TestMissing(t *testing.T) {
	requests := 0
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		http.NotFound(w, r)
	})
	dir := t.TempDir()
	ask := func(want int) {
		t.Helper()
		c, notes := client(t, dir, environment{"DEBUGINFOD_URLS": url})
		for range 2 {
			if _, err := c.Debuginfo(id, "program", valid); !errors.Is(err, ErrMissing) {
				t.Errorf("the error is %v", err)
			}
		}
		if requests != want || notes.Len() > 0 {
			t.Errorf("%d requests, want %d; notes %q", requests, want, notes)
		}
	}
	ask(1)
	if info, err := os.Stat(dir + "/" + id + "/debuginfo"); err != nil || info.Size() != 0 {
		t.Fatalf("what is missing is not remembered: %v, %v", info, err)
	}
	ask(1)
	write(t, dir+"/cache_miss_s", "0\n")
	ask(2)
	write(t, dir+"/cache_miss_s", "no number")
	ask(2)
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(dir+"/"+id+"/debuginfo", old, old); err != nil {
		t.Fatal(err)
	}
	ask(3)
}

// TestBadServers has servers that hold nothing up, and leave nothing in the cache. Each problem is reported once, and another server's file
// is found.
func TestBadServers(t *testing.T) {
	endless := func(w http.ResponseWriter, r *http.Request) {
		for _, err := w.Write(make([]byte, 1<<20)); err == nil && r.Context().Err() == nil; {
			_, err = w.Write(make([]byte, 1<<20))
		}
	}
	hangs := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	drips := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "right")
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	}
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a server that nobody named was asked") })
	closed := httptest.NewServer(nil)
	closed.Close()
	for name, test := range map[string]struct {
		handle http.HandlerFunc
		url    string // in place of handle
		e      environment
		want   string
	}{
		"wrong":          {handle: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "wrong") }, want: "the answer is wrong"},
		"empty":          {handle: func(http.ResponseWriter, *http.Request) {}, want: "empty file"},
		"broken":         {handle: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, want: "it answers 500 Internal Server Error"},
		"large":          {handle: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "1000001") }, want: "more than 1000000 bytes", e: environment{"DEBUGINFOD_MAXSIZE": "1000000"}},
		"lies":           {handle: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "100") }, want: "unexpected EOF"},
		"endless":        {handle: endless, want: "more than 1000000 bytes", e: environment{"DEBUGINFOD_MAXSIZE": "1000000"}},
		"hangs":          {handle: hangs, want: "less than 102400 bytes in 1s", e: environment{"DEBUGINFOD_TIMEOUT": "1"}},
		"drips":          {handle: drips, want: "less than 102400 bytes in 1s", e: environment{"DEBUGINFOD_TIMEOUT": "1"}},
		"drips for long": {handle: drips, want: "longer than 1s", e: environment{"DEBUGINFOD_MAXTIME": "1"}},
		"file":           {handle: redirect("file:///etc/passwd"), want: "it redirects to file:"},
		"elsewhere":      {handle: redirect(elsewhere), want: elsewhere + ", which is not in $DEBUGINFOD_URLS"},
		"in circles":     {handle: redirect("/again"), want: "redirects more than 5 times"},
		"headers":        {handle: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Much", strings.Repeat("x", 1<<20)) }, want: "headers exceeded"},
		"no HTTP":        {url: garbage(t), want: "malformed HTTP response"},
		"closed":         {url: closed.URL, want: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := test.url
			if url == "" {
				url = serve(t, test.handle)
			}
			dir := t.TempDir()
			e := maps.Clone(test.e)
			if e == nil {
				e = environment{}
			}
			e["DEBUGINFOD_URLS"] = url
			c, notes := client(t, dir, e)
			for range 2 {
				for _, get := range []func(string, string, func(*os.File) error) (Cached, error){c.Debuginfo, c.Executable} {
					if _, err := get(id, "program", valid); err == nil || !strings.Contains(err.Error(), test.want) && !strings.Contains(err.Error(), "asked any more") {
						t.Errorf("the error is %v, want %q", err, test.want)
					}
				}
			}
			if text := notes.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, test.want) {
				t.Errorf("the notes are %q, want one with %q", text, test.want)
			}
			if files, err := filepath.Glob(dir + "/" + id + "/*"); err != nil || len(files) > 0 {
				t.Errorf("the cache has %q, %v", files, err)
			}
			for _, limit := range []string{"DEBUGINFOD_TIMEOUT", "DEBUGINFOD_MAXTIME"} {
				if e[limit] != "" {
					e[limit] = "10" // the good one may take its time, too
				}
			}
			e["DEBUGINFOD_URLS"] += " " + serve(t, right)
			c, _ = client(t, dir, e)
			if _, err := c.Debuginfo(id, "program", valid); err != nil {
				t.Errorf("the other server's file: %v", err)
			}
		})
	}
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	}
}

// garbage returns the URL of a server that does not know HTTP.
func garbage(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1<<10))
			_, _ = c.Write([]byte("\x00\x01garbage\r\n\r\n"))
			_ = c.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

// TestAskedNoMore gives a server up that answers wrongly again and again.
func TestAskedNoMore(t *testing.T) {
	var requests atomic.Int32
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(500)
	})
	c, notes := client(t, t.TempDir(), environment{"DEBUGINFOD_URLS": url})
	for n := range 10 {
		if _, err := c.Debuginfo(fmt.Sprintf("%040x", n), "program", valid); err == nil || errors.Is(err, ErrMissing) {
			t.Errorf("the error is %v", err)
		}
	}
	if n := requests.Load(); n != mostFaults || !strings.Contains(notes.String(), "is asked no more") {
		t.Errorf("there were %d requests, notes %q", n, notes)
	}
}

// TestAtOnce has a server that answers when all requests have come.
func TestAtOnce(t *testing.T) {
	var arrived sync.WaitGroup
	arrived.Add(atOnce)
	var requests atomic.Int32
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		arrived.Done()
		arrived.Wait()
		right(w, r)
	})
	c, _ := client(t, t.TempDir(), environment{"DEBUGINFOD_URLS": url})
	var asking sync.WaitGroup
	for n := range 3 * atOnce { // each file three times
		asking.Go(func() {
			if _, err := c.Debuginfo(fmt.Sprintf("%040x", n%atOnce), "program", valid); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	if n := requests.Load(); n != atOnce {
		t.Errorf("%d requests, want %d", n, atOnce)
	}
}

// TestWithoutWaiting asks a server that waits until the client has returned.
func TestWithoutWaiting(t *testing.T) {
	returned := make(chan struct{})
	var requests atomic.Int32
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		<-returned
		if strings.Contains(r.URL.Path, id) {
			right(w, r)
		} else {
			http.NotFound(w, r)
		}
	})
	c, notes := client(t, t.TempDir(), environment{"DEBUGINFOD_URLS": url})
	later := c.WithoutWaiting()
	absent := strings.Repeat("ab", 20)
	for range 3 {
		for _, build := range []string{id, absent} {
			if _, err := later.WithContext(t.Context()).Debuginfo(build, "program", valid); !errors.Is(err, errLater) {
				t.Errorf("%s: %v", build, err)
			}
		}
	}
	for n := range 2 * mostLater { // of a program that makes them up
		if _, err := later.Debuginfo(fmt.Sprintf("%040x", n), "program", valid); !errors.Is(err, errLater) {
			t.Errorf("%d: %v", n, err)
		}
	}
	later.mu.Lock()
	running := len(later.calls)
	later.mu.Unlock()
	if running != mostLater {
		t.Errorf("%d files are being fetched, want %d", running, mostLater)
	}
	close(returned)
	for build, want := range map[string]error{id: nil, absent: ErrMissing} {
		for err := errLater; errors.Is(err, errLater); time.Sleep(time.Millisecond) {
			if _, err = later.Debuginfo(build, "program", valid); !errors.Is(err, errLater) && !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", build, err, want)
			}
		}
	}
	for running := mostLater; running > 0; time.Sleep(time.Millisecond) { // in the directory of the test
		later.mu.Lock()
		running = len(later.calls)
		later.mu.Unlock()
	}
	if n := later.Fetched(); n != 1 || notes.Len() > 0 {
		t.Errorf("%d files were fetched, notes %q", n, notes)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if ctx.Err() == nil {
			cancel()
			<-r.Context().Done()
		}
		right(w, r)
	})
	c, notes := client(t, t.TempDir(), environment{"DEBUGINFOD_URLS": url})
	if _, err := c.WithContext(ctx).Debuginfo(id, "program", valid); !errors.Is(err, context.Canceled) || notes.Len() > 0 {
		t.Errorf("the error is %v, notes %q", err, notes)
	}
	if _, err := c.Debuginfo(id, "program", valid); err != nil { // the file is still wanted elsewhere
		t.Error(err)
	}
}

// TestHostileCache has links and a pipe in the cache.
func TestHostileCache(t *testing.T) {
	url := serve(t, right)
	outside, dir := t.TempDir(), t.TempDir()
	if err := errors.Join(os.Symlink(outside, dir+"/"+id), syscall.Mkfifo(dir+"/cache_miss_s", 0o600), syscall.Mkfifo(dir+"/cache_clean_interval_s", 0o600)); err != nil {
		t.Fatal(err)
	}
	c, notes := client(t, dir, environment{"DEBUGINFOD_URLS": url})
	if _, err := c.Debuginfo(id, "program", valid); err == nil || !strings.Contains(notes.String(), "nothing is fetched") {
		t.Errorf("the error is %v, notes %q", err, notes)
	}
	if files, err := os.ReadDir(outside); err != nil || len(files) > 0 {
		t.Errorf("a link led out of the cache: %v, %v", files, err)
	}
	for _, bad := range []string{"", "..", "../../etc", "xyz0", "012", strings.Repeat("00", 65), "ABCDEF00"} {
		if _, err := c.Debuginfo(bad, "program", valid); err == nil {
			t.Errorf("%q is no build ID", bad)
		}
	}
	if os.Geteuid() != 0 {
		return // the next needs another user's directory
	}
	if err := os.Chown(outside, 65534, -1); err != nil {
		t.Fatal(err)
	}
	c, notes = client(t, outside, environment{"DEBUGINFOD_URLS": url})
	if _, err := c.Debuginfo(id, "program", valid); err == nil || !strings.Contains(notes.String(), "belongs to user 65534") {
		t.Errorf("another user's directory: %v, notes %q", err, notes)
	}
}

// TestClean removes what was not used, and what killed runs have left, and nothing else.
func TestClean(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * time.Hour)
	aged := []string{"/" + id + "/debuginfo", "/" + id + "/mine", "/abcd/executable", "/abcd/source-005970b5-#a", "/mine/debuginfo", "/" + id + "/debuginfo.1-2.bperf-part"}
	for _, name := range aged {
		write(t, dir+name, "right")
	}
	write(t, dir+"/"+id+"/executable", "right")
	write(t, dir+"/cache_clean_interval_s", "3600")
	write(t, dir+"/max_unused_age_s", "3600")
	for _, name := range append(aged, "/cache_clean_interval_s") {
		if err := os.Chtimes(dir+name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	c, _ := client(t, dir, environment{"DEBUGINFOD_URLS": serve(t, right)})
	if _, err := c.Source(id, "/b", 10); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, pattern := range []string{"/*", "/*/*"} {
		files, err := filepath.Glob(dir + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			left = append(left, strings.TrimPrefix(f, dir))
		}
	}
	want := []string{"/" + id, "/cache_clean_interval_s", "/max_unused_age_s", "/mine", "/" + id + "/executable", "/" + id + "/mine", "/" + id + "/" + sourceName("/b"), "/mine/debuginfo"}
	if !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
	if info, err := os.Stat(dir + "/cache_clean_interval_s"); err != nil || !info.ModTime().After(old) {
		t.Errorf("the time of cleaning is not kept: %v", err)
	}
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(append([]byte("right"), make([]byte, 5e6)...))
	})
	c, _ := client(t, t.TempDir(), environment{"DEBUGINFOD_URLS": url})
	c.display.w, c.display.shows = &out, true
	if _, err := c.Debuginfo(id, "/usr/bin/pro\x1bgram", valid); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if !strings.HasPrefix(text, "\rdebuginfod: pro") || !strings.HasSuffix(text, "\r\x1b[K") || strings.Contains(text, "\x1bgram") || strings.Contains(text, "\n") {
		t.Errorf("the progress is %q", text)
	}
}

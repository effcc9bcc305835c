package cli

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"net"
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

	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/test/require"
)

// strippedProgram is a program without symbols, with what belongs to it elsewhere, and a recording of it.
type strippedProgram struct {
	program, debug, source string // files
	recording              string
	id                     string // build ID
}

// sourceOfStripped is where the debugging information says that the source is. It is not there.
const sourceOfStripped = "/usr/src/bperf-test/stripped.c"

// busyOfStripped is its function that uses the CPU.
const busyOfStripped = "busyOfStripped"

func makeStripped(t *testing.T) strippedProgram {
	t.Helper()
	require.Tools(t, "gcc", "objcopy", "strip")
	dir := t.TempDir()
	s := strippedProgram{dir + "/stripped", dir + "/stripped.debug", dir + "/source.c", dir + "/perf.data", ""}
	code := "#line 1 \"" + sourceOfStripped + "\"\nvolatile long sum;\n" +
		"__attribute__((noinline)) void " + busyOfStripped + "(void) { for (long i = 0; i < 100000000; i++)\n  sum += i; // the busy line\n}\nint main(void) { " + busyOfStripped + "(); }\n"
	if err := os.WriteFile(s.source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"gcc", "-g", "-O1", "-Wl,--build-id", "-o", s.program, s.source},
		{"objcopy", "--only-keep-debug", s.program, s.debug},
		{"strip", s.program},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v, %s", args, err, out)
		}
	}
	id, err := object.Search{}.BuildID(s.program)
	if err != nil {
		t.Fatal(err)
	}
	s.id = fmt.Sprintf("%x", id)
	if got := run(t, bperf("record", "-q", "-e", "cpu-clock:u", "-o", s.recording, s.program)); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	return s
}

// withDebuginfod returns a command whose debuginfod servers are at the URLs, and whose cache is dir.
func withDebuginfod(urls, dir string, args ...string) *exec.Cmd {
	cmd := bperf(args...)
	cmd.Env = append(cmd.Env, "DEBUGINFOD_URLS="+urls, "DEBUGINFOD_CACHE_PATH="+dir)
	return cmd
}

// wantNamed checks that all commands show the functions, lines and source of the program, or none of them.
func (s *strippedProgram) wantNamed(t *testing.T, urls, cache string, named bool) {
	t.Helper()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"report", "-i", s.recording, "-s", "sym", "--stdio"}, "] " + busyOfStripped},
		{[]string{"report", "-i", s.recording, "-s", "srcline", "--stdio"}, "stripped.c:3"},
		{[]string{"script", "-i", s.recording, "-F", "ip,sym,srcline"}, "stripped.c:3"},
		{[]string{"script", "-i", s.recording, "-F", "ip,sym,srccode"}, "sum += i; // the busy line"},
		{[]string{"annotate", "-i", s.recording, busyOfStripped}, "sum += i; // the busy line"},
	} {
		got := run(t, withDebuginfod(urls, cache, tt.args...))
		if got.status != 0 || strings.Contains(got.stdout, tt.want) != named {
			t.Errorf("%q: status %d, %q is in the output: %v, want %v\n%s%s", tt.args, got.status, tt.want, !named, named, got.stdout, got.stderr)
		}
	}
}

// TestDebuginfodServer has elfutils' server, with the program in an archive, as distributions have it, and elfutils' client.
func TestDebuginfodServer(t *testing.T) {
	server := require.Debuginfod(t)
	s := makeStripped(t)
	dir := t.TempDir()
	s.archive(t, filepath.Join(dir, "stripped.tar"))
	url := startDebuginfod(t, server, dir, s.id)
	cache := t.TempDir()
	s.wantNamed(t, "", cache, false)
	s.wantNamed(t, url, cache, true)
	s.wantNamed(t, "http://127.0.0.1:1", cache, true) // all is in the cache
	if os.Geteuid() == 0 {
		got := run(t, withDebuginfod(url, t.TempDir(), "profile", "-e", "cpu-clock:u", s.program))
		if got.status != 0 || !strings.Contains(got.stdout, busyOfStripped) {
			t.Errorf("profile: %+v", got)
		}
	}
	if err := os.Rename(s.program, s.program+".gone"); err != nil {
		t.Fatal(err)
	}
	s.wantNamed(t, url, cache, true)

	client, err := exec.LookPath("debuginfod-find")
	if err != nil {
		t.Skip("needs debuginfod-find of elfutils to look at the cache: apt-get install debuginfod")
	}
	for _, kind := range []string{"debuginfo", "executable"} { // elfutils finds what bperf fetched
		cmd := exec.Command(client, kind, s.id)
		cmd.Env = append(os.Environ(), "DEBUGINFOD_URLS=http://127.0.0.1:1", "DEBUGINFOD_CACHE_PATH="+cache)
		if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != filepath.Join(cache, s.id, kind) {
			t.Errorf("elfutils finds the %s at %q: %v", kind, out, err)
		}
	}
}

// archive writes the program's files to an archive.
func (s *strippedProgram) archive(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := tar.NewWriter(f)
	for name, from := range map[string]string{"usr/bin/stripped": s.program, "usr/lib/debug/stripped.debug": s.debug, sourceOfStripped[1:]: s.source} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if from == s.source { // its first line only says where it is
			_, rest, _ := strings.Cut(string(data), "\n")
			data = []byte(rest)
		}
		if err := w.WriteHeader(&tar.Header{Name: "./" + name, Mode: 0o755, Size: int64(len(data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// startDebuginfod starts a server of the archives in dir, and waits until it has the build and its source.
func startDebuginfod(t *testing.T, server, dir, id string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), server, "-p", port, "-d", filepath.Join(t.TempDir(), "index"), "-Z", ".tar", dir)
	cmd.Env = append(os.Environ(), "DEBUGINFOD_URLS=") // it would ask these
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { <-ended })
	url = "http://127.0.0.1:" + port
	for _, path := range []string{"executable", "debuginfo", "source" + sourceOfStripped} {
		for has(t, url+"/buildid/"+id+"/"+path) != nil {
			select {
			case err := <-ended:
				ended <- err
				t.Fatalf("debuginfod ended: %v", err)
			case <-time.After(100 * time.Millisecond): // go test limits the time
			}
		}
	}
	return url
}

// has returns nil if a server has a file.
func has(t *testing.T, url string) error {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", r.Status)
	}
	return firstError(err, r.Body.Close())
}

// TestDebuginfodAtOnce has a server that answers nothing before it was asked for both files that samples are in.
func TestDebuginfodAtOnce(t *testing.T) {
	require.Tools(t, "gcc", "strip")
	dir := t.TempDir()
	const spin = "void spin_%s(void) { for (volatile long i = 0; i < 50000000; i++); }\n"
	whole := map[string][]byte{} // by the path on the server
	for _, part := range []struct {
		file, source string
		flags        []string
	}{
		{"libspin.so", fmt.Sprintf(spin, "library"), []string{"-shared", "-fPIC"}},
		{"program", fmt.Sprintf(spin, "program") + "void spin_library(void);\nint main(void) { spin_program(); spin_library(); }\n", []string{"-L.", "-Wl,-rpath," + dir}},
	} {
		file := filepath.Join(dir, part.file)
		build := exec.Command("gcc", append(part.flags, "-g", "-Wl,--build-id", "-o", file, "-x", "c", "-", "-lspin")...)
		if part.file == "libspin.so" {
			build.Args = build.Args[:len(build.Args)-1]
		}
		build.Dir, build.Stdin = dir, strings.NewReader(part.source)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v, %s", err, out)
		}
		id, err := object.Search{}.BuildID(file)
		data, readErr := os.ReadFile(file)
		if err := firstError(err, readErr); err != nil {
			t.Fatal(err)
		}
		whole[fmt.Sprintf("/buildid/%x/debuginfo", id)] = data
		if out, err := exec.Command("strip", file).CombinedOutput(); err != nil {
			t.Fatalf("strip: %v, %s", err, out)
		}
	}
	recording := filepath.Join(dir, "perf.data")
	if got := run(t, bperf("record", "-q", "-e", "cpu-clock:u", "-o", recording, filepath.Join(dir, "program"))); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	var both sync.WaitGroup
	both.Add(len(whole))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, there := whole[r.URL.Path]
		if !there {
			http.NotFound(w, r)
			return
		}
		both.Done()
		both.Wait()
		_, _ = w.Write(data)
	}))
	defer server.Close()
	got := run(t, withDebuginfod(server.URL, t.TempDir(), "report", "-i", recording, "-s", "sym", "--stdio"))
	if got.status != 0 || !strings.Contains(got.stdout, "] spin_program") || !strings.Contains(got.stdout, "] spin_library") {
		t.Errorf("%+v", got)
	}
}

// TestDebuginfodHangs has a server that never answers, and one that answers garbage: the report goes on without them, and Ctrl-C ends it at
// once.
func TestDebuginfodHangs(t *testing.T) {
	s := makeStripped(t)
	arrived := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		if strings.HasPrefix(r.URL.Path, "/hangs/") {
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, "gar\x1b[31mbage")
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	s.wantNamed(t, server.URL+"/garbage", t.TempDir(), false)
	cmd := withDebuginfod(server.URL+"/hangs", t.TempDir(), "report", "-i", s.recording, "--stdio")
	cmd.Env = append(cmd.Env, "DEBUGINFOD_TIMEOUT=1")
	if got := run(t, cmd); got.status != 0 || strings.Count(got.stderr, "Warning: debuginfod at "+server.URL+" is asked no more: no answer: it sends less than") != 1 {
		t.Errorf("%+v", got)
	}
	for len(arrived) > 0 {
		<-arrived
	}
	cmd = withDebuginfod(server.URL+"/hangs", t.TempDir(), "report", "-i", s.recording, "--stdio")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-arrived
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("Ctrl-C did not end the report")
	}
}

// TestServeDebuginfod has a daemon profile a program without symbols, pushed and pulled. The server of debugging information answers only
// after profiles without names.
func TestServeDebuginfod(t *testing.T) {
	require.Root(t)
	s := makeStripped(t)
	debug, err := os.ReadFile(s.debug)
	if err != nil {
		t.Fatal(err)
	}
	nameless, named := make(chan struct{}), make(chan struct{})
	servers := http.NewServeMux()
	servers.HandleFunc("GET /buildid/"+s.id+"/debuginfo", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-nameless:
			_, _ = w.Write(debug)
		case <-r.Context().Done():
		}
	})
	var firstNameless, firstNamed sync.Once
	servers.HandleFunc("POST /v1development/profiles", func(w http.ResponseWriter, r *http.Request) {
		var all []byte
		body, err := gzip.NewReader(r.Body)
		if err == nil {
			all, err = io.ReadAll(body)
		}
		if err != nil {
			if t.Context().Err() == nil { // at the end of the test, bperf ends in the middle of a push
				t.Error(err)
			}
			return
		}
		switch text := string(all); {
		case strings.Contains(text, busyOfStripped):
			firstNamed.Do(func() { close(named) })
		case strings.Contains(text, s.program):
			firstNameless.Do(func() { close(nameless) })
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	})
	server := httptest.NewServer(servers)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	config := filepath.Join(t.TempDir(), "bperf.yml")
	text := fmt.Sprintf("debuginfod: [%q]\npush: [{kind: otlp, url: %[1]q}]\nprofile: {every: 1s, frequency: 99}\nbudget: {cpu: 0, memory: 0}\n", server.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DEBUGINFOD_CACHE_PATH", t.TempDir())
	d := startServe(t, "--config", config)
	load := exec.CommandContext(t.Context(), "sh", "-c", `while "$1"; do :; done`, "sh", s.program)
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = load.Wait() }) // it was killed
	for what, happened := range map[string]chan struct{}{"without names": nameless, "with names": named} {
		select {
		case <-happened:
		case <-time.After(patience):
			t.Fatalf("no profile %s was pushed\n%s", what, d.log.String())
		}
	}
	for pulled := ""; !strings.Contains(pulled, busyOfStripped); {
		body, err := gzip.NewReader(strings.NewReader(d.await("/debug/pprof/profile?seconds=1", "^\\x1f")))
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		pulled = string(all)
	}
}

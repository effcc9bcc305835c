package remote

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/serve/tlsfiles"
	"github.com/bperf/bperf/test/require"
)

// asProgram is the environment variable that makes the test binary the program of sessions.
const asProgram = "BPERF_TEST_REMOTE"

// TestMain makes the test binary the program of sessions: the event of -e says what it does.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(program(os.Args[1:]))
	}
	if err := os.Setenv(asProgram, "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// program prints its arguments and its process ID, and then does what its event says.
func program(args []string) int {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGINT)
	fmt.Println(strings.Join(args, " "))
	fmt.Fprintln(os.Stderr, os.Getpid())
	switch {
	case slices.Contains(args, "--event=status"):
		return 42
	case slices.Contains(args, "--event=wait"):
		<-caught
		fmt.Println("interrupted")
		return 3
	case slices.Contains(args, "--event=flood"):
		block := bytes.Repeat([]byte{'x'}, 10_000)
		for range 10 { // until it is interrupted, and a little longer
			os.Stdout.Write(block)
		}
		<-caught
		fmt.Println("interrupted")
	case slices.Contains(args, "--event=endless"):
		block := bytes.Repeat([]byte{'x'}, 100_000)
		for {
			os.Stdout.Write(block)
		}
	}
	return 0
}

// harness is a server of sessions, and what it logs.
type harness struct {
	sessions *Server
	http     *httptest.Server
	node     *Node

	mu  sync.Mutex
	log bytes.Buffer
}

func (h *harness) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.Write(p)
}

// logged waits until the log has a text.
func (h *harness) logged(t *testing.T, text string) {
	t.Helper()
	for { // the test's time-out ends the loop
		h.mu.Lock()
		log := h.log.String()
		h.mu.Unlock()
		if strings.Contains(log, text) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func start(t *testing.T, config Config) *harness {
	t.Helper()
	h := &harness{}
	config.Program, config.Log = "/proc/self/exe", slog.New(slog.NewTextHandler(h, nil))
	h.sessions = NewServer(config)
	h.http = httptest.NewServer(h.sessions)
	t.Cleanup(func() {
		h.sessions.Close()
		h.http.Close()
	})
	var err error
	if h.node, err = ParseNode(h.http.URL); err != nil {
		t.Fatal(err)
	}
	return h
}

var unlimited = Config{Longest: time.Hour, Bytes: 1 << 40}

// watched is a writer that closes a channel at the first write.
type watched struct {
	bytes.Buffer
	once  sync.Once
	begun chan struct{}
}

func newWatched() *watched { return &watched{begun: make(chan struct{})} }

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	w.once.Do(func() { close(w.begun) })
	return n, err
}

func waiting(event string) Request { return Request{"stat", []string{"--event=" + event}} }

func TestSession(t *testing.T) {
	require.NoKernel(t)
	h := start(t, unlimited)
	var stdout, stderr bytes.Buffer
	end, err := h.node.Run(t.Context(), nil, waiting("status"), nil, &stdout, &stderr)
	if err != nil || end != (End{Status: 42}) {
		t.Errorf("%v, %v", end, err)
	}
	if stdout.String() != "stat --log-fd=1 --event=status\n" || stderr.Len() == 0 {
		t.Errorf("output %q, messages %q", stdout.String(), stderr.String())
	}
	h.logged(t, "status=42")
	h.logged(t, "command=stat args=\"--event=status\"")
}

// TestStop checks that a client that sends stop gets what its session prints then.
func TestStop(t *testing.T) {
	require.NoKernel(t)
	h := start(t, unlimited)
	stdout, stop := newWatched(), make(chan struct{})
	go func() {
		<-stdout.begun
		close(stop)
	}()
	end, err := h.node.Run(t.Context(), nil, waiting("wait"), stop, stdout, io.Discard)
	if err != nil || end != (End{Status: 3}) || !strings.HasSuffix(stdout.String(), "\ninterrupted\n") {
		t.Errorf("%v, %v: %q", end, err, stdout.String())
	}
}

// TestGone checks that the program of a client that goes away is killed.
func TestGone(t *testing.T) {
	require.NoKernel(t)
	for _, event := range []string{"wait", "endless"} {
		h := start(t, unlimited)
		ctx, cancel := context.WithCancel(t.Context())
		stderr := newWatched()
		go func() {
			<-stderr.begun
			cancel()
		}()
		if _, err := h.node.Run(ctx, nil, waiting(event), nil, io.Discard, stderr); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", event, err)
		}
		h.logged(t, `reason="the client went away"`)
		var pid int
		if _, err := fmt.Sscan(stderr.String(), &pid); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s: the process is still there: %v", event, err)
		}
	}
}

func TestLimits(t *testing.T) {
	require.NoKernel(t)
	for _, test := range []struct {
		event  string
		config Config
		end    End
	}{
		{"wait", Config{Longest: 10 * time.Millisecond, Bytes: 1 << 40}, End{3, "the longest session of that node is 10ms"}},
		{"flood", Config{Longest: time.Hour, Bytes: 50_000}, End{0, "a session of that node sends at most 50000 bytes"}},
		{"endless", Config{Longest: time.Hour, Bytes: 50_000}, End{128 + int(syscall.SIGKILL), errFlood.Error()}},
	} {
		h := start(t, test.config)
		end, err := h.node.Run(t.Context(), nil, waiting(test.event), nil, io.Discard, io.Discard)
		if test.event == "wait" && end.Status == 128+int(syscall.SIGINT) { // it came before the program was ready for it
			end.Status = 3
		}
		if err != nil || end != test.end {
			t.Errorf("%s: %v, %v", test.event, end, err)
		}
	}
}

// TestEnds checks that Stop ends sessions in order, Close at once, and that no further one begins.
func TestEnds(t *testing.T) {
	require.NoKernel(t)
	for _, closes := range []bool{false, true} {
		h := start(t, unlimited)
		stdout := newWatched()
		go func() {
			<-stdout.begun
			if closes {
				h.sessions.Close()
			} else {
				h.sessions.Finish()
			}
		}()
		want := End{3, "bperf serve ends on that node"}
		if closes {
			want = End{128 + int(syscall.SIGKILL), errClosed.Error()}
		}
		end, err := h.node.Run(t.Context(), nil, waiting("wait"), nil, stdout, io.Discard)
		if closes && end.Status == 3 { // SIGINT, which Close sends before, was faster
			want.Status = 3
			if end.Reason != errClosed.Error() { // the session had ended before it could be killed
				want.Reason = "bperf serve ends on that node"
			}
		}
		if err != nil || end != want {
			t.Errorf("closes %v: %v, %v", closes, end, err)
		}
		if _, err := h.node.Run(t.Context(), nil, waiting("wait"), nil, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "no room") {
			t.Errorf("closes %v: another session: %v", closes, err)
		}
	}
}

// TestBodies sends what the client of bperf does not.
func TestBodies(t *testing.T) {
	require.NoKernel(t)
	h := start(t, unlimited)
	for _, test := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"command":"stat","args":["--event=status"]}`, 200, "stat --log-fd=1 --event=status\n"},
		{`{"command":"stat","args":["--event=wait"]}` + "\nstop\n", 200, ""},
		{``, 400, "the request is not a line"},
		{strings.Repeat("x", maxRequest+1), 400, "the request is not a line"},
		{`{"command":"stat","args":["--output=/etc/passwd"]}`, 400, "--output is not possible"},
		{`{"command":"stat","env":[]}`, 400, `unknown field "env"`},
		{`{"command":"stat"} {}`, 400, "something follows"},
	} {
		response, err := http.Post(h.http.URL, "application/json", strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != test.status || !strings.Contains(string(body), test.want) {
			t.Errorf("%.60s: status %d, %v: %q", test.body, response.StatusCode, err, body)
		}
	}
}

func TestRefusal(t *testing.T) {
	require.NoKernel(t)
	for status, want := range map[int]string{
		403: "the role record", 401: "the role record", 404: "no bperf serve", 503: "try again in 7 s", 400: "why", 500: "500 Internal Server Error: why",
		302: "302 Found", 200: "200 OK: why",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "http://127.0.0.1:1/")
			http.Error(w, "why", status)
		}))
		node, err := ParseNode(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := node.Run(t.Context(), nil, waiting("status"), nil, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", status, err)
		}
		s.Close()
	}
}

// TestTLS checks that a client trusts only the certificates it should, and shows its own.
func TestTLS(t *testing.T) {
	require.NoKernel(t)
	h := &harness{sessions: NewServer(Config{Program: "/proc/self/exe", Longest: time.Hour, Bytes: 1 << 40})}
	h.sessions.config.Log = slog.New(slog.NewTextHandler(h, nil))
	defer h.sessions.Close()
	own, clients := writeCertificate(t)
	s := httptest.NewUnstartedServer(h.sessions)
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.StartTLS()
	defer s.Close()
	own.CA = filepath.Join(t.TempDir(), "ca")
	writePEM(t, own.CA, "CERTIFICATE", s.Certificate().Raw)
	node, err := ParseNode(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		files tlsfiles.Client
		works bool
	}{{own, true}, {tlsfiles.Client{CA: own.CA}, false}, {tlsfiles.Client{Cert: own.Cert, Key: own.Key}, false}} {
		config, err := test.files.Config()
		if err != nil {
			t.Fatal(err)
		}
		end, err := node.Run(t.Context(), config, waiting("status"), nil, io.Discard, io.Discard)
		if test.works != (err == nil && end.Status == 42) {
			t.Errorf("%v: %v, %v", test.files, end, err)
		}
	}
	h.logged(t, ` certificate alice"`)
	for _, files := range []tlsfiles.Client{{CA: "/nosuch"}, {CA: own.Key}, {Cert: own.Cert}, {Key: own.Key},
		{Cert: own.Key, Key: own.Cert}, {Cert: own.Cert, Key: "/nosuch"}} {
		if _, err := files.Config(); err == nil {
			t.Errorf("%v: no error", files)
		}
	}
}

// writeCertificate writes a certificate for a client named alice. It signs itself.
func writeCertificate(t *testing.T) (tlsfiles.Client, *x509.CertPool) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "alice"}, NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	files := tlsfiles.Client{Cert: filepath.Join(t.TempDir(), "cert"), Key: filepath.Join(t.TempDir(), "key")}
	writePEM(t, files.Cert, "CERTIFICATE", cert)
	writePEM(t, files.Key, "PRIVATE KEY", key)
	parsed, err := x509.ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return files, pool
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

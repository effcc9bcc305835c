package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/httpd"
	"github.com/bperf/bperf/internal/serve/settings"
	"github.com/bperf/bperf/test/require"
)

// secret is what the handlers of tests answer.
const secret = "the-secret"

// routes has a route for each role.
func routes() []Route {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			fmt.Fprintf(w, "%s %s", secret, body)
		}
	})
	return []Route{
		{Pattern: "/metrics", Roles: settings.Metrics, Handler: answer},
		{Pattern: "/read/", Roles: settings.Read, Handler: answer},
		{Pattern: "/record", Roles: settings.Record, Handler: answer, Methods: []string{http.MethodPost}, MaxBody: 10},
		{Pattern: "/any", Roles: settings.AnyRole, Handler: answer},
		{Pattern: "/panic", Roles: settings.AnyRole, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a fault") })},
	}
}

// defaults returns the default settings with a free port.
func defaults() *settings.Settings {
	s := settings.Default()
	s.Listen = []string{"127.0.0.1:0"}
	return s
}

// start starts a server, which ends with the test. It gives clients more time than servers of users do, because a busy machine may take long.
func start(t *testing.T, s *settings.Settings, routes []Route) *Server {
	t.Helper()
	return startPatient(t, s, routes, 5*time.Minute)
}

// startPatient starts a server that waits so long for the header of a request.
func startPatient(t *testing.T, s *settings.Settings, routes []Route, patience time.Duration) *Server {
	t.Helper()
	srv, err := Listen(s, slog.New(slog.DiscardHandler), routes)
	if err != nil {
		t.Fatal(err)
	}
	srv.server.ReadHeaderTimeout, srv.server.ReadTimeout = patience, 5*time.Minute
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return srv
}

// newClient returns a client without connections of earlier tests: a port may be used again.
func newClient(t *testing.T) *http.Client {
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// ask sends a request and returns the status and the body.
func ask(t *testing.T, client *http.Client, r *http.Request) (int, string) {
	t.Helper()
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkAnswer checks that only status 200 comes with what the handler says.
func checkAnswer(t *testing.T, what string, status int, body string, want int) {
	t.Helper()
	if status != want || strings.Contains(body, secret) != (want == http.StatusOK) {
		t.Errorf("%s: status %d with %q, want %d", what, status, body, want)
	}
}

func TestRoles(t *testing.T) {
	require.NoKernel(t)
	for _, test := range []struct {
		roles        settings.RoleSet
		method, path string
		status       int
	}{
		{settings.Metrics, "GET", "/metrics", 200},
		{settings.Metrics, "HEAD", "/metrics", 200},
		{settings.Metrics, "GET", "/read/x", 403},
		{settings.Metrics, "POST", "/record", 403},
		{settings.Metrics, "GET", "/any", 200},
		{settings.Metrics, "GET", "/nosuch", 404},
		{settings.Metrics, "POST", "/metrics", 405},
		{settings.Metrics, "OPTIONS", "/metrics", 405},
		{settings.Read, "GET", "/metrics", 403},
		{settings.Read, "GET", "/read/x", 200},
		{settings.Record, "POST", "/record", 200},
		{settings.Record, "GET", "/record", 405},
		{0, "GET", "/metrics", 403},
		{0, "GET", "/any", 403},
		{0, "GET", "/nosuch", 403},
		{0, "GET", "/x/../metrics", 403},
		{0, "OPTIONS", "*", 403},
	} {
		s := defaults()
		s.Roles.Loopback = test.roles
		srv := start(t, s, routes())
		r := request(t, test.method, "http://"+srv.Addresses()[0]+"/", nil)
		r.URL.Opaque = test.path
		status, body := ask(t, newClient(t), r)
		if test.method == "HEAD" {
			body = secret
		}
		checkAnswer(t, fmt.Sprint(test), status, body, test.status)
	}
}

func TestHost(t *testing.T) {
	require.NoKernel(t)
	s := defaults()
	s.Hosts = []string{"node1.example"}
	srv := start(t, s, routes())
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:1": 200, "127.0.0.1:80": 200, "10.1.2.3": 200, "[::1]:9": 200, "[::1]": 200, "node1.example:9465": 200, "Node1.Example": 200,
		"evil.example": 403, "127.0.0.1.evil.example": 403, "localhost.evil.example:80": 403, "node1.example.evil.example": 403, ":80": 403,
	} {
		r := request(t, "GET", "http://"+srv.Addresses()[0]+"/metrics", nil)
		r.Host = host
		status, body := ask(t, newClient(t), r)
		checkAnswer(t, host, status, body, want)
	}
	if n := srv.Refused()[string(wrongHost)]; n != 5 {
		t.Errorf("%v requests were counted as refused for their host, want 5", n)
	}
}

// TestHeaders checks the headers of answers of each kind: what a browser must not do with them, and nothing that lets pages of others read them.
func TestHeaders(t *testing.T) {
	require.NoKernel(t)
	srv := start(t, defaults(), routes())
	headers := http.Header{}
	httpd.SetHeaders(headers)
	for _, path := range []string{"/metrics", "/nosuch", "/record"} {
		r := request(t, "GET", "http://"+srv.Addresses()[0]+path, nil)
		r.Header.Set("Origin", "https://evil.example")
		response, err := newClient(t).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		for name := range headers {
			if got, want := response.Header.Get(name), headers.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		for name := range response.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: header %s", path, name)
			}
		}
	}
}

// TestBodies checks limits of bodies, and that browsers cannot send requests that change something for pages of others.
func TestBodies(t *testing.T) {
	require.NoKernel(t)
	s := defaults()
	s.Roles.Loopback = settings.AnyRole
	srv := start(t, s, routes())
	for _, test := range []struct {
		method, path, body, origin string
		status                     int
	}{
		{method: "POST", path: "/record", body: "0123456789", status: 200},
		{method: "POST", path: "/record", body: "0123456789a", status: 413},
		{method: "GET", path: "/metrics", body: "a", status: 413},
		{method: "POST", path: "/record", body: "a", origin: "https://evil.example", status: 403},
	} {
		r := request(t, test.method, "http://"+srv.Addresses()[0]+test.path, strings.NewReader(test.body))
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		status, body := ask(t, newClient(t), r)
		checkAnswer(t, fmt.Sprint(test), status, body, test.status)
	}
	r := request(t, "POST", "http://"+srv.Addresses()[0]+"/record", io.MultiReader(strings.NewReader("0123456789a"))) // of unknown length
	if _, body := ask(t, newClient(t), r); strings.Contains(body, secret) {
		t.Errorf("a body without length passed the limit: %q", body)
	}
}

func TestPanic(t *testing.T) {
	require.NoKernel(t)
	srv := start(t, defaults(), routes())
	url := "http://" + srv.Addresses()[0]
	if response, err := newClient(t).Do(request(t, "GET", url+"/panic", nil)); err == nil {
		response.Body.Close()
		t.Error("a handler that panicked gave an answer")
	}
	status, body := ask(t, newClient(t), request(t, "GET", url+"/metrics", nil))
	checkAnswer(t, "after a panic", status, body, 200)
}

// TestMalformed sends requests that are damaged or strange, as a client without a role. None may get an answer of a handler.
func TestMalformed(t *testing.T) {
	require.NoKernel(t)
	s := defaults()
	s.Roles.Loopback = 0
	srv := start(t, s, routes())
	seeds := []string{
		"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"POST /record HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\nhello",
		"POST /record HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"GET /read/../metrics HTTP/1.0\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET http://evil.example/any HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic YTpi\r\n\r\n",
		"GET /any HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET /any HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("a", 2*httpd.MaxHeader) + "\r\n\r\n",
	}
	random := rand.New(rand.NewPCG(19, 7))
	var senders sync.WaitGroup
	texts := make(chan []byte)
	for range 8 {
		senders.Go(func() {
			for text := range texts {
				if answer := send(t, srv.Addresses()[0], text); strings.Contains(answer, secret) {
					t.Errorf("%q got %q", text, answer)
				}
			}
		})
	}
	number := 1000
	if require.Long() {
		number = 10_000
	}
	open := &srv.listeners[0].Open
	for i := range number {
		// The server keeps the connection of a bad request for half a second, and refuses connections above its limit.
		for open.Load() > httpd.MaxConnections-20 {
			time.Sleep(time.Millisecond)
		}
		text := []byte(seeds[i%len(seeds)])
		for range random.IntN(4) {
			at := random.IntN(len(text))
			switch random.IntN(3) {
			case 0:
				text[at] = byte(random.Uint32())
			case 1:
				text = append(text[:at], text[min(len(text), at+1+random.IntN(8)):]...)
			default:
				text = append(text[:at], append([]byte(seeds[random.IntN(len(seeds)-1)])[:random.IntN(20)], text[at:]...)...)
			}
			if len(text) == 0 {
				text = []byte("\n")
			}
		}
		texts <- text
	}
	close(texts)
	senders.Wait()
	for open.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	s.Roles.Loopback = settings.Metrics
	use, err := srv.Prepare(s)
	if err != nil {
		t.Fatal(err)
	}
	use()
	status, body := ask(t, newClient(t), request(t, "GET", "http://"+srv.Addresses()[0]+"/metrics", nil))
	checkAnswer(t, "afterwards", status, body, 200)
}

// send sends text in a connection of its own and returns all that comes back.
func send(t *testing.T, addr string, text []byte) string {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer c.Close()
	if _, err := c.Write(text); err != nil {
		return "" // the server closed the connection
	}
	c.(*net.TCPConn).CloseWrite()
	answer, _ := io.ReadAll(io.LimitReader(c, 64<<10)) // an error means that the server closed the connection
	return string(answer)
}

// TestSlowClients checks that clients which send their header slowly hold up nobody, and that their connections are closed.
func TestSlowClients(t *testing.T) {
	require.NoKernel(t)
	srv := startPatient(t, defaults(), routes(), httpd.HeaderTimeout/5)
	addr := srv.Addresses()[0]
	var slow []net.Conn
	for range 100 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: local"); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
	}
	for client := newClient(t); ; { // on a busy machine this client may be too slow, too: the test's time-out ends the loop
		response, err := client.Do(request(t, "GET", "http://"+addr+"/metrics", nil))
		if err != nil {
			continue
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			break
		}
	}
	for _, c := range slow {
		if answer, err := io.ReadAll(c); err == nil && strings.Contains(string(answer), secret) {
			t.Errorf("half a request got %q", answer)
		}
	}
}

// TestManyAtOnce has 200 clients ask at once, of handlers that end only when all others were refused.
func TestManyAtOnce(t *testing.T) {
	require.NoKernel(t)
	const clients = 200
	enough := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-enough
		io.WriteString(w, secret)
	})
	srv := start(t, defaults(), []Route{{Pattern: "/metrics", Roles: settings.Metrics, Handler: handler}})
	statuses, client := make(chan int), newClient(t)
	for range clients {
		go func() {
			response, err := client.Get("http://" + srv.Addresses()[0] + "/metrics")
			if err != nil {
				t.Error(err)
				statuses <- 0
				return
			}
			response.Body.Close()
			statuses <- response.StatusCode
		}()
	}
	got := map[int]int{}
	for range clients - maxRequests {
		got[<-statuses]++
	}
	close(enough)
	for range maxRequests {
		got[<-statuses]++
	}
	if diff := cmp.Diff(map[int]int{200: maxRequests, 503: clients - maxRequests}, got); diff != "" {
		t.Error(diff)
	}
}

func TestManyConnections(t *testing.T) {
	require.NoKernel(t)
	srv := start(t, defaults(), routes())
	open := &srv.listeners[0].Open
	var connections []net.Conn
	for range httpd.MaxConnections {
		c, err := net.Dial("tcp", srv.Addresses()[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		connections = append(connections, c)
	}
	for open.Load() < httpd.MaxConnections {
		time.Sleep(time.Millisecond)
	}
	answer := send(t, srv.Addresses()[0], []byte("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	if refused := srv.Refused()[string(manyConnections)]; answer != "" || refused != 1 {
		t.Errorf("a connection above the limit got %q; %v were refused", answer, refused)
	}
	for _, c := range connections {
		c.Close()
	}
	for open.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	status, body := ask(t, newClient(t), request(t, "GET", "http://"+srv.Addresses()[0]+"/metrics", nil))
	checkAnswer(t, "when connections were closed", status, body, 200)
}

func TestUnixSocket(t *testing.T) {
	require.NoKernel(t)
	path := filepath.Join(t.TempDir(), "bperf.sock")
	left, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false) // as when a process is killed
	left.Close()
	s := defaults()
	s.Listen = []string{"unix:" + path}
	srv := start(t, s, routes())
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("the socket has the permissions %v", got)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", path)
	}}}
	defer client.CloseIdleConnections()
	status, body := ask(t, client, request(t, "POST", "http://any.example/record", nil))
	checkAnswer(t, "over the socket", status, body, 200)
	if _, err := Listen(s, srv.log, nil); err == nil || !strings.Contains(err.Error(), "another process listens there") {
		t.Errorf("a second server: error %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Listen = []string{"unix:" + file}
	if _, err := Listen(s, srv.log, nil); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("in place of a file: error %v", err)
	}
}

// TestReload checks that roles change for connections that exist, and that a bad change changes nothing.
func TestReload(t *testing.T) {
	require.NoKernel(t)
	s := defaults()
	srv := start(t, s, routes())
	c, err := net.Dial("tcp", srv.Addresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answers := bufio.NewReader(c)
	status := func() (int, bool) {
		t.Helper()
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return 0, false
		}
		response, err := http.ReadResponse(answers, nil)
		if err != nil {
			return 0, false
		}
		defer response.Body.Close()
		if _, err := io.ReadAll(response.Body); err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, true
	}
	if got, _ := status(); got != 200 {
		t.Fatalf("status %d", got)
	}
	bad := *s
	bad.WebConfig = filepath.Join(t.TempDir(), "nosuch")
	if _, err := srv.Prepare(&bad); err == nil {
		t.Error("a file that does not exist was accepted")
	}
	if got, _ := status(); got != 200 {
		t.Errorf("after a bad change: status %d", got)
	}
	none := *s
	none.Roles.Loopback = 0
	use, err := srv.Prepare(&none)
	if err != nil {
		t.Fatal(err)
	}
	use()
	if got, open := status(); open && got != 403 {
		t.Errorf("a connection from before the change got status %d", got)
	}
	got, body := ask(t, newClient(t), request(t, "GET", "http://"+srv.Addresses()[0]+"/metrics", nil))
	checkAnswer(t, "after the change", got, body, 403)
}

// TestExposed checks that addresses which everybody reaches need authentication, or --insecure.
func TestExposed(t *testing.T) {
	require.NoKernel(t)
	s := defaults()
	s.Listen = []string{"0.0.0.0:0"}
	if _, err := Listen(s, slog.New(slog.DiscardHandler), nil); err == nil || !strings.Contains(err.Error(), "this needs web_config with TLS") {
		t.Errorf("error %v", err)
	}
	s.Insecure = true
	srv := start(t, s, routes())
	_, port, err := net.SplitHostPort(srv.Addresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/metrics": 200, "/read/x": 403} {
		status, body := ask(t, newClient(t), request(t, "GET", "http://127.0.0.1:"+port+path, nil))
		checkAnswer(t, path, status, body, want)
	}
}

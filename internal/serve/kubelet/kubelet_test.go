package kubelet

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/test/require"
)

const (
	uid   = "6f1d5c3a-9b2e-4a77-8c15-0d2e4f6a8b90"
	first = "containerd://aa"
)

// podList is a list of a pod with one container that has begun and one that has not.
const podList = `{"kind": "PodList", "apiVersion": "v1", "metadata": {"items": 1}, "items": [{"metadata": {"name": "web-0", "namespace": "shop",
"uid": "` + uid + `", "labels": {"name": "other"}}, "spec": {"containers": [{"name": "app"}]}, "status": {"phase": "Running",
"containerStatuses": [{"name": "app", "containerID": "` + first + `", "state": {"running": {}}}, {"name": "slow", "containerID": ""}],
"initContainerStatuses": [{"name": "setup", "containerID": "cri-o://bb"}], "ephemeralContainerStatuses": [{"name": "debug", "containerID": "docker://cc"}]}}]}`

// start returns a client of a server with TLS, which has no names yet.
func start(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	require.NoKernel(t)
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	dir := t.TempDir()
	config := Config{URL: server.URL + "/pods", TokenFile: filepath.Join(dir, "token"), CA: filepath.Join(dir, "ca.crt"), ServerName: "example.com", Every: time.Hour}
	write(t, config.TokenFile, "one\n")
	write(t, config.CA, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	if err := config.Check(); err != nil {
		t.Fatal(err)
	}
	return New(config, slog.New(slog.DiscardHandler))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ask sends a request.
func (c *Client) ask(ctx context.Context) error {
	pods, err := c.request(ctx)
	c.take(pods, err)
	return err
}

// named returns the names of a container of the pod.
func (c *Client) named(id string) string {
	n := container.Name{PodUID: uid, ID: id}
	c.Complete(&n)
	return n.Namespace + "/" + n.Pod + "/" + n.Container
}

func TestNames(t *testing.T) {
	c := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/pods" || r.Method != http.MethodGet || r.Header.Get("Authorization") != "Bearer one" {
			http.Error(w, "no", http.StatusTeapot)
		}
		io.WriteString(w, podList)
	})
	if got := c.named("aa"); got != "//" {
		t.Errorf("names before the first request: %s", got)
	}
	if err := c.ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"aa": "shop/web-0/app", "bb": "shop/web-0/setup", "cc": "shop/web-0/debug", "dd": "shop/web-0/", "": "shop/web-0/"} {
		if got := c.named(id); got != want {
			t.Errorf("container %q is %s, want %s", id, got, want)
		}
	}
	for _, n := range []container.Name{{ID: "aa"}, {ID: "dd", PodUID: "other"}} {
		before := n
		if c.Complete(&n); n != before {
			t.Errorf("%+v became %+v", before, n)
		}
	}
}

// TestUnlisted checks that a container that is not known makes the client ask, but not forever.
func TestUnlisted(t *testing.T) {
	var full atomic.Bool
	var requests atomic.Int64
	c := start(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		if full.Load() {
			io.WriteString(w, podList)
			return
		}
		io.WriteString(w, `{"kind": "PodList", "items": null}`)
	})
	c.soonest = time.Millisecond
	run(t, c)
	await(t, func() bool { return c.Stats().Succeeded > 0 })
	full.Store(true)
	await(t, func() bool { return c.named("aa") == "shop/web-0/app" })
	before := c.Stats().Succeeded
	await(t, func() bool {
		c.named("pause")
		return c.Stats().Succeeded >= before+attempts-1
	})
	for range attempts + 1 { // whatever was asked for before is answered
		c.take(list{}, nil)
	}
	for len(c.wanted) > 0 {
		<-c.wanted
	}
	if c.named("pause"); len(c.wanted) > 0 {
		t.Error("a container that no list has makes the client ask again and again")
	}
	for i := range 2 * mostUnlisted {
		c.named(fmt.Sprint(i))
	}
	if len(c.unlisted) > mostUnlisted {
		t.Errorf("%d containers that no list has are remembered", len(c.unlisted))
	}
}

// run runs the client until the end of the test.
func run(t *testing.T, c *Client) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// await waits for a condition. The limit only ends a hang.
func await(t *testing.T, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen within 3 minutes")
		}
	}
}

// TestTokenChanges checks that the client sends the token and trusts the certificates that the files have now.
func TestTokenChanges(t *testing.T) {
	c := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer two" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		io.WriteString(w, podList)
	})
	if err := c.ask(t.Context()); err == nil || !strings.Contains(err.Error(), "401 Unauthorized: the kubelet takes no request without a token") {
		t.Errorf("error: %v", err)
	}
	write(t, c.config.TokenFile, "two")
	if err := c.ask(t.Context()); err != nil {
		t.Error(err)
	}
	write(t, c.config.CA, "nothing")
	if err := c.ask(t.Context()); err == nil || !strings.Contains(err.Error(), "no certificate in PEM format") {
		t.Errorf("error: %v", err)
	}
	if s := c.Stats(); s.Succeeded != 1 || s.Failed != 2 || s.LastSuccess.IsZero() || s.Err == nil {
		t.Errorf("%+v", s)
	}
}

// TestFaults checks that no answer of the kubelet takes the names away that are known.
func TestFaults(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the client followed a redirection") }))
	defer elsewhere.Close()
	text := func(answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }
	}
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"403":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, "403 Forbidden: the token's service account needs the permission to get nodes/pods"},
		"404":        {http.NotFound, "404 Not Found: the path of the list is /pods"},
		"500":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "500 Internal Server Error"},
		"elsewhere":  {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }, "302 Found"},
		"nothing":    {text(""), "the answer ends early"},
		"cut":        {text(podList[:len(podList)/2]), "the answer ends early"},
		"garbage":    {text("<html>"), "the answer is not a list of pods"},
		"list":       {text("[]"), "the answer is not a list of pods"},
		"empty":      {text("{}"), "the answer is not a list of pods"},
		"other kind": {text(`{"kind": "NodeList", "items": []}`), "the answer is not a list of pods"},
		"no array":   {text(`{"kind": "PodList", "items": {}}`), "the answer is not a list of pods"},
		"no objects": {text(`{"kind": "PodList", "items": [1]}`), "the answer is not a list of pods"},
		"number":     {text(`{"kind": "PodList", "items": [{"metadata": {"name": 1}}]}`), "the answer is not a list of pods"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			line := "[" + strings.Repeat(" ", 64<<10)
			for _, err := io.WriteString(w, `{"kind": "PodList", "metadata": `); err == nil; _, err = io.WriteString(w, line) {
				line = line[1:]
			}
		}, "the answer has more than 16777216 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var broken atomic.Bool
			c := start(t, func(w http.ResponseWriter, r *http.Request) {
				if broken.Load() {
					tt.answer(w, r)
					return
				}
				io.WriteString(w, podList)
			})
			c.timeout = 3 * time.Minute
			if err := c.ask(t.Context()); err != nil {
				t.Fatal(err)
			}
			broken.Store(true)
			c.isRefused(t, tt.want)
		})
	}
}

// isRefused checks that a request fails, and that the names are still known.
func (c *Client) isRefused(t *testing.T, want string) {
	t.Helper()
	err := c.ask(t.Context())
	if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "ask "+c.config.URL+" for the pods: ") {
		t.Errorf("error %v, want %s", err, want)
	}
	if got := c.named("aa"); got != "shop/web-0/app" {
		t.Errorf("then the container is %s", got)
	}
	if c.named("zz"); len(c.wanted) > 0 {
		t.Error("a kubelet that fails is asked early")
	}
}

// TestSlow checks that an answer that does not end has a limit, and that it holds up nobody.
func TestSlow(t *testing.T) {
	var slow atomic.Bool
	c := start(t, func(w http.ResponseWriter, r *http.Request) {
		if !slow.Load() {
			io.WriteString(w, podList)
			return
		}
		io.WriteString(w, podList[:100])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	c.timeout = 3 * time.Minute
	if err := c.ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	slow.Store(true)
	c.timeout = 50 * time.Millisecond
	c.isRefused(t, "no complete answer within 50ms")
}

func TestStrangers(t *testing.T) {
	c := start(t, func(http.ResponseWriter, *http.Request) {
		t.Error("a request was sent to a server that is not the kubelet")
	})
	c.config.ServerName = "node-1"
	if err := c.ask(t.Context()); err == nil || !strings.Contains(err.Error(), "not node-1") {
		t.Errorf("another name: %v", err)
	}
	c.config.ServerName = ""
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ask(t.Context()); err == nil || !strings.Contains(err.Error(), "not "+strings.ToLower(name)) {
		t.Errorf("without a name, this machine's: %v", err)
	}
	c.config.ServerName, c.config.CA = "example.com", ""
	if err := c.ask(t.Context()); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("another authority: %v", err)
	}
}

func TestCheck(t *testing.T) {
	require.NoKernel(t)
	for _, tt := range []struct {
		config Config
		want   string
	}{
		{Config{}, ""},
		{Config{URL: "https://10.0.0.1:10250/pods", TokenFile: "token", Every: time.Minute}, ""},
		{Config{URL: "http://127.0.0.1:10255/pods", Every: time.Minute}, ""},
		{Config{URL: "http://127.0.0.1:10255/pods", TokenFile: "token", Every: time.Minute}, "url: a token is sent by https:// only"},
		{Config{URL: "http://10.0.0.1:10255/pods", Every: time.Minute}, "url: http:// is for loopback addresses only: use https://"},
		{Config{URL: "unix:/run/kubelet", Every: time.Minute}, "url: an address such as https://127.0.0.1:10250/pods is needed"},
		{Config{URL: "ftp://kubelet", Every: time.Minute}, `url: the scheme must be https, not "ftp"`},
		{Config{URL: "https://user:secret@kubelet/pods", Every: time.Minute}, "url: an address such as https://127.0.0.1:10250/pods is needed"},
		{Config{URL: "https://127.0.0.1:10250/pods", Every: time.Millisecond}, "every: 1ms is not from 1s to 1h"},
	} {
		got := ""
		if err := tt.config.Check(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.config, got, tt.want)
		}
	}
}

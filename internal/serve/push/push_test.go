package push

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pprof "github.com/google/pprof/profile"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/serve/push/pushtest"
)

var (
	testStart = time.Unix(1700000000, 5)
	testNode  = Node{Name: "node1", ID: "abc"}
	web       = container.Name{Path: "/kubepods/x", ID: "4f2a4f2a4f2a4f2a", PodUID: "1-2-3", Namespace: "shop", Pod: "web-0", Container: "web"}
)

func testBatch() Batch {
	return Batch{Start: testStart, Length: 15 * time.Second, Profiles: []Profile{{web, pushtest.Profile()}, {container.Name{}, pushtest.Blocked()}},
		Metrics: []*dto.MetricFamily{counters("bperf_node_events_total", 2)}}
}

// counters returns a metric with a number of values.
func counters(name string, values int) *dto.MetricFamily {
	f := &dto.MetricFamily{Name: &name, Type: dto.MetricType_COUNTER.Enum()}
	for i := range values {
		f.Metric = append(f.Metric, &dto.Metric{Label: []*dto.LabelPair{{Name: proto.String("cpu"), Value: proto.String(fmt.Sprintf("c%d.", i))}},
			Counter: &dto.Counter{Value: proto.Float64(float64(i))}})
	}
	return f
}

// step is a clock that stands still while somebody waits for it, until the test has taken the wait from it.
type step struct {
	mu    sync.Mutex
	at    time.Time
	waits chan time.Duration
}

func (s *step) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

func (s *step) wait(ctx context.Context, d time.Duration) {
	select {
	case s.waits <- d:
		s.mu.Lock()
		s.at = s.at.Add(d)
		s.mu.Unlock()
	case <-ctx.Done():
	}
}

// open returns a running queue whose clock the test moves. It sends at once, and waits for as long as it may. Its requests have no time-out,
// because a busy machine may take long for them.
func open(t *testing.T, cfg Config, change func(*Queue)) (*Queue, *step) {
	t.Helper()
	q, err := prepare(cfg, testNode, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	clock := &step{at: time.Unix(1700000100, 0), waits: make(chan time.Duration)}
	q.timeout = time.Hour
	q.phase, q.now, q.wait, q.random = 0, clock.now, clock.wait, func() float64 { return 0 }
	if change != nil {
		change(q)
	}
	go q.run()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = q.Close(ctx)
	})
	return q, clock
}

// serve starts a server for the rest of the test.
func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s
}

func flush(t *testing.T, q *Queue) error {
	t.Helper()
	return q.Close(t.Context())
}

func accept(w http.ResponseWriter, kind string) {
	if kind == "otlp" || kind == MetricsKind {
		w.Header().Set("Content-Type", "application/x-protobuf")
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if kind == "parca" {
		fmt.Fprint(w, "{}")
		return
	}
	w.Header().Set("Content-Encoding", "gzip") // as connect does for requests that are compressed
	z := gzip.NewWriter(w)
	fmt.Fprint(z, "{}")
	_ = z.Close()
}

// TestKinds sends a batch to a server of each kind.
func TestKinds(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("Bearer s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ kind, path, content, encoding string }{
		{"otlp", "/below/v1development/profiles", "application/x-protobuf", "gzip"},
		{MetricsKind, "/below/v1/metrics", "application/x-protobuf", "gzip"},
		{"pyroscope", "/below/push.v1.PusherService/Push", "application/json", "gzip"},
		{"parca", "/below/profiles/writeraw", "application/json", ""},
	} {
		t.Run(test.kind, func(t *testing.T) {
			var body []byte
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				got := []string{r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding"), r.Header.Get("X-Scope-OrgID"),
					r.Header.Get("X-Cluster"), r.Header.Get("Authorization"), r.Header.Get("Accept-Encoding")}
				want := []string{"POST", test.path, test.content, test.encoding, "team", "blue", "Bearer s3cret", "gzip"}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				body = decompress(t, r)
				accept(w, test.kind)
			})
			q, _ := open(t, Config{Kind: test.kind, URL: server.URL + "/below/", Tenant: "team", Headers: map[string]string{"X-Cluster": "blue"},
				HeaderFiles: map[string]string{"authorization": secret}}, nil)
			if err := q.Push(testBatch()); err != nil {
				t.Fatal(err)
			}
			if err := flush(t, q); err != nil {
				t.Fatal(err)
			}
			if s := q.Stats(); s.Accepted != 2 || s.Requests != 1 || s.Bytes == 0 || s.Waiting != 0 || s.WaitingBytes != 0 || s.LastError != "" ||
				s.Dropped != [Reasons]Drop{} || !s.LastSuccess.Equal(q.now()) {
				t.Errorf("stats: %+v", s)
			}
			if test.kind == MetricsKind {
				for _, part := range []string{"service.name", "bperf", "host.name", "node1", "bperf_node_events_total", "c1."} {
					if !bytes.Contains(body, []byte(part)) {
						t.Errorf("%q is missing", part)
					}
				}
				return
			}
			if test.kind == "otlp" {
				for _, part := range []string{"k8s.pod.name", "web-0", "host.name", "node1"} {
					if !bytes.Contains(body, []byte(part)) {
						t.Errorf("%q is missing", part)
					}
				}
				return
			}
			checkSeries(t, test.kind, body)
		})
	}
}

func decompress(t *testing.T, r *http.Request) []byte {
	var in io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return nil
		}
		in = z
	}
	body, err := io.ReadAll(in)
	if err != nil {
		t.Error(err)
	}
	return body
}

// checkSeries checks a request with the profiles of testBatch: a series for each container and event.
func checkSeries(t *testing.T, kind string, body []byte) {
	t.Helper()
	var request struct {
		Series []struct {
			Labels  json.RawMessage
			Samples []struct{ RawProfile []byte }
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	var got []string
	for _, s := range request.Series {
		var labels struct{ Labels []label }
		var err error
		if kind == "parca" {
			err = json.Unmarshal(s.Labels, &labels)
		} else {
			err = json.Unmarshal(s.Labels, &labels.Labels)
		}
		if err != nil || len(s.Samples) != 1 {
			t.Fatalf("%v: %s", err, body)
		}
		p, err := pprof.ParseData(s.Samples[0].RawProfile)
		if err != nil {
			t.Fatal(err)
		}
		var line strings.Builder
		for _, l := range labels.Labels {
			fmt.Fprintf(&line, "%s=%s ", l.Name, l.Value)
		}
		for _, s := range p.SampleType {
			fmt.Fprintf(&line, "%s/%s ", s.Type, s.Unit)
		}
		fmt.Fprintf(&line, "of %s/%s %d, %d samples, %v", p.PeriodType.Type, p.PeriodType.Unit, p.Period, len(p.Sample), p.Sample[0].Value)
		got = append(got, line.String())
		if p.TimeNanos != testStart.UnixNano() || p.DurationNanos != 15e9 {
			t.Errorf("time %d, duration %d", p.TimeNanos, p.DurationNanos)
		}
		if comm := p.Sample[0].Label["comm"]; len(comm) > 0 && comm[0] != "evil?\ufffdname" {
			t.Errorf("comm: %q", comm)
		}
	}
	names := "container=web container_id=4f2a4f2a4f2a4f2a namespace=shop node=node1 pod=web-0 pod_uid=1-2-3 service_name=web "
	want := []string{
		"__name__=process_cpu " + names + "samples/count cpu/nanoseconds of cpu/nanoseconds 35087719, 2 samples, [2 105263157]",
		"__name__=cycles_u " + names + "samples/count cycles_u/count of cycles_u/count 1000003, 2 samples, [1 -1]",
		"__name__=off_cpu node=node1 service_name=node samples/count off_cpu/nanoseconds of off_cpu/nanoseconds 1, 1 samples, [4 123456789]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestBackOff lets attempts fail in each way that passes. The waits between them are what the server asked for, or else grow.
func TestBackOff(t *testing.T) {
	answers := []func(http.ResponseWriter){
		func(w http.ResponseWriter) { w.WriteHeader(500) },
		func(w http.ResponseWriter) { w.Header().Set("Retry-After", "77"); w.WriteHeader(429) },
		func(w http.ResponseWriter) { w.WriteHeader(429) },
		func(w http.ResponseWriter) { // closes the connection without an answer
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				c.Close()
			}
		},
		func(w http.ResponseWriter) { w.Header().Set("Retry-After", "99999999"); w.WriteHeader(503) },
		func(w http.ResponseWriter) { // a date 100 s after all waits so far
			at := time.Unix(1700000100, 0).Add(1*time.Second + 77*time.Second + 4*time.Second + 8*time.Second + longestWait + 100*time.Second)
			w.Header().Set("Retry-After", at.UTC().Format(http.TimeFormat))
			w.WriteHeader(503)
		},
		func(w http.ResponseWriter) { w.Header().Set("Retry-After", "soon"); w.WriteHeader(502) },
		func(w http.ResponseWriter) { accept(w, "pyroscope") },
	}
	var attempt int
	var bodies [][]byte
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		bodies = append(bodies, decompress(t, r))
		attempt++
		answers[attempt-1](w)
	})
	q, clock := open(t, Config{Kind: "pyroscope", URL: server.URL}, nil)
	if err := q.Push(testBatch()); err != nil {
		t.Fatal(err)
	}
	var waits []time.Duration
	for range len(answers) - 1 {
		waits = append(waits, <-clock.waits)
	}
	if err := flush(t, q); err != nil {
		t.Fatal(err)
	}
	want := []time.Duration{1 * time.Second, 77 * time.Second, 4 * time.Second, 8 * time.Second, longestWait, 100 * time.Second, 64 * time.Second}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	if s := q.Stats(); s.Retries != 7 || s.Accepted != 2 || s.Dropped != [Reasons]Drop{} || s.LastError != "" {
		t.Errorf("stats: %+v", s)
	}
	for _, b := range bodies[1:] {
		if !bytes.Equal(b, bodies[0]) {
			t.Error("an attempt had another body")
		}
	}
}

func TestJitter(t *testing.T) {
	q := &Queue{random: func() float64 { return 0.5 }}
	for _, test := range []struct {
		failures    int
		after, want time.Duration
	}{
		{1, 0, 750 * time.Millisecond}, {2, 0, 1500 * time.Millisecond}, {1000, 0, longestWait * 3 / 4}, {1, 8 * time.Second, 9 * time.Second},
		{1, 1000 * time.Hour, longestWait + 1000*time.Hour/8},
	} {
		if test.after > longestWait {
			test.want = longestWait + longestWait/8
		}
		if got := q.backOff(test.failures, test.after); got != test.want {
			t.Errorf("after %d failures, and told %v: %v, want %v", test.failures, test.after, got, test.want)
		}
	}
}

// TestPhase checks that a queue sends its part of a window's length after the push, and at once when it is closed.
func TestPhase(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) { accept(w, "parca") })
	q, clock := open(t, Config{Kind: "parca", URL: server.URL}, func(q *Queue) { q.phase = 0.4 })
	for range 3 {
		if err := q.Push(testBatch()); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-clock.waits; got != 6*time.Second {
		t.Errorf("the first request waits %v, want 6s", got)
	}
	if err := q.Push(testBatch()); err != nil { // due later
		t.Fatal(err)
	}
	if err := flush(t, q); err != nil {
		t.Fatal(err)
	}
	if s := q.Stats(); s.Requests != 4 || s.Waiting != 0 {
		t.Errorf("stats: %+v", s)
	}
	if err := q.Push(testBatch()); !errors.Is(err, ErrClosed) {
		t.Errorf("a push after Close: %v", err)
	}
	if s := q.Stats(); s.Dropped[Closed].Items != 2 || s.Waiting != 0 {
		t.Errorf("stats after Close: %+v", s)
	}
}

// TestStopped pushes to a server that cannot be reached: memory is bounded, what is dropped is counted, and it goes on when the server is
// back.
func TestStopped(t *testing.T) {
	const batches = 100
	served := make(chan struct{}, batches)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		accept(w, "otlp")
		served <- struct{}{}
	})
	var mu sync.Mutex
	down := true
	const limit = 20 << 10
	q, clock := open(t, Config{Kind: "otlp", URL: server.URL}, func(q *Queue) {
		q.limit = limit
		q.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			if down {
				return nil, errors.New("connection refused")
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	})
	for i := range batches {
		if err := q.Push(testBatch()); err != nil {
			t.Fatal(err)
		}
		if s := q.Stats(); s.WaitingBytes > limit || s.Waiting == 0 {
			t.Fatalf("stats after %d: %+v", i, s)
		}
		if i%10 == 0 {
			<-clock.waits // an attempt has failed
		}
	}
	s := q.Stats()
	if s.Dropped[Full].Requests+uint64(s.Waiting) != batches || s.Dropped[Full].Requests == 0 || s.Requests != 0 || !strings.Contains(s.LastError, "refused") {
		t.Errorf("stats: %+v", s)
	}
	mu.Lock()
	down = false
	mu.Unlock()
	for back := false; !back; {
		select {
		case <-clock.waits: // an attempt that began before has failed
		case <-served:
			back = true
		}
	}
	if err := flush(t, q); err != nil {
		t.Fatal(err)
	}
	s = q.Stats()
	if s.Requests+s.Dropped[Full].Requests != batches || s.Requests == 0 || s.Dropped[Closed] != (Drop{}) || s.LastError != "" || s.Waiting != 0 || s.WaitingBytes != 0 {
		t.Errorf("stats at the end: %+v", s)
	}
}

// TestSlow has a server that does not answer: Push does not wait for it, another queue sends, and Close ends the request.
func TestSlow(t *testing.T) {
	arrived, gone := make(chan struct{}), make(chan struct{})
	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	quick := serve(t, func(w http.ResponseWriter, r *http.Request) { accept(w, "parca") })
	held, _ := open(t, Config{Kind: "otlp", URL: slow.URL}, func(q *Queue) { q.limit = 8 << 10 })
	other, _ := open(t, Config{Kind: "parca", URL: quick.URL}, nil)
	for range 50 {
		for _, q := range []*Queue{held, other} {
			if err := q.Push(testBatch()); err != nil {
				t.Fatal(err)
			}
		}
	}
	<-arrived
	if err := flush(t, other); err != nil {
		t.Fatal(err)
	}
	if s := other.Stats(); s.Requests != 50 {
		t.Errorf("the other queue: %+v", s)
	}
	if s := held.Stats(); s.WaitingBytes > 8<<10 || s.Dropped[Full].Requests+uint64(s.Waiting) != 50 {
		t.Errorf("the slow one: %+v", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := held.Close(ctx); err == nil || !strings.Contains(err.Error(), "were not sent") {
		t.Errorf("Close: %v", err)
	}
	<-gone
	if s := held.Stats(); s.Waiting != 0 || s.WaitingBytes != 0 || s.Dropped[Closed].Requests+s.Dropped[Full].Requests != 50 {
		t.Errorf("after Close: %+v", s)
	}
}

// TestAnswers has servers whose answers are errors that do not pass, or no answers of the protocol. The next request is sent.
func TestAnswers(t *testing.T) {
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect to another host was followed") })
	answer := func(status int, content, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", content)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	redirect := func(to string, status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, status) }
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for r.Context().Err() == nil {
			if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<16)); err != nil {
				return
			}
		}
	}
	bomb := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		for range 100 { // 6 MB, of which the queue reads a hundredth
			_, _ = z.Write(make([]byte, answerLimit))
		}
		_ = z.Close()
	}
	for _, test := range []struct {
		name, kind string
		handler    http.HandlerFunc
		reason     Reason
		items      uint64
		want       string
	}{
		{"bad request", "otlp", answer(400, "text/plain", "no\x1b[31m such\nthing s3cret-token"), Refused, 2, `400 Bad Request: "no\x1b[31m such\nthing [secret]"`},
		{"too large", "parca", answer(413, "text/plain", ""), Refused, 2, "413 Request Entity Too Large"},
		{"to another host", "otlp", redirect(elsewhere.URL, 307), Refused, 2, "307 Temporary Redirect to \"http://127.0.0.1"},
		{"to a GET", "pyroscope", redirect("/login", 302), Refused, 2, "302 Found to \"/login\""},
		{"in a circle", "pyroscope", redirect("/push.v1.PusherService/Push", 308), Refused, 2, "308 Permanent Redirect"},
		{"a page", "otlp", answer(200, "text/html", "<html>log in"), Misread, 2, "which is not that of OTLP"},
		{"a page for Pyroscope", "pyroscope", answer(200, "text/html", "<html>log in"), Misread, 2, "not JSON"},
		{"no JSON", "parca", answer(200, "application/json", "{"), Misread, 2, "no JSON"},
		{"no protobuf", "otlp", answer(200, "application/x-protobuf", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), Misread, 2, "no protobuf message"},
		{"bomb", "pyroscope", bomb, Misread, 2, "no JSON"},
		{"endless", "parca", endless, Misread, 2, "no JSON"},
		{"one rejected", "otlp", answer(200, "application/x-protobuf", "\x0a\x09\x08\x01\x12\x05quota"), Rejected, 1, "rejected 1 profiles: quota"},
		{"a value rejected", MetricsKind, answer(200, "application/x-protobuf", "\x0a\x09\x08\x01\x12\x05quota"), Rejected, 1, "rejected 1 values of metrics: quota"},
		{"more rejected than sent", "otlp", answer(200, "application/x-protobuf", "\x0a\x06\x08\xff\xff\xff\xff\x0f"), Rejected, 2, "rejected 4294967295 profiles"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			server := serve(t, test.handler)
			q, _ := open(t, Config{Kind: test.kind, URL: server.URL, Headers: map[string]string{"Authorization": "s3cret-token"}}, func(q *Queue) {
				q.log = slog.New(slog.NewTextHandler(&log, nil))
			})
			for range 2 {
				if err := q.Push(testBatch()); err != nil {
					t.Fatal(err)
				}
			}
			if err := flush(t, q); err != nil {
				t.Error(err)
			}
			s := q.Stats()
			if d := s.Dropped[test.reason]; d.Items != 2*test.items || s.Accepted != 2*(2-test.items) || s.Retries != 0 || s.Waiting != 0 {
				t.Errorf("stats: %+v", s)
			}
			if !strings.Contains(s.LastError, test.want) || strings.ContainsAny(s.LastError, "\n\x1b") {
				t.Errorf("error %q, want %q", s.LastError, test.want)
			}
			if lines := strings.Count(log.String(), "\n"); lines != 1 || strings.Contains(log.String(), "s3cret") {
				t.Errorf("log: %s", log.String())
			}
		})
	}
}

// TestRedirectHere follows a redirect on the same host, with the body.
func TestRedirectHere(t *testing.T) {
	var bodies int
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/new" {
			http.Redirect(w, r, "/new", http.StatusPermanentRedirect)
			return
		}
		if len(decompress(t, r)) > 0 {
			bodies++
		}
		accept(w, "otlp")
	})
	q, _ := open(t, Config{Kind: "otlp", URL: server.URL}, nil)
	if err := q.Push(testBatch()); err != nil {
		t.Fatal(err)
	}
	if err := flush(t, q); err != nil {
		t.Fatal(err)
	}
	if s := q.Stats(); s.Requests != 1 || bodies != 1 {
		t.Errorf("%d bodies, %+v", bodies, s)
	}
}

// TestFaulty has a server that fails at one request. After some attempts the queue drops it, and sends the next one.
func TestFaulty(t *testing.T) {
	var attempts int
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if attempts++; attempts <= faultyAttempts {
			w.WriteHeader(500)
			return
		}
		accept(w, "otlp")
	})
	q, clock := open(t, Config{Kind: "otlp", URL: server.URL}, nil)
	for range 2 {
		if err := q.Push(testBatch()); err != nil {
			t.Fatal(err)
		}
	}
	for range faultyAttempts {
		<-clock.waits
	}
	if err := flush(t, q); err != nil {
		t.Fatal(err)
	}
	if s := q.Stats(); s.Dropped[Refused].Requests != 1 || s.Requests != 1 || s.Retries != faultyAttempts-1 {
		t.Errorf("stats: %+v", s)
	}
}

// TestRequests checks that large batches become several requests, and that nothing is in two of them.
func TestRequests(t *testing.T) {
	b := Batch{Start: testStart, Length: time.Second}
	for i := range 40 {
		b.Profiles = append(b.Profiles, Profile{container.Name{Container: fmt.Sprintf("c%d.", i)}, pushtest.Large(i, 1000)})
	}
	for _, protocol := range protocols() {
		if protocol.kind == MetricsKind {
			continue
		}
		all, err := protocol.encode(&testNode, &b)
		if err != nil {
			t.Fatal(err)
		}
		var profiles uint64
		var bodies []byte
		for _, r := range all {
			profiles += r.items
			bodies = append(bodies, r.body...)
			if len(r.body) > 2*requestSize {
				t.Errorf("%s: a request has %d bytes", protocol.kind, len(r.body))
			}
		}
		if len(all) < 2 || profiles != 40 {
			t.Errorf("%s: %d requests with %d profiles", protocol.kind, len(all), profiles)
		}
		for i := range 40 {
			if n := bytes.Count(bodies, fmt.Appendf(nil, "c%d.", i)); n == 0 || n > 2 { // two labels have the name
				t.Errorf("%s: container %d is there %d times", protocol.kind, i, n)
			}
		}
	}
}

func TestService(t *testing.T) {
	for want, name := range map[string]container.Name{
		"web": web, "web-0": {Pod: "web-0", ID: "4f"}, "0123456789ab": {ID: "0123456789abcdef", Path: "/docker/x"}, "nginx.service": {Path: "/system.slice/nginx.service"},
		"node": {Path: "/"},
	} {
		if got := service(&name); got != want {
			t.Errorf("%+v: %q, want %q", name, got, want)
		}
	}
	if got := service(&container.Name{}); got != "node" {
		t.Errorf("without a container: %q", got)
	}
	if got := testNode.resource(&container.Name{}); len(got) != 3 || !slices.IsSortedFunc(testNode.labels("x", &web), func(a, b label) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("attributes of the node: %v", got)
	}
}

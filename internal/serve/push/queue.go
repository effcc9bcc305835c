package push

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// queueLimit bounds the requests that wait for a server, in bytes.
const queueLimit = 8 << 20

// Queue sends profiles or metrics to a server, oldest first. If the server does not keep up, the queue drops the oldest ones that are not
// being sent. Its methods may be called by several goroutines.
type Queue struct {
	cfg      Config
	node     Node
	protocol protocol
	url      *url.URL
	headers  http.Header
	client   *http.Client
	log      *slog.Logger

	// timeout is for a whole request. limit bounds the requests that wait, in bytes. phase is the part of a window's length after which requests are sent: it is random,
	// so that the nodes of a fleet do not send at once.
	timeout time.Duration
	limit   int
	phase   float64

	now    func() time.Time
	wait   func(context.Context, time.Duration)
	random func() float64

	requests context.Context // of all requests
	abort    context.CancelFunc
	pauses   context.Context // of all waiting: it is done as soon as Close is called
	hurry    context.CancelFunc
	wake     chan struct{} // there is a new request
	done     chan struct{}

	mu      sync.Mutex
	waiting []request // oldest first
	sending bool      // waiting[0] is being sent
	stats   Stats
}

// request is a request to a server.
type request struct {
	body     []byte
	encoding string // of the body, such as "gzip"
	items    uint64 // profiles, or values of metrics
	due      time.Time
}

// cost is the memory that a waiting request takes, in bytes.
func (r *request) cost() int { return cap(r.body) + 128 }

// Open checks the configuration and starts a queue. It does not connect to the server. The caller must call Close.
func Open(cfg Config, node Node, log *slog.Logger) (*Queue, error) {
	q, err := prepare(cfg, node, log)
	if err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	go q.run()
	return q, nil
}

// prepare returns a queue that does not run yet.
func prepare(cfg Config, node Node, log *slog.Logger) (*Queue, error) {
	q := &Queue{cfg: cfg, node: node, timeout: requestTime, limit: queueLimit, phase: rand.Float64(),
		now: time.Now, wait: sleep, random: rand.Float64,
		wake: make(chan struct{}, 1), done: make(chan struct{})}
	var err error
	if q.protocol, err = cfg.protocol(); err != nil {
		return nil, err
	}
	if q.url, err = cfg.endpoint(q.protocol.path); err != nil {
		return nil, err
	}
	if q.headers, err = cfg.headers(); err != nil {
		return nil, err
	}
	if _, err = cfg.secrets(); err != nil {
		return nil, err
	}
	if q.client, err = cfg.client(); err != nil {
		return nil, err
	}
	q.stats = Stats{Kind: cfg.Kind, URL: q.url.String(), Limit: q.limit}
	q.log = log.With("kind", cfg.Kind, "url", q.stats.URL)
	q.requests, q.abort = context.WithCancel(context.Background())
	q.pauses, q.hurry = context.WithCancel(q.requests)
	return q, nil
}

// sleep returns after d, or as soon as ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ErrClosed is the error of Push after Close.
var ErrClosed = errors.New("the queue is closed")

// Push encodes a batch and queues it. It does not wait for the server. With an error, parts of the batch are lost, and counted as such.
func (q *Queue) Push(b Batch) error {
	requests, err := q.protocol.encode(&q.node, &b)
	if err != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.stats.drop(Unencodable, b.items(), 0)
		return fmt.Errorf("encode what is to be pushed to %s: %w", q.stats.URL, err)
	}
	due := q.now().Add(time.Duration(q.phase * float64(max(0, b.Length))))
	for i := range requests {
		requests[i].due = due
		if q.protocol.gzip {
			requests[i].compress()
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range requests {
		if q.pauses.Err() != nil {
			q.stats.drop(Closed, r.items, len(r.body))
			err = ErrClosed
			continue
		}
		q.add(r)
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return err
}

// add queues a request. It makes room for it by dropping older ones.
func (q *Queue) add(r request) {
	for q.stats.WaitingBytes+r.cost() > q.limit {
		oldest := 0
		if q.sending {
			oldest = 1
		}
		if len(q.waiting) <= oldest {
			q.stats.drop(Full, r.items, len(r.body))
			return
		}
		q.stats.drop(Full, q.waiting[oldest].items, len(q.waiting[oldest].body))
		q.remove(oldest)
	}
	q.waiting = append(q.waiting, r)
	q.stats.Waiting++
	q.stats.WaitingBytes += r.cost()
}

func (q *Queue) remove(i int) {
	q.stats.Waiting--
	q.stats.WaitingBytes -= q.waiting[i].cost()
	q.waiting = slices.Delete(q.waiting, i, i+1)
}

// run sends requests until the queue is closed and empty.
func (q *Queue) run() {
	defer close(q.done)
	for failures := 0; ; {
		r, ok := q.next()
		if !ok {
			return
		}
		if early := r.due.Sub(q.now()); failures == 0 && early > 0 {
			q.wait(q.pauses, early)
		}
		if r, ok = q.start(); !ok {
			continue
		}
		o := q.send(&r)
		if o.err == nil || !o.retry {
			failures = 0
		} else if failures++; o.faulty && failures >= faultyAttempts {
			o.retry = false
		}
		q.finish(&r, &o)
		if failures > 0 {
			q.wait(q.pauses, q.backOff(failures, o.after))
		}
	}
}

// next returns the oldest request, for which it waits. It returns false when the queue is closed and empty.
func (q *Queue) next() (request, bool) {
	for {
		q.mu.Lock()
		if len(q.waiting) > 0 {
			defer q.mu.Unlock()
			return q.waiting[0], true
		}
		q.mu.Unlock()
		if q.pauses.Err() != nil {
			return request{}, false
		}
		select {
		case <-q.wake:
		case <-q.pauses.Done():
		}
	}
}

// start returns the oldest request, which then stays in the queue until finish.
func (q *Queue) start() (request, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return request{}, false
	}
	q.sending = true
	return q.waiting[0], true
}

// finish removes the request from the queue, unless it is to be sent again. When the queue is closing, nothing is sent again, and what
// waits is dropped: the server is not there.
func (q *Queue) finish(r *request, o *outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sending = false
	healthy := q.stats.LastError == ""
	q.stats.count(r, o, q.now())
	switch {
	case o.retry && q.pauses.Err() != nil:
		for len(q.waiting) > 0 {
			q.stats.drop(Closed, q.waiting[0].items, len(q.waiting[0].body))
			q.remove(0)
		}
	case !o.retry:
		q.remove(0)
	}
	switch {
	case o.err != nil && healthy:
		q.log.Warn("cannot push", "error", q.stats.LastError, "retry", o.retry)
	case o.err == nil && !healthy:
		q.log.Info("pushes again")
	}
}

// The waits between attempts: the first one, and the longest.
const (
	firstWait   = time.Second
	longestWait = 5 * time.Minute
)

// faultyAttempts is the number of failures in succession after which a request is dropped that makes the server fail. Another one may not.
const faultyAttempts = 10

// backOff returns how long to wait after a number of failures in succession. after is what the server asked for.
func (q *Queue) backOff(failures int, after time.Duration) time.Duration {
	wait := firstWait << min(failures-1, 20)
	wait = min(wait, longestWait)
	wait -= time.Duration(q.random() * float64(wait/2))
	if after > wait {
		after = min(after, longestWait)
		wait = after + time.Duration(q.random()*float64(after/4))
	}
	return wait
}

// Close sends what waits, without pauses, until ctx is done or the server fails. It returns an error if profiles could not be sent. The
// queue takes no profiles from then on.
func (q *Queue) Close(ctx context.Context) error {
	q.mu.Lock()
	q.hurry()
	before := q.stats.Dropped[Closed]
	q.mu.Unlock()
	defer context.AfterFunc(ctx, q.abort)()
	<-q.done
	q.abort()
	q.client.CloseIdleConnections()
	q.mu.Lock()
	defer q.mu.Unlock()
	if lost := q.stats.Dropped[Closed].Items - before.Items; lost > 0 {
		return fmt.Errorf("push to %s: %d %s were not sent before the end: %s", q.stats.URL, lost, q.stats.Items(), q.stats.LastError)
	}
	return nil
}

// Metrics reports whether the server gets metrics and no profiles.
func (q *Queue) Metrics() bool { return q.protocol.kind == MetricsKind }

// Stats returns what the queue has done so far.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stats
}

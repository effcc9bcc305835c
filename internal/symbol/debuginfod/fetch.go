package debuginfod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// slowest is how many bytes a server must send within settings.timeout.
const slowest = 100 << 10

// mostFaults is the number of wrong answers after which a server is asked no more.
const mostFaults = 4

// webClient asks servers.
type webClient struct {
	settings *settings
	display  *display
	servers  []*server
	client   *http.Client
	total    atomic.Int64 // bytes of all files
}

// server is a server and its reputation.
type server struct {
	url    *url.URL
	faults atomic.Int32
}

func (w *webClient) init(s *settings, d *display) {
	w.settings, w.display = s, d
	for _, u := range s.servers {
		w.servers = append(w.servers, &server{url: u})
	}
	w.client = &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxHeaders,
			MaxIdleConnsPerHost: atOnce, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: w.checkRedirect,
	}
}

// checkRedirect lets a server send bperf only to servers that the user named.
func (w *webClient) checkRedirect(to *http.Request, before []*http.Request) error {
	const most = 5
	if len(before) > most {
		return fmt.Errorf("it redirects more than %d times", most)
	}
	scheme := to.URL.Scheme
	if scheme != "https" && (scheme != "http" || before[0].URL.Scheme == "https") {
		return fmt.Errorf("it redirects to %s, and bperf follows only to https, or from http to http", address(to.URL))
	}
	if !slices.ContainsFunc(w.servers, func(s *server) bool { return s.url.Host == to.URL.Host }) {
		return fmt.Errorf("it redirects to %s, which is not in $DEBUGINFOD_URLS", address(to.URL))
	}
	return nil
}

// address returns the scheme and host of a URL, without a password.
func address(u *url.URL) string { return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String() }

// reply is a server's answer to a request.
type reply struct {
	of     *server
	body   io.ReadCloser
	size   int64 // in bytes; 0 if unknown
	pace   *pace
	cancel context.CancelCauseFunc
	ctx    context.Context
	err    error // ErrMissing, or what is wrong
}

// fetch writes what the servers answer to a request to a file. It asks all of them at once, and takes the first file that passes the check.
func (w *webClient) fetch(ctx context.Context, q request, to *os.File, t *transfer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	replies := make(chan *reply, len(w.servers)) // has room for all, so that no request waits for this function
	var asking sync.WaitGroup
	asked := 0
	for _, s := range w.servers {
		if s.faults.Load() < mostFaults {
			asked++
			asking.Go(func() { replies <- w.ask(ctx, s, q.path) })
		}
	}
	defer func() {
		cancel()
		asking.Wait() // they end at once
		for close(replies); ; {
			r, more := <-replies
			if !more {
				return
			}
			r.close()
		}
	}()
	var failed error
	if asked < len(w.servers) {
		failed = errors.New("not all debuginfod servers are asked any more, because of their earlier answers")
	}
	for range asked {
		r := <-replies
		err := r.err
		if err == nil {
			err = w.take(r, to, min(w.settings.maxSize, q.limit), t)
			if err == nil {
				err = checked(to, q.check)
			}
		}
		r.close()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrMissing):
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		}
		failed = w.blame(r.of, err)
	}
	return cmp.Or(failed, ErrMissing)
}

// errSilent is the cause of the end of a request to a server that is not there or does not answer.
var errSilent = errors.New("no answer")

// blame notes a server's problem, and returns it.
func (w *webClient) blame(s *server, err error) error {
	name := address(s.url)
	var large *sizeError
	if errors.As(err, &large) { // this is not the server's fault
		w.display.note(fmt.Sprintf("debuginfod at %s: %v", name, err))
		return fmt.Errorf("debuginfod at %s: %w", name, err)
	}
	faults := s.faults.Add(1)
	if errors.Is(err, errSilent) {
		s.faults.Store(mostFaults)
		faults = mostFaults
	}
	switch faults {
	case 1:
		w.display.note(fmt.Sprintf("debuginfod at %s: %v", name, err))
	case mostFaults:
		w.display.note(fmt.Sprintf("debuginfod at %s is asked no more: %v", name, err))
	}
	return fmt.Errorf("debuginfod at %s: %w", name, err)
}

// checked checks a file that has come.
func checked(f *os.File, check func(*os.File) error) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return check(f)
}

// sizeError reports a file that is too large.
type sizeError struct{ why string }

func (e *sizeError) Error() string { return e.why }

// ask sends a request to a server, and returns the answer with its body still unread.
func (w *webClient) ask(ctx context.Context, s *server, path string) *reply {
	r := &reply{of: s}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.pace = startPace(w.settings, r.cancel)
	defer r.pace.stop()
	u := *s.url
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/")+"/"+path, ""
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		r.err = err
		return r
	}
	req.Header.Set("User-Agent", "bperf")
	for name, values := range w.settings.headers {
		req.Header[name] = values
	}
	answer, err := w.client.Do(req)
	if err != nil {
		r.err = r.explain(err)
		return r
	}
	r.body = answer.Body
	switch answer.StatusCode {
	case http.StatusOK:
		r.size = max(0, answer.ContentLength)
		if n, err := strconv.ParseInt(answer.Header.Get("X-Debuginfod-Size"), 10, 64); err == nil && r.size == 0 {
			r.size = max(0, n)
		}
	case http.StatusNotFound, http.StatusGone:
		r.err = ErrMissing
	default:
		r.err = fmt.Errorf("it answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	return r
}

// explain returns what the error of a request means.
func (r *reply) explain(err error) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	var of *url.Error // repeats the URL
	if errors.As(err, &of) {
		err = of.Err
	}
	var refused interface{ Timeout() bool } // errors of the network have it
	if errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	return err
}

func (r *reply) close() {
	r.cancel(nil)
	if r.body != nil {
		_ = r.body.Close() // nothing is lost
	}
}

// take writes a server's answer of at most limit bytes to a file, from its beginning.
func (w *webClient) take(r *reply, to *os.File, limit int64, t *transfer) error {
	tooLarge := &sizeError{fmt.Sprintf("a file has more than %d bytes, which is the limit", limit)}
	if limit == w.settings.maxSize {
		tooLarge.why += " ($DEBUGINFOD_MAXSIZE)"
	}
	if r.size > limit {
		return tooLarge
	}
	if _, err := to.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := to.Truncate(0); err != nil {
		return err
	}
	r.pace = startPace(w.settings, r.cancel)
	defer r.pace.stop()
	buffer, got := make([]byte, 64<<10), int64(0)
	for {
		n, err := r.body.Read(buffer)
		got += int64(n)
		switch {
		case got > limit:
			return tooLarge
		case w.total.Add(int64(n)) > maxTotal:
			return &sizeError{fmt.Sprintf("all files together have more than %d GiB", maxTotal>>30)}
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return &sizeError{err.Error()}
		}
		r.pace.add(n)
		t.set(got, r.size)
		switch {
		case errors.Is(err, io.EOF) && got == 0:
			return errors.New("it answers with an empty file")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return r.explain(err)
		}
	}
}

// pace ends the request to a server that sends less than slowest bytes within settings.timeout, or that takes longer than settings.maxTime.
type pace struct {
	got   atomic.Int64 // bytes since the last check
	whole *time.Timer
	mu    sync.Mutex
	timer *time.Timer // nil without a limit
	ended bool
}

func startPace(s *settings, cancel context.CancelCauseFunc) *pace {
	limit := s.timeout
	p := &pace{whole: time.AfterFunc(s.maxTime, func() {
		cancel(fmt.Errorf("%w: a file takes longer than %v, and $DEBUGINFOD_MAXTIME sets that time, in seconds", errSilent, s.maxTime))
	})}
	if limit == 0 {
		return p
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(limit, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.ended {
			return
		}
		if p.got.Swap(0) < slowest {
			cancel(fmt.Errorf("%w: it sends less than %d bytes in %v, and $DEBUGINFOD_TIMEOUT sets that time, in seconds", errSilent, slowest, limit))
			return
		}
		p.timer.Reset(limit)
	})
	return p
}

func (p *pace) add(n int) { p.got.Add(int64(n)) }

func (p *pace) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.whole.Stop()
	if p.timer != nil {
		p.timer.Stop()
	}
}

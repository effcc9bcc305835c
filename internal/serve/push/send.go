package push

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/serve/push/otlp"
)

const (
	requestTime = 30 * time.Second // for a whole request
	answerLimit = 64 << 10         // bytes of an answer that are read
	quoteLimit  = 200              // bytes of an answer that an error quotes
)

// outcome is what became of a request.
type outcome struct {
	err      error
	retry    bool          // the request may succeed later
	faulty   bool          // the server failed, and the request may be why
	after    time.Duration // the wait that the server asked for
	reason   Reason        // why the request is dropped, with an error that does not pass
	rejected uint64        // profiles or values that the server rejected; err says why
}

// compress compresses the body, if that makes it smaller.
func (r *request) compress() {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // the level is valid
	_, _ = w.Write(r.body)                            // a buffer takes everything
	_ = w.Close()
	if out.Len() < len(r.body) {
		r.body, r.encoding = bytes.Clone(out.Bytes()), "gzip"
	}
}

// send sends a request once. Its error has no secrets, even if the server's answer has.
func (q *Queue) send(r *request) outcome {
	secrets, err := q.cfg.secrets()
	if err != nil {
		return outcome{err: err, retry: true}
	}
	o := q.exchange(r, secrets)
	if o.err == nil {
		return o
	}
	text := o.err.Error()
	for _, known := range []map[string]string{secrets, q.cfg.Headers} {
		for _, value := range known {
			if value != "" {
				text = strings.ReplaceAll(text, value, "[secret]")
			}
		}
	}
	o.err = errors.New(text)
	return o
}

func (q *Queue) exchange(r *request, secrets map[string]string) outcome {
	ctx, cancel := context.WithTimeout(q.requests, q.timeout)
	defer cancel()
	hr, err := http.NewRequestWithContext(ctx, http.MethodPost, q.url.String(), bytes.NewReader(r.body))
	if err != nil {
		return outcome{err: err, reason: Unencodable}
	}
	hr.Header = q.headers.Clone()
	for name, value := range secrets {
		hr.Header.Set(name, value)
	}
	hr.Header.Set("Content-Type", q.protocol.content)
	if r.encoding != "" {
		hr.Header.Set("Content-Encoding", r.encoding)
	}
	if hr.Header.Get("User-Agent") == "" {
		hr.Header.Set("User-Agent", "bperf")
	}
	answer, err := q.client.Do(hr)
	if err != nil {
		return outcome{err: cause(err), retry: true}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerLimit)) // what follows is not read: the connection is closed
	if answer.StatusCode/100 != 2 {
		return q.refusal(answer, body)
	}
	if err != nil {
		return outcome{err: fmt.Errorf("read the answer: %w", cause(err)), retry: true}
	}
	rejected, why, err := q.protocol.check(answer.Header.Get("Content-Type"), body)
	if err != nil {
		return outcome{err: fmt.Errorf("%s, but %w%s", answer.Status, err, quote(body)), reason: Misread}
	}
	if rejected > 0 {
		return outcome{err: fmt.Errorf("the server rejected %d %s: %s", rejected, itemsOf(q.cfg.Kind), why), rejected: rejected}
	}
	return outcome{}
}

// cause returns the error of a request without the URL and method, which the caller adds.
func cause(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v", requestTime)
	}
	return err
}

// refusal returns the outcome of an answer without success. 429 and 5xx pass; others do not.
func (q *Queue) refusal(answer *http.Response, body []byte) outcome {
	err := fmt.Errorf("%s%s", answer.Status, quote(body))
	switch {
	case answer.StatusCode == http.StatusInternalServerError || answer.StatusCode == http.StatusNotImplemented:
		return outcome{err: err, retry: true, faulty: true, reason: Refused, after: q.retryAfter(answer.Header.Get("Retry-After"))}
	case answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= 500:
		return outcome{err: err, retry: true, after: q.retryAfter(answer.Header.Get("Retry-After"))}
	case answer.StatusCode/100 == 3:
		return outcome{err: fmt.Errorf("%s to %q, which bperf does not follow: configure the address of the server itself", answer.Status,
			otlp.Label(answer.Header.Get("Location"))), reason: Refused}
	}
	return outcome{err: err, reason: Refused}
}

// quote returns the beginning of an answer, for an error.
func quote(body []byte) string {
	text := strings.TrimSpace(string(body[:min(len(body), quoteLimit)]))
	if text == "" {
		return ""
	}
	return fmt.Sprintf(": %q", strings.ToValidUTF8(text, "?"))
}

// retryAfter returns the wait that a server asks for, in either form of the header (RFC 9110, section 10.2.3); 0 if it asks for none.
func (q *Queue) retryAfter(header string) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, at.Sub(q.now()))
	}
	return 0
}

package push

import (
	"time"

	"github.com/bperf/bperf/internal/printable"
)

// Stats are the numbers of a queue since it was opened.
type Stats struct {
	Kind, URL string // the URL has no secrets

	Waiting      int // requests in the queue
	WaitingBytes int // their memory
	Limit        int // of WaitingBytes

	Accepted uint64 // profiles that the server accepted, one for each container and window; or values of metrics
	Requests uint64 // that the server accepted
	Bytes    uint64 // of these requests, after compression
	Retries  uint64 // attempts that failed and were, or are, repeated

	Dropped [Reasons]Drop // by Reason

	LastSuccess time.Time
	LastError   string // of the last attempt; "" if it succeeded
	LastFailure time.Time
}

// Items returns what the server gets, in the plural.
func (s *Stats) Items() string { return itemsOf(s.Kind) }

func itemsOf(kind string) string {
	if kind == MetricsKind {
		return "values of metrics"
	}
	return "profiles"
}

// Drop counts what did not reach the server.
type Drop struct {
	Items, Requests, Bytes uint64 // Items are profiles, or values of metrics
}

// Reason is why something was dropped.
type Reason int

// The reasons.
const (
	Full        Reason = iota // the queue was full
	Refused                   // the server refused a request: the status was neither a success nor one that passes
	Rejected                  // the server took a request and rejected some of its items
	Misread                   // the server's answer was not one of its protocol
	Unencodable               // it could not be encoded
	Closed                    // the queue was closed before it was sent

	Reasons = int(iota) // the number of reasons
)

// String returns the reason as a label.
func (r Reason) String() string {
	return [...]string{"queue_full", "refused", "rejected", "bad_answer", "not_encoded", "closed"}[r]
}

func (s *Stats) drop(why Reason, items uint64, size int) {
	d := &s.Dropped[why]
	d.Items += items
	d.Requests++
	d.Bytes += uint64(size)
}

// count adds the outcome of an attempt.
func (s *Stats) count(r *request, o *outcome, now time.Time) {
	if o.err != nil {
		s.LastError, s.LastFailure = printable.Text(o.err.Error()), now
	} else {
		s.LastError, s.LastSuccess = "", now
	}
	switch {
	case o.retry:
		s.Retries++
	case o.err != nil && o.rejected == 0:
		s.drop(o.reason, r.items, len(r.body))
	default:
		rejected := min(o.rejected, r.items)
		if rejected > 0 {
			s.Dropped[Rejected].Items += rejected
		}
		s.Accepted += r.items - rejected
		s.Requests++
		s.Bytes += uint64(len(r.body))
	}
}

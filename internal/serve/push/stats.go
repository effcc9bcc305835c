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

	Profiles uint64 // that the server accepted, one for each container and window
	Requests uint64 // that the server accepted
	Bytes    uint64 // of these requests, after compression
	Retries  uint64 // attempts that failed and were, or are, repeated

	Dropped [Reasons]Drop // by Reason

	LastSuccess time.Time
	LastError   string // of the last attempt; "" if it succeeded
	LastFailure time.Time
}

// Drop counts profiles that did not reach the server.
type Drop struct {
	Profiles, Requests, Bytes uint64
}

// Reason is why profiles were dropped.
type Reason int

// The reasons.
const (
	Full        Reason = iota // the queue was full
	Refused                   // the server refused a request: the status was neither a success nor one that passes
	Rejected                  // the server took a request and rejected some of its profiles
	Misread                   // the server's answer was not one of its protocol
	Unencodable               // the profile could not be encoded
	Closed                    // the queue was closed before the profile was sent

	Reasons = int(iota) // the number of reasons
)

// String returns the reason as a label.
func (r Reason) String() string {
	return [...]string{"queue_full", "refused", "rejected", "bad_answer", "not_encoded", "closed"}[r]
}

func (s *Stats) drop(why Reason, profiles uint64, size int) {
	d := &s.Dropped[why]
	d.Profiles += profiles
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
		s.drop(o.reason, r.profiles, len(r.body))
	default:
		rejected := min(o.rejected, r.profiles)
		if rejected > 0 {
			s.Dropped[Rejected].Profiles += rejected
		}
		s.Profiles += r.profiles - rejected
		s.Requests++
		s.Bytes += uint64(len(r.body))
	}
}

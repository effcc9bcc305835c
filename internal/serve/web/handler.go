package web

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bperf/bperf/internal/httpd"
	"github.com/bperf/bperf/internal/serve/settings"
)

// statuses are the statuses of refused requests. Those without one get 403.
var statuses = map[refusal]int{
	badPassword:    http.StatusUnauthorized,
	tooManyGuesses: http.StatusTooManyRequests,
	wrongMethod:    http.StatusMethodNotAllowed,
	tooLarge:       http.StatusRequestEntityTooLarge,
	busy:           http.StatusServiceUnavailable,
}

// rolesKey is the key of a client's roles in contexts.
type rolesKey struct{}

// ServeHTTP finds out who asks before anything else.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.survive(r)
	httpd.SetHeaders(w.Header())
	select {
	case s.running <- struct{}{}:
		defer func() { <-s.running }()
	default:
		s.refuse(w, r, busy)
		return
	}
	p := s.policy.Load()
	if r.Context().Value(policyKey{}) != p {
		w.Header().Set("Connection", "close")
	}
	l := r.Context().Value(listenerKey{}).(*listener)
	roles, refused := p.rolesOf(r, l)
	if refused == "" && roles == 0 {
		refused = noRole
	}
	if refused == "" && new(http.CrossOriginProtection).Check(r) != nil {
		refused = crossOrigin
	}
	if refused != "" {
		s.refuse(w, r, refused)
		return
	}
	s.routes.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), rolesKey{}, roles)))
}

// survive logs a panic of a handler, and ends the connection.
func (s *Server) survive(r *http.Request) {
	fault := recover()
	if fault == nil {
		return
	}
	if err, is := fault.(error); is && errors.Is(err, http.ErrAbortHandler) {
		panic(fault) // the handler wants the connection to end
	}
	s.log.Error("a handler panicked", "path", clipped(r.URL.Path), "fault", fault, "stack", string(debug.Stack()))
	panic(http.ErrAbortHandler) // a part of the response may have been sent
}

// refuse answers with the status of the reason. The log has more, but at level debug only, because clients could fill it.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, why refusal) {
	s.refused.count(why)
	s.log.Debug("refused", "reason", string(why), "client", r.RemoteAddr,
		"method", clipped(r.Method), "host", clipped(r.Host), "path", clipped(r.URL.Path))
	status, listed := statuses[why]
	if !listed {
		status = http.StatusForbidden
	}
	switch why {
	case badPassword:
		w.Header().Set("WWW-Authenticate", `Basic realm="bperf"`)
	case busy, tooManyGuesses:
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, http.StatusText(status), status)
}

// refusals counts what was refused, by reason.
type refusals struct {
	mu     sync.Mutex
	counts map[string]uint64
}

func (r *refusals) count(why refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = make(map[string]uint64)
	}
	r.counts[string(why)]++
}

func (r *refusals) all() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}

// clipped returns the beginning of what a client sent, for a log, which escapes control characters itself.
func clipped(s string) string { return s[:min(len(s), 200)] }

// limited returns a route's handler, which checks everything that the route limits.
func (s *Server) limited(route Route) http.Handler {
	methods := route.Methods
	if len(methods) == 0 {
		methods = []string{http.MethodGet, http.MethodHead}
	}
	timeout := route.Timeout
	if timeout == 0 {
		timeout = httpd.DefaultTimeout
	}
	var running chan struct{}
	if route.Limit > 0 {
		running = make(chan struct{}, route.Limit)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if roles, _ := r.Context().Value(rolesKey{}).(settings.RoleSet); roles&route.Roles == 0 {
			s.refuse(w, r, noRole)
			return
		}
		if !slices.Contains(methods, r.Method) {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			s.refuse(w, r, wrongMethod)
			return
		}
		if r.ContentLength > route.MaxBody {
			s.refuse(w, r, tooLarge)
			return
		}
		if running != nil {
			select {
			case running <- struct{}{}:
				defer func() { <-running }()
			default:
				s.refuse(w, r, busy)
				return
			}
		}
		r.Body = http.MaxBytesReader(w, r.Body, route.MaxBody)
		end := time.Now().Add(timeout)
		ctx, cancel := context.WithDeadline(r.Context(), end)
		defer cancel()
		control := http.NewResponseController(w)
		// The server reads while a handler runs, to see when the client goes away: the time-out of reading would end the handler.
		if err := errors.Join(control.SetReadDeadline(end), control.SetWriteDeadline(end)); err != nil {
			s.log.Debug("set the time-out of a connection", "error", err)
			panic(http.ErrAbortHandler)
		}
		route.Handler.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Package web is the HTTP server of the daemon: addresses, TLS, who may do what, and limits on everything that clients send.
package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/bperf/bperf/internal/httpd"
	"github.com/bperf/bperf/internal/serve/settings"
)

// Limits of requests.
const (
	maxRequests  = 64 // at once
	shutdownTime = 5 * time.Second
)

// Route is a handler and who may use it.
type Route struct {
	Pattern string           // path as in http.ServeMux, without method: a trailing slash stands for all paths below
	Roles   settings.RoleSet // of which the client needs one
	Methods []string         // GET and HEAD if empty
	Timeout time.Duration    // from the request to the end of the response; httpd.DefaultTimeout if 0
	MaxBody int64            // bytes; a request may have no body if 0
	Limit   int              // of requests at once, besides that of the server; none if 0
	Handler http.Handler     // its context ends at the time-out, and when the client goes away
}

// Server answers requests at the addresses of its settings.
type Server struct {
	log       *slog.Logger
	listeners []*listener
	policy    atomic.Pointer[policy]
	routes    *http.ServeMux
	running   chan struct{} // has an element for each request
	refused   refusals
	server    *http.Server
}

// Listen opens the addresses of the settings. Serve answers their requests.
func Listen(s *settings.Settings, log *slog.Logger, routes []Route) (*Server, error) {
	p, err := newPolicy(s)
	if err != nil {
		return nil, err
	}
	srv := &Server{
		log:     log,
		routes:  http.NewServeMux(),
		running: make(chan struct{}, maxRequests),
	}
	srv.policy.Store(p)
	for _, r := range routes {
		srv.routes.Handle(r.Pattern, srv.limited(r))
	}
	for _, addr := range s.Listen {
		l, err := listen(addr)
		if err != nil {
			return nil, errors.Join(err, srv.Close())
		}
		l.TooMany = func() { srv.refused.count(manyConnections) }
		srv.listeners = append(srv.listeners, l)
		if err := p.check(l); err != nil {
			return nil, errors.Join(err, srv.Close())
		}
	}
	srv.server = srv.newServer()
	return srv, nil
}

func (s *Server) newServer() *http.Server {
	server := httpd.NewServer(s, slog.NewLogLogger(s.log.Handler(), slog.LevelDebug))
	server.TLSConfig = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return s.policy.Load().tls, nil
	}}
	server.BaseContext = func(l net.Listener) context.Context {
		return context.WithValue(context.Background(), listenerKey{}, l.Addr().(address).of)
	}
	server.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, policyKey{}, s.policy.Load())
	}
	return server
}

// listenerKey and policyKey are the keys of a connection's listener, and of the policy when it was accepted, in contexts.
type (
	listenerKey struct{}
	policyKey   struct{}
)

// Refused returns the numbers of requests and connections that the server refused, by reason.
func (s *Server) Refused() map[string]uint64 { return s.refused.all() }

// Addresses returns the addresses that the server listens on. Those with the port 0 have the port that the kernel chose.
func (s *Server) Addresses() []string {
	var all []string
	for _, l := range s.listeners {
		all = append(all, l.readable)
	}
	return all
}

// Serve answers requests until the context ends, and then lets those that run end within shutdownTime. It returns an error if an address
// failed earlier. The server is closed afterwards.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		go func() { failed <- s.serve(l) }()
	}
	var err error
	running := len(s.listeners)
	select {
	case <-ctx.Done():
	case err = <-failed:
		running--
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if s.server.Shutdown(patience) != nil {
		s.server.Close() // the requests that still run are cut off
	}
	for range running {
		if e := <-failed; err == nil {
			err = e
		}
	}
	return err
}

func (s *Server) serve(l *listener) error {
	p := s.policy.Load()
	withTLS := p.tls != nil && l.reach != unixOwner
	s.log.Info("listening", "address", l.readable, "tls", withTLS, "authentication", p.authenticates() && l.reach != unixOwner)
	if l.reach == everybody && !(p.tls != nil && p.authenticates()) {
		s.log.Warn("INSECURE: everybody who reaches this address gets answers; use web_config instead of --insecure", "address", l.readable)
	}
	var err error
	if withTLS {
		err = s.server.ServeTLS(l, "", "")
	} else {
		err = s.server.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve %s: %w", l.readable, err)
}

// Close closes the addresses of a server that does not serve.
func (s *Server) Close() error {
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// Prepare reads what the settings say about clients, and returns a function that makes the server use it. The addresses stay as they are.
// Without an error, use cannot fail. Idle connections are closed then, and others after their request: they were checked by the old rules.
func (s *Server) Prepare(changed *settings.Settings) (use func(), err error) {
	p, err := newPolicy(changed)
	if err != nil {
		return nil, err
	}
	if had := s.policy.Load().tls != nil; had != (p.tls != nil) {
		return nil, errors.New("web_config: TLS can be added or removed only at a restart")
	}
	for _, l := range s.listeners {
		if err := p.check(l); err != nil {
			return nil, err
		}
	}
	return func() {
		s.policy.Store(p)
		s.server.SetKeepAlivesEnabled(false) // closes idle connections
		s.server.SetKeepAlivesEnabled(true)
	}, nil
}

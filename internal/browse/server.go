package browse

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/httpd"
)

// DefaultAddress is the address without one of the user's: the kernel chooses the port.
const DefaultAddress = "127.0.0.1:0"

// shutdownTime is how long requests may still run at the end.
const shutdownTime = 2 * time.Second

// maxWaiting is the number of requests that wait while another is answered.
const maxWaiting = 16

// Server serves pages to whoever has its token.
type Server struct {
	listener *httpd.Listener
	address  netip.AddrPort
	token    string
	pages    http.Handler
	waiting  chan struct{} // has an element for each request
	turn     chan struct{} // has an element while a request is answered
}

// CheckAddress checks an address without listening: it is HOST:PORT, and the host is a loopback address or localhost.
func CheckAddress(addr string) error {
	_, err := parseAddress(addr)
	return err
}

func parseAddress(addr string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is not HOST:PORT, as %s", addr, DefaultAddress)
	}
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q: the port is not a number from 0 to 65535", addr)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.Unmap().IsLoopback() {
		return netip.AddrPort{}, fmt.Errorf("%q is no loopback address, and a profile shows what this machine does: serve it at %s, and reach it from "+
			"another machine through a tunnel: ssh -L 8000:127.0.0.1:PORT THIS-MACHINE", addr, DefaultAddress)
	}
	return netip.AddrPortFrom(ip, uint16(number)), nil
}

// Listen opens a loopback address. Serve answers requests there with pages.
func Listen(addr string, pages http.Handler) (*Server, error) {
	want, err := parseAddress(addr)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", want.String())
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return &Server{
		listener: &httpd.Listener{Listener: l},
		address:  l.Addr().(*net.TCPAddr).AddrPort(),
		token:    rand.Text(),
		pages:    pages,
		waiting:  make(chan struct{}, maxWaiting),
		turn:     make(chan struct{}, 1),
	}, nil
}

// URL returns the address of the first page, with the token.
func (s *Server) URL() string { return "http://" + s.address.String() + "/?token=" + s.token }

// Serve answers requests until the context ends.
func (s *Server) Serve(ctx context.Context) error {
	server := httpd.NewServer(s, log.New(io.Discard, "", 0))
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(s.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", s.address, err)
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if server.Shutdown(patience) != nil {
		server.Close() // the requests that still run are cut off
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", s.address, err)
	}
	return nil
}

// ServeHTTP finds out who asks before anything else. Requests are answered one after the other: each may take a CPU for a second.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	httpd.SetHeaders(w.Header())
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "only GET and HEAD are answered")
		return
	case r.ContentLength != 0:
		refuse(w, http.StatusRequestEntityTooLarge, "requests have no body here")
		return
	case !s.isAddressed(r.Host):
		refuse(w, http.StatusForbidden, "this host name is not the one of the page: open the address that bperf has printed")
		return
	case r.URL.Path == "/" && r.URL.Query().Has("token"):
		s.admit(w, r)
		return
	case !s.knows(r):
		refuse(w, http.StatusForbidden, "open the whole address that bperf has printed, with its token")
		return
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, "too many requests wait")
		return
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-r.Context().Done():
		return
	}
	s.pages.ServeHTTP(w, r)
}

// isAddressed reports whether the host of a request is this server. A page in the browser of this machine could send requests here by a
// name of its own that resolves to 127.0.0.1 (DNS rebinding).
func (s *Server) isAddressed(hostPort string) bool {
	host, ok := strings.CutSuffix(hostPort, ":"+strconv.Itoa(int(s.address.Port())))
	if !ok {
		return false
	}
	ip := s.address.Addr().String()
	return strings.EqualFold(host, "localhost") || host == ip || host == "["+ip+"]"
}

// cookie is the name of the cookie. Servers at other ports of the host share its cookies, so each has a name of its own.
func (s *Server) cookie() string { return "bperf-" + strconv.Itoa(int(s.address.Port())) }

// admit sets the cookie for the right token. The browser then goes on to the address without the token, so that no history or link has it.
// An HTTP redirect would still be the navigation of the page that had the link, to which a strict cookie is not sent.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) {
	if !s.isToken(r.URL.Query().Get("token")) {
		refuse(w, http.StatusForbidden, "this token is not the one that bperf has printed")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: s.cookie(), Value: s.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/"><title>bperf</title></head>`+
		`<body><a href="/">Go on to the profile</a></body></html>`) // the client is gone if it fails
}

func (s *Server) knows(r *http.Request) bool {
	c, err := r.Cookie(s.cookie())
	return err == nil && s.isToken(c.Value)
}

func (s *Server) isToken(text string) bool {
	return subtle.ConstantTimeCompare([]byte(text), []byte(s.token)) == 1
}

func refuse(w http.ResponseWriter, status int, why string) { http.Error(w, "bperf: "+why, status) }

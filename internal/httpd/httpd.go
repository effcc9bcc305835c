// Package httpd is what the HTTP servers of bperf have in common: limits on what clients send and open, and the headers of answers.
package httpd

import (
	"crypto/sha256"
	"encoding/base64"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of connections and requests.
const (
	HeaderTimeout  = 5 * time.Second // for a TLS handshake and the header of a request
	readTimeout    = 10 * time.Second
	idleTimeout    = 2 * time.Minute // longer than the interval of scrapes
	MaxHeader      = 16 << 10        // bytes
	MaxConnections = 256             // to one address

	// DefaultTimeout is the time-out from the request to the end of the response.
	DefaultTimeout = 30 * time.Second
)

// NewServer returns an HTTP/1.1 server with the limits. HTTP/2 would let one connection have many requests, which nobody needs here. errors
// gets errors that clients cause.
func NewServer(handler http.Handler, errors *log.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           handler,
		Protocols:         protocols,
		ReadHeaderTimeout: HeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      DefaultTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    MaxHeader,
		ErrorLog:          errors,

		DisableGeneralOptionsHandler: true, // it answers before anybody checks the client
	}
}

// SetHeaders sets the headers of each response. A handler of a page may replace Content-Security-Policy. There are no headers for CORS:
// pages of others may read nothing.
func SetHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cache-Control", "no-store")
}

// Source returns the source expression of Content-Security-Policy that allows an inline style or script with this text.
func Source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Listener accepts connections to one address. It closes those above MaxConnections at once.
type Listener struct {
	net.Listener
	Open    atomic.Int64 // connections
	TooMany func()       // is called for each connection above the limit, unless it is nil
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.Open.Add(1) <= MaxConnections {
			return &conn{Conn: c, of: l}, nil
		}
		l.Open.Add(-1)
		if l.TooMany != nil {
			l.TooMany()
		}
		c.Close()
	}
}

// conn is a connection that a listener counts until it is closed.
type conn struct {
	net.Conn
	of   *Listener
	once sync.Once
}

func (c *conn) Close() error {
	c.once.Do(func() { c.of.Open.Add(-1) })
	return c.Conn.Close()
}

// CloseWrite ends the stream to the client. Without it, net/http keeps a client that it refused waiting for half a second.
func (c *conn) CloseWrite() error {
	if stream, is := c.Conn.(interface{ CloseWrite() error }); is { // TCP and Unix sockets are
		return stream.CloseWrite()
	}
	return nil
}

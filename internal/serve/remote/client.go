package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/serve/tlsfiles"
)

// Node is a node that runs bperf serve.
type Node struct {
	Name   string // for people: the host, with its port unless that is DefaultPort; or the path of the socket
	url    *url.URL
	socket string // path of a Unix socket, or empty
}

// DefaultPort is the port of a node without one.
const DefaultPort = "9465"

// ParseNode parses the address of a node: https://HOST:PORT, HOST:PORT or HOST for HTTPS, http://HOST:PORT for a loopback address,
// unix:PATH.
func ParseNode(address string) (*Node, error) {
	if path, is := strings.CutPrefix(address, "unix:"); is {
		if path == "" {
			return nil, errors.New("unix: needs the path of a socket")
		}
		return &Node{Name: path, url: &url.URL{Scheme: "http", Host: "localhost", Path: "/session"}, socket: path}, nil
	}
	full := address
	if !strings.Contains(full, "://") {
		full = "https://" + full
	}
	u, err := url.Parse(full)
	if err != nil || u.Host == "" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("a node is https://HOST:PORT, HOST:PORT, http://127.0.0.1:PORT or unix:PATH") // the address may have a password
	}
	if u.Scheme == "http" && !tlsfiles.IsLoopback(u.Hostname()) {
		return nil, fmt.Errorf("%s: http:// is for loopback addresses only: use https://", u.Redacted())
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s: the scheme must be https, http or unix", u.Redacted())
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), DefaultPort)
	}
	u.Path = "/session"
	name := u.Host
	if u.Port() == DefaultPort {
		name = u.Hostname()
	}
	return &Node{Name: name, url: u}, nil
}

// Limits of a client.
const (
	dialTime   = 10 * time.Second
	answerTime = 30 * time.Second // until the session begins
	maxMessage = 4 << 10          // bytes of a refusal
)

// Run runs a session on the node, copies its output, and returns how it ended. A value from stop asks the node to end it in order. The
// session is cut off when the context ends.
func (n *Node) Run(ctx context.Context, config *tls.Config, request Request, stop <-chan struct{}, stdout, stderr io.Writer) (End, error) {
	line, err := json.Marshal(request)
	if err != nil {
		return End{}, err
	}
	if line = append(line, '\n'); len(line) > maxRequest {
		return End{}, fmt.Errorf("the arguments have %d bytes as JSON: at most %d are possible", len(line), maxRequest)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body, further := io.Pipe()
	defer further.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url.String(), struct{ io.Reader }{io.MultiReader(bytes.NewReader(line), body)})
	if err != nil {
		return End{}, err
	}
	r.Close = true
	r.Header.Set("Expect", "100-continue") // a node that refuses does not wait for the end of the body
	r.Header.Set("Content-Type", "application/json")
	late := time.AfterFunc(answerTime, func() { cancel(fmt.Errorf("it did not answer within %v", answerTime)) })
	client := n.client(config)
	defer client.CloseIdleConnections()
	response, err := client.Do(r)
	if err != nil {
		return End{}, connectError(ctx, err)
	}
	defer response.Body.Close()
	if !late.Stop() {
		return End{}, context.Cause(ctx)
	}
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != contentType {
		return End{}, refusal(response)
	}
	go func() {
		select {
		case <-stop:
			further.Write([]byte(stopLine + "\n")) // fails when the session has ended
		case <-ctx.Done():
		}
	}()
	end, err := copyFrames(response.Body, stdout, stderr)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return end, err
}

// client returns an HTTP client for one request to the node.
func (n *Node) client(config *tls.Config) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	dialer := &net.Dialer{Timeout: dialTime}
	transport := &http.Transport{
		DialContext:           dialer.DialContext,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   dialTime,
		ExpectContinueTimeout: answerTime,
		Protocols:             protocols,
		DisableKeepAlives:     true,
		DisableCompression:    true,
	}
	if n.socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", n.socket)
		}
	}
	// A node that sends the client elsewhere is none.
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// connectError returns the error of a request without its address, which may have a password.
func connectError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if outer := (*url.Error)(nil); errors.As(err, &outer) {
		return outer.Err
	}
	return err
}

// refusal returns the error for a response that is no session.
func refusal(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxMessage)) // what has arrived is enough for a message
	message := printable.Text(strings.TrimSpace(string(text)))
	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("the node refuses (%s): sessions need the role record there", printable.Text(response.Status))
	case http.StatusNotFound:
		return errors.New("there is no bperf serve with sessions at this address")
	case http.StatusServiceUnavailable:
		return fmt.Errorf("the node has no room for another session now: try again in %s s", printable.Text(response.Header.Get("Retry-After")))
	case http.StatusBadRequest:
		return errors.New(message)
	}
	return fmt.Errorf("the node answers %s: %s", printable.Text(response.Status), message)
}

// Package push sends profiles to servers: to those that take OpenTelemetry's profiles, to Pyroscope and to Parca. Each server has a queue
// of its own, which is bounded in bytes, so that a server that is slow or away costs neither memory nor the profiles of the others.
package push

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/serve/tlsfiles"
	"github.com/bperf/bperf/internal/userfile"
)

// Config is a server that profiles are sent to, as the daemon's configuration file has it.
type Config struct {
	// Kind is "otlp", "pyroscope" or "parca" for profiles, or "otlp-metrics".
	Kind string `yaml:"kind"`

	// URL is the address of the server, such as https://pyroscope:4040, with the path below which its API is, if that is not "/".
	URL string `yaml:"url"`

	// Headers are sent with each request. HeaderFiles are those whose values are secrets: the value is the content of a file, which is
	// read for each request, so that tokens can be replaced.
	Headers     map[string]string `yaml:"headers,omitempty"`
	HeaderFiles map[string]string `yaml:"header_files,omitempty"`

	TLS tlsfiles.Client `yaml:"tls,omitempty"` // its certificates are read for each connection

	// Tenant is sent as X-Scope-OrgID, which is how Pyroscope separates tenants.
	Tenant string `yaml:"tenant,omitempty"`
}

// MetricsKind is the kind of servers that get metrics and no profiles.
const MetricsKind = "otlp-metrics"

// protocol is what one kind of server wants.
type protocol struct {
	kind    string
	path    string // of the method
	content string // the type of requests
	gzip    bool   // requests may be compressed
	encode  func(*Node, *Batch) ([]request, error)

	// check reads the answer to a request that succeeded. It returns the number of profiles that the server rejected nevertheless, and why.
	check func(content string, body []byte) (rejected uint64, why string, err error)
}

func protocols() []protocol {
	return []protocol{
		{kind: "otlp", path: "/v1development/profiles", content: "application/x-protobuf", gzip: true, encode: encodeOTLP, check: checkOTLP},
		{kind: MetricsKind, path: "/v1/metrics", content: "application/x-protobuf", gzip: true, encode: encodeMetrics, check: checkOTLP},
		{kind: "pyroscope", path: "/push.v1.PusherService/Push", content: "application/json", gzip: true, encode: encodePyroscope, check: checkJSON},
		{kind: "parca", path: "/profiles/writeraw", content: "application/json", encode: encodeParca, check: checkJSON},
	}
}

// protocol returns the protocol of a server.
func (c *Config) protocol() (protocol, error) {
	var kinds []string
	for _, p := range protocols() {
		if p.kind == c.Kind {
			return p, nil
		}
		kinds = append(kinds, p.kind)
	}
	return protocol{}, fmt.Errorf("kind %q: valid kinds are %s", c.Kind, strings.Join(kinds, ", "))
}

// endpoint returns the URL of a method.
func (c *Config) endpoint(method string) (*url.URL, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return nil, errors.New("the URL is invalid: write it as https://HOST:PORT") // the error may show a password
	case u.User != nil:
		return nil, errors.New("the URL has a name or password: give it as a header, from a file (header_files: Authorization)")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("the URL has a query or a fragment: leave out what follows the path")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("URL %s: write it as https://HOST:PORT or http://HOST:PORT", c.URL)
	case u.Hostname() == "":
		return nil, fmt.Errorf("URL %s: the host is missing: write it as https://HOST:PORT", c.URL)
	case u.Scheme == "http" && c.TLS != (tlsfiles.Client{}):
		return nil, fmt.Errorf("URL %s: there are TLS settings for it, which need https", c.URL)
	}
	if !strings.HasSuffix(u.Path, method) {
		u.Path = path.Join("/", u.Path, method)
	}
	return u, nil
}

// ownHeaders are set by this package, or by the HTTP client.
var ownHeaders = []string{"Host", "Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Connection",
	"Upgrade", "Te", "Trailer", "X-Scope-Orgid"}

// headers returns the headers with values that are known, and checks the names of all.
func (c *Config) headers() (http.Header, error) {
	out := http.Header{}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		if strings.ContainsFunc(c.Headers[name], isControl) {
			return nil, fmt.Errorf("header %q: its value has control characters", name)
		}
		out.Set(name, c.Headers[name])
	}
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(c.Headers)), slices.Sorted(maps.Keys(c.HeaderFiles))) {
		switch {
		case name == "" || strings.ContainsFunc(name, isNoNameCharacter):
			return nil, fmt.Errorf("header %q: names have letters, digits and hyphens", name)
		case slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)):
			return nil, fmt.Errorf("header %q: bperf sets it itself; the tenant has its own setting", name)
		}
	}
	if strings.ContainsFunc(c.Tenant, isControl) {
		return nil, fmt.Errorf("tenant %q: it has control characters", c.Tenant)
	}
	if c.Tenant != "" {
		out.Set("X-Scope-OrgID", c.Tenant)
	}
	return out, nil
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

func isNoNameCharacter(c rune) bool {
	return !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '_')
}

// fileLimit bounds files with secrets, in bytes.
const fileLimit = 1 << 20

// secrets returns the values of the headers from files.
func (c *Config) secrets() (map[string]string, error) {
	values := map[string]string{}
	for name, file := range c.HeaderFiles {
		f, err := userfile.Read(file, fileLimit)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
		values[name] = strings.TrimSpace(string(f.Data))
		if strings.ContainsFunc(values[name], isControl) {
			return nil, fmt.Errorf("header %s: %s has more than one line", name, file)
		}
	}
	return values, nil
}

// client returns a client with time-outs for each step. It keeps one connection. It takes compressed answers, because Pyroscope compresses
// the answers to compressed requests, even if the client asks for others.
func (c *Config) client() (*http.Client, error) {
	config, err := c.TLS.Config()
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: 10 * time.Second}
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: answerLimit,
		MaxConnsPerHost:        1,
		IdleConnTimeout:        2 * time.Minute,
	}
	return &http.Client{Transport: transport, CheckRedirect: checkRedirect}, nil
}

// checkRedirect follows redirects on the same host only: others would get profiles, and the headers with secrets. A redirect that turns the
// request into a GET would lose its profiles.
func checkRedirect(to *http.Request, via []*http.Request) error {
	from := via[0].URL
	if len(via) > 3 || to.URL.Host != from.Host || to.URL.Scheme != from.Scheme || to.Method != http.MethodPost {
		return http.ErrUseLastResponse
	}
	return nil
}

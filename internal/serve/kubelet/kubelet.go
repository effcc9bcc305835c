// Package kubelet asks the kubelet of this node for the names of its pods and containers, in the background.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/serve/tlsfiles"
	"github.com/bperf/bperf/internal/userfile"
)

// Config says which kubelet to ask, and how.
type Config struct {
	URL        string        // of its list of pods
	TokenFile  string        // with the token of a service account; "" for none. It is read for each request, so that it can be replaced
	CA         string        // file with the certificates that sign the kubelet's, read as the token is; "" for those of the system
	ServerName string        // in the kubelet's certificate; "" for the URL's host, or this machine's name if that is a loopback address
	Every      time.Duration // between two requests; they are up to a tenth of it earlier or later
}

// The limits of requests and of what they keep.
const (
	soonest      = 5 * time.Second  // between two requests, if a container is not known
	requestTime  = 10 * time.Second // of a request, its answer included
	answerBytes  = 16 << 20
	tokenBytes   = 64 << 10
	attempts     = 3    // lists that may lack a container: a pause container is in none
	mostUnlisted = 4096 // containers that lists lack
)

// Check checks the values.
func (c *Config) Check() error {
	if c.URL == "" {
		return nil
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return errors.New("url: an address such as https://127.0.0.1:10250/pods is needed")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("url: the scheme must be https, not %q", printable.Text(u.Scheme))
	case u.Scheme == "http" && !tlsfiles.IsLoopback(u.Hostname()):
		return errors.New("url: http:// is for loopback addresses only: use https://")
	case u.Scheme == "http" && c.TokenFile != "":
		return errors.New("url: a token is sent by https:// only")
	case c.Every < time.Second || c.Every > time.Hour:
		return fmt.Errorf("every: %v is not from 1s to 1h", c.Every)
	}
	return nil
}

// Stats are the numbers of a Client.
type Stats struct {
	Succeeded, Failed uint64 // requests
	LastSuccess       time.Time
	Err               error // of the last request; nil if it succeeded, or if there was none yet
}

// Client knows the names that the kubelet last gave. It is safe for concurrent use.
type Client struct {
	config  Config
	log     *slog.Logger
	soonest time.Duration
	timeout time.Duration
	wanted  chan struct{} // a container is not known

	mu       sync.Mutex // guards all below
	stats    Stats
	list     list
	unlisted map[string]uint64 // successful requests when a container was first looked up in vain, by its ID
}

// New returns a Client that knows no names. Run asks for them.
func New(config Config, log *slog.Logger) *Client {
	return &Client{config: config, log: log, soonest: soonest, timeout: requestTime,
		wanted: make(chan struct{}, 1), unlisted: make(map[string]uint64)}
}

// Complete adds the names of a container that the kubelet has given. It waits for nothing: the kubelet is asked later if it has not given
// them. Only containers in cgroups of the kubelet have any.
func (c *Client) Complete(n *container.Name) {
	if n.PodUID == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, is := c.list.pods[n.PodUID]; is {
		n.Namespace, n.Pod = p.namespace, p.name
	}
	if in, is := c.list.containers[n.ID]; is {
		n.Namespace, n.Pod, n.Container = in.namespace, in.pod.name, in.name
		return
	}
	if c.worthAsking(n.ID) {
		select {
		case c.wanted <- struct{}{}:
		default:
		}
	}
}

// worthAsking reports whether the next list may have a container that this one lacks.
func (c *Client) worthAsking(id string) bool {
	if c.stats.Err != nil {
		return false // the interval is often enough for a kubelet that does not answer
	}
	first, known := c.unlisted[id]
	if !known {
		if len(c.unlisted) >= mostUnlisted {
			clear(c.unlisted)
		}
		first = c.stats.Succeeded
		c.unlisted[id] = first
	}
	return c.stats.Succeeded-first < attempts
}

// Stats returns the numbers.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Run asks the kubelet until the context ends.
func (c *Client) Run(ctx context.Context) {
	for ctx.Err() == nil {
		pods, err := c.request(ctx)
		if ctx.Err() != nil {
			return
		}
		c.take(pods, err)
		c.wait(ctx)
	}
}

// take takes the outcome of a request. Names that are known stay with an error.
func (c *Client) take(pods list, err error) {
	c.mu.Lock()
	before := c.stats.Err
	c.stats.Err = err
	if err != nil {
		c.stats.Failed++
	} else {
		c.stats.Succeeded++
		c.stats.LastSuccess = time.Now()
		c.list = pods
	}
	c.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		c.log.Warn("the kubelet gives no names of pods", "error", err)
	case err == nil && before != nil:
		c.log.Info("the kubelet gives names of pods again")
	}
}

// wait waits until the next request is due.
func (c *Client) wait(ctx context.Context) {
	due := time.NewTimer(time.Duration((0.9 + 0.2*rand.Float64()) * float64(c.config.Every)))
	defer due.Stop()
	early := time.NewTimer(c.soonest)
	defer early.Stop()
	var wanted <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-due.C:
			return
		case <-early.C:
			wanted = c.wanted
		case <-wanted:
			return
		}
	}
}

// request asks the kubelet for its pods.
func (c *Client) request(ctx context.Context) (list, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	pods, err := c.exchange(ctx)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("no complete answer within %v", c.timeout)
	}
	if err != nil {
		return list{}, fmt.Errorf("ask %s for the pods: %w", printable.Text(c.config.URL), err)
	}
	return pods, nil
}

func (c *Client) exchange(ctx context.Context) (list, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.config.URL, nil)
	if err != nil {
		return list{}, err
	}
	r.Header.Set("User-Agent", "bperf")
	r.Header.Set("Accept", "application/json")
	if c.config.TokenFile != "" {
		token, err := userfile.Read(c.config.TokenFile, tokenBytes)
		if err != nil {
			return list{}, fmt.Errorf("the token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token.Data)))
	}
	client, err := c.client(r.URL)
	if err != nil {
		return list{}, err
	}
	defer client.CloseIdleConnections()
	answer, err := client.Do(r)
	if err != nil {
		if outer := (*url.Error)(nil); errors.As(err, &outer) { // the caller adds the address
			err = outer.Err
		}
		return list{}, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return list{}, errors.New("the answer is " + printable.Short(answer.Status, 80) + remedy(answer.StatusCode))
	}
	return decode(answer.Body, answerBytes)
}

// remedy returns what may fix a status.
func remedy(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return ": the kubelet takes no request without a token that it accepts: see kubelet.token_file"
	case http.StatusForbidden:
		return ": the token's service account needs the permission to get nodes/pods (before Kubernetes 1.33: nodes/proxy)"
	case http.StatusNotFound:
		return ": the path of the list is /pods"
	}
	return ""
}

// client returns an HTTP client for one request, with the certificates as they are now. It follows no redirection, and uses no proxy: both
// would send the token elsewhere.
func (c *Client) client(u *url.URL) (*http.Client, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if u.Scheme == "https" {
		files := tlsfiles.Client{CA: c.config.CA, ServerName: c.config.ServerName}
		if files.ServerName == "" && tlsfiles.IsLoopback(u.Hostname()) {
			name, err := os.Hostname()
			if err != nil {
				return nil, fmt.Errorf("find the name in the kubelet's certificate: %w", err)
			}
			files.ServerName = strings.ToLower(name) // as the kubelet writes it
		}
		var err error
		if transport.TLSClientConfig, err = files.Config(); err != nil {
			return nil, err
		}
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: transport, CheckRedirect: stay}, nil
}

package web

import (
	"crypto/sha256"
	"encoding/binary"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/bperf/bperf/internal/serve/settings"
)

// refusal is the reason why a request is refused. It is the label of the metric too.
type refusal string

const (
	badPassword     refusal = "authentication"
	tooManyGuesses  refusal = "guesses"
	wrongHost       refusal = "host"
	noRole          refusal = "role"
	crossOrigin     refusal = "origin"
	wrongMethod     refusal = "method"
	tooLarge        refusal = "body"
	busy            refusal = "busy"
	manyConnections refusal = "connections"
)

// rolesOf returns the roles of the client of a request, or why it is refused.
func (p *policy) rolesOf(r *http.Request, l *listener) (settings.RoleSet, refusal) {
	if l.reach == unixOwner {
		return p.roles.Unix, ""
	}
	if p.authenticates() {
		return p.authenticated(r)
	}
	if !p.knowsHost(r.Host) {
		return 0, wrongHost
	}
	switch {
	case l.reach == loopback && isLoopback(r.RemoteAddr):
		return p.roles.Loopback, ""
	case l.reach == everybody && p.insecure:
		return p.roles.Insecure, ""
	}
	return 0, ""
}

func isLoopback(addr string) bool {
	a, err := netip.ParseAddrPort(addr)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// authenticated returns the roles of the user and of the client certificate.
func (p *policy) authenticated(r *http.Request) (settings.RoleSet, refusal) {
	var roles settings.RoleSet
	if p.passwords != nil {
		user, password, _ := r.BasicAuth()
		if refused := p.passwords.check(user, password); refused != "" {
			return 0, refused
		}
		roles |= p.roles.Users[user]
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return roles, ""
	}
	cert := r.TLS.VerifiedChains[0][0]
	roles |= p.roles.Certificates[cert.Subject.CommonName]
	for _, name := range alternativeNames(cert) {
		roles |= p.roles.Certificates[name]
	}
	return roles, ""
}

// knowsHost reports whether a client without authentication may address the server by this host. A web page in the browser of this machine
// could send requests here by a name of its own that resolves to 127.0.0.1 (DNS rebinding), but not by an IP address or another's name.
// Clients with authentication need no check: a browser does not send passwords or accept certificates for a name of somebody else.
func (p *policy) knowsHost(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostPort, "["), "]")
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return strings.EqualFold(host, "localhost") || slices.ContainsFunc(p.hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// passwords checks passwords of users. bcrypt takes much CPU time by design. So right passwords are remembered, and after a wrong one the next
// check waits: guessing cannot take a CPU, and a user whose password is remembered does not wait for the checks of others.
type passwords struct {
	hashes map[string]string
	decoy  string // the hash of a user, to take as long for a user that does not exist

	checking sync.Mutex // is held by the one that runs bcrypt; guards next
	next     time.Time  // when a password that is not known to be right is checked again

	mu    sync.Mutex
	right map[[sha256.Size]byte]bool
}

const (
	maxRight   = 1000        // passwords that are remembered
	guessPause = time.Second // after a wrong password
)

func newPasswords(hashes map[string]string) (*passwords, error) {
	p := &passwords{hashes: hashes, right: map[[sha256.Size]byte]bool{}}
	for user, hash := range hashes {
		if err := checkHash(user, hash); err != nil {
			return nil, err
		}
		p.decoy = hash
	}
	return p, nil
}

// check returns "" if the password is right.
func (p *passwords) check(user, password string) refusal {
	if user == "" {
		return badPassword
	}
	key := sha256.Sum256(slices.Concat(binary.BigEndian.AppendUint32(nil, uint32(len(user))), []byte(user), []byte(password)))
	if p.remembers(key) {
		return ""
	}
	p.checking.Lock()
	defer p.checking.Unlock()
	if p.remembers(key) { // somebody else with this password was checked while this one waited
		return ""
	}
	if time.Now().Before(p.next) {
		return tooManyGuesses
	}
	hash, known := p.hashes[user]
	if !known {
		hash = p.decoy
	}
	if err := bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)); err != nil || !known {
		p.next = time.Now().Add(guessPause)
		return badPassword
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.right) < maxRight {
		p.right[key] = true
	}
	return ""
}

// remembers reports whether a user's password is known to be right.
func (p *passwords) remembers(key [sha256.Size]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.right[key]
}

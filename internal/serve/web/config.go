package web

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v2"
	"golang.org/x/crypto/bcrypt"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/serve/settings"
	"github.com/bperf/bperf/internal/serve/tlsfiles"
	"github.com/bperf/bperf/internal/userfile"
)

// webConfig is the part of web.yml that bperf knows: the format of exporters for TLS and authentication, of
// https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md. Linking exporter-toolkit itself makes the binary
// 3 MB larger, because it brings golang.org/x/net/trace with html/template, which also adds pages to http.DefaultServeMux.
type webConfig struct {
	TLS  *tlsConfig `yaml:"tls_server_config"`
	HTTP struct {
		HTTP2 bool `yaml:"http2"` // ignored: the server has HTTP/1.1 only
	} `yaml:"http_server_config"`
	Users map[string]string `yaml:"basic_auth_users"` // to hashes of bcrypt
}

type tlsConfig struct {
	Cert        string   `yaml:"cert_file"`
	Key         string   `yaml:"key_file"`
	ClientAuth  string   `yaml:"client_auth_type"`
	ClientCA    string   `yaml:"client_ca_file"`
	AllowedSANs []string `yaml:"client_allowed_sans"`
	MinVersion  string   `yaml:"min_version"`
}

// policy says who may do what. It never changes: a reload makes another.
type policy struct {
	roles     settings.Roles
	hosts     []string
	insecure  bool
	tls       *tls.Config // nil without TLS
	verified  bool        // TLS accepts only clients with certificates of a CA in web_config
	passwords *passwords  // nil without users
}

// authenticates reports whether the policy asks for authentication of clients.
func (p *policy) authenticates() bool { return p.verified || p.passwords != nil }

// newPolicy reads web_config. The server uses it until the next reload: exporters read it at each request, so that saving a file without
// client authentication opens a server that would have refused to start with it.
func newPolicy(s *settings.Settings) (*policy, error) {
	p := &policy{roles: s.Roles, hosts: s.Hosts, insecure: s.Insecure}
	if s.WebConfig == "" {
		return p, nil
	}
	if err := p.readWebConfig(s.WebConfig); err != nil {
		return nil, fmt.Errorf("web_config %s: %w", s.WebConfig, err)
	}
	return p, nil
}

// maxWebConfig is the limit of a web.yml, in bytes.
const maxWebConfig = 64 << 10

func (p *policy) readWebConfig(path string) error {
	file, err := userfile.Read(path, maxWebConfig)
	if err != nil {
		return err
	}
	c := webConfig{}
	if err := yaml.UnmarshalStrict(file.Data, &c); err != nil {
		return errors.New(printable.Text(err.Error()))
	}
	if c.TLS != nil {
		if err := p.setTLS(c.TLS, filepath.Dir(path)); err != nil {
			return fmt.Errorf("tls_server_config: %w", err)
		}
	}
	if len(c.Users) > 0 {
		p.passwords, err = newPasswords(c.Users)
	}
	return err
}

// clientAuth are the values of client_auth_type.
var clientAuth = map[string]tls.ClientAuthType{
	"":                           tls.NoClientCert,
	"NoClientCert":               tls.NoClientCert,
	"VerifyClientCertIfGiven":    tls.VerifyClientCertIfGiven,
	"RequireAndVerifyClientCert": tls.RequireAndVerifyClientCert,
}

// tlsVersions are the values of min_version.
var tlsVersions = map[string]uint16{"": tls.VersionTLS12, "TLS12": tls.VersionTLS12, "TLS13": tls.VersionTLS13}

func (p *policy) setTLS(c *tlsConfig, dir string) error {
	in := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	load := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(in(c.Cert), in(c.Key))
		return &cert, err
	}
	if _, err := load(nil); err != nil {
		return fmt.Errorf("cert_file and key_file: %w", err)
	}
	auth, known := clientAuth[c.ClientAuth]
	if !known {
		return fmt.Errorf("client_auth_type %q is unknown: NoClientCert, VerifyClientCertIfGiven and RequireAndVerifyClientCert are possible",
			c.ClientAuth)
	}
	version, known := tlsVersions[c.MinVersion]
	if !known {
		return fmt.Errorf("min_version %q is unknown: TLS12 and TLS13 are possible", c.MinVersion)
	}
	p.tls = &tls.Config{
		MinVersion:     version,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: load, // at each handshake: certificates are renewed without a reload
		ClientAuth:     auth,
	}
	if (auth != tls.NoClientCert) != (c.ClientCA != "") {
		// Without a CA, the certificates of all public CAs would be accepted.
		return errors.New("client_ca_file and a client_auth_type that verifies certificates need each other")
	}
	if c.ClientCA != "" {
		var err error
		if p.tls.ClientCAs, err = tlsfiles.Authorities(in(c.ClientCA)); err != nil {
			return fmt.Errorf("client_ca_file: %w", err)
		}
	}
	if len(c.AllowedSANs) > 0 {
		p.tls.VerifyConnection = func(state tls.ConnectionState) error { return checkSAN(&state, c.AllowedSANs) }
	}
	p.verified = auth == tls.RequireAndVerifyClientCert
	return nil
}

// checkSAN returns an error if the client's certificate has none of the allowed names.
func checkSAN(state *tls.ConnectionState, allowed []string) error {
	if len(state.PeerCertificates) == 0 {
		return nil // ClientAuth says whether there must be one
	}
	for _, name := range alternativeNames(state.PeerCertificates[0]) {
		if slices.Contains(allowed, name) {
			return nil
		}
	}
	return errors.New("the client's certificate has no name in client_allowed_sans")
}

// alternativeNames returns the subject alternative names of a certificate.
func alternativeNames(cert *x509.Certificate) []string {
	names := slices.Concat(cert.DNSNames, cert.EmailAddresses)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	for _, uri := range cert.URIs {
		names = append(names, uri.String())
	}
	return names
}

// check returns an error if the policy would let everybody use an address that everybody reaches.
func (p *policy) check(l *listener) error {
	if l.reach != everybody || p.insecure || p.tls != nil && p.authenticates() {
		return nil
	}
	return fmt.Errorf("listen on %s, which is not a loopback address: this needs web_config with TLS (cert_file, key_file) and client "+
		"authentication (client_auth_type: RequireAndVerifyClientCert with client_ca_file, or basic_auth_users). --insecure listens without", l.readable)
}

// maxCost is the limit of bcrypt's cost: a check with it takes some seconds of CPU time.
const maxCost = 15

func checkHash(user, hash string) error {
	cost, err := bcrypt.Cost([]byte(hash))
	if err != nil {
		return fmt.Errorf("basic_auth_users: the password of %q is not hashed with bcrypt: %w", user, err)
	}
	if cost > maxCost {
		return fmt.Errorf("basic_auth_users: the hash of %q has the cost %d: at most %d is possible", user, cost, maxCost)
	}
	return nil
}

package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/bperf/bperf/internal/serve/settings"
	"github.com/bperf/bperf/test/require"
)

// authority is a CA of a test. Its files are in dir.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority makes a CA with the certificate NAME.crt.
func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: dir}
	a.cert, a.key = a.issue(name, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue writes NAME.crt and NAME.key, signed by the CA, or by itself if there is no CA yet.
func (a *authority) issue(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.check(err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	a.check(err)
	cert, err := x509.ParseCertificate(der)
	a.check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	a.check(err)
	a.write(name+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	a.write(name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	return cert, key
}

func (a *authority) check(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) write(name string, data []byte) {
	a.t.Helper()
	a.check(os.WriteFile(filepath.Join(a.dir, name), data, 0o600))
}

// client returns a client that trusts the CA and has the certificate NAME.crt, or none if name is empty.
func (a *authority) client(name string) *http.Client {
	a.t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AddCert(a.cert)
	if name != "" {
		cert, err := tls.LoadX509KeyPair(filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key"))
		a.check(err)
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	a.t.Cleanup(client.CloseIdleConnections)
	return client
}

const mutual = `tls_server_config:
  cert_file: server.crt
  key_file: server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
`

// withTLS returns a CA, and settings with a web.yml of this content that listen on all addresses.
func withTLS(t *testing.T, content string) (*authority, *settings.Settings) {
	t.Helper()
	ca := newAuthority(t, t.TempDir(), "ca")
	ca.issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	ca.write("web.yml", []byte(content))
	s := settings.Default()
	s.Listen = []string{"0.0.0.0:0"}
	s.WebConfig = filepath.Join(ca.dir, "web.yml")
	return ca, s
}

// url returns the URL of a path at a server that listens on all addresses.
func url(t *testing.T, srv *Server, path string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(srv.Addresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	return "https://127.0.0.1:" + port + path
}

func TestClientCertificates(t *testing.T) {
	require.NoKernel(t)
	ca, s := withTLS(t, mutual)
	s.Roles.Certificates = map[string]settings.RoleSet{"prometheus": settings.Metrics, "reader.example": settings.Read, "10.0.0.1": settings.Metrics}
	ca.issue("prometheus", &x509.Certificate{})
	ca.issue("reader", &x509.Certificate{DNSNames: []string{"reader.example"}})
	ca.issue("by-address", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}})
	ca.issue("stranger", &x509.Certificate{})
	other := newAuthority(t, t.TempDir(), "ca")
	other.issue("prometheus", &x509.Certificate{})
	srv := start(t, s, routes())
	for _, test := range []struct {
		client, path string
		status       int
	}{
		{"prometheus", "/metrics", 200}, {"prometheus", "/read/x", 403}, {"reader", "/read/x", 200}, {"reader", "/metrics", 403},
		{"by-address", "/metrics", 200}, {"stranger", "/any", 403},
	} {
		status, body := ask(t, ca.client(test.client), request(t, "GET", url(t, srv, test.path), nil))
		checkAnswer(t, fmt.Sprint(test), status, body, test.status)
	}
	forged := ca.client("")
	cert, err := tls.LoadX509KeyPair(filepath.Join(other.dir, "prometheus.crt"), filepath.Join(other.dir, "prometheus.key"))
	ca.check(err)
	forged.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &cert, nil
	}
	for what, client := range map[string]*http.Client{"no certificate": ca.client(""), "a certificate of another CA": forged} {
		if response, err := client.Do(request(t, "GET", url(t, srv, "/any"), nil)); err == nil {
			response.Body.Close()
			t.Errorf("%s: status %d", what, response.StatusCode)
		}
	}

	// The server gets a new certificate without a reload, and other clients with one.
	before, _ := ca.issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	response, err := ca.client("prometheus").Do(request(t, "GET", url(t, srv, "/metrics"), nil))
	ca.check(err)
	response.Body.Close()
	if got := response.TLS.PeerCertificates[0]; !got.Equal(before) {
		t.Error("the server has its old certificate")
	}
	ca.write("web.yml", []byte(mutual+"  client_allowed_sans: [reader.example]\n"))
	use, err := srv.Prepare(s)
	ca.check(err)
	use()
	if response, err := ca.client("prometheus").Do(request(t, "GET", url(t, srv, "/metrics"), nil)); err == nil {
		response.Body.Close()
		t.Errorf("a client that is not in client_allowed_sans got status %d", response.StatusCode)
	}
	status, body := ask(t, ca.client("reader"), request(t, "GET", url(t, srv, "/read/x"), nil))
	checkAnswer(t, "a client of client_allowed_sans", status, body, 200)
}

func TestPasswords(t *testing.T) {
	require.NoKernel(t)
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	ca, s := withTLS(t, fmt.Sprintf("tls_server_config: {cert_file: server.crt, key_file: server.key}\nbasic_auth_users: {alice: %q, bob: %q}\n", hash, hash))
	s.Roles.Users = map[string]settings.RoleSet{"alice": settings.Metrics, "mallory": settings.Metrics}
	srv := start(t, s, routes())
	client := ca.client("")
	as := func(user, password string) (int, string) {
		t.Helper()
		r := request(t, "GET", url(t, srv, "/metrics"), nil)
		if user != "" {
			r.SetBasicAuth(user, password)
		}
		return ask(t, client, r)
	}
	for _, test := range []struct {
		user, password string
		want           int
	}{{"alice", "right", 200}, {"bob", "right", 403}, {"", "", 401}, {"alice", "wrong", 401}, {"alice", "right", 200}} {
		status, body := as(test.user, test.password)
		checkAnswer(t, fmt.Sprint(test), status, body, test.want)
	}
	passwords := srv.policy.Load().passwords
	passwords.checking.Lock() // as while another one's password is checked, which may take seconds
	status, body := as("alice", "right")
	passwords.checking.Unlock()
	checkAnswer(t, "beside a check", status, body, 200)
	passwords.next = time.Now().Add(time.Hour)
	for _, user := range []string{"alice", "mallory"} {
		status, body := as(user, "guess")
		checkAnswer(t, "a guess soon after another", status, body, 429)
	}
	passwords.next = time.Time{}
	status, body = as("mallory", "right")
	checkAnswer(t, "a user that web.yml does not have", status, body, 401)
}

func TestWebConfigErrors(t *testing.T) {
	require.NoKernel(t)
	for content, want := range map[string]string{
		"nosuch: 1": "nosuch",
		"tls_server_config: {cert_file: nosuch.crt, key_file: server.key}":                                                  "cert_file and key_file: open ",
		"tls_server_config: {cert_file: server.crt, key_file: server.key}":                                                  "this needs web_config with TLS",
		"tls_server_config: {cert_file: server.crt, key_file: server.key, client_auth_type: RequireAndVerifyClientCert}":    "need each other",
		"tls_server_config: {cert_file: server.crt, key_file: server.key, client_ca_file: ca.crt}":                          "need each other",
		"tls_server_config: {cert_file: server.crt, key_file: server.key, client_auth_type: RequireAnyClientCert}":          "client_auth_type",
		"tls_server_config: {cert_file: server.crt, key_file: server.key, min_version: TLS10}":                              "min_version",
		strings.Replace(mutual, "ca.crt", "ca.key", 1):                                                                      "no certificate in PEM format",
		strings.Replace(mutual, "RequireAndVerifyClientCert", "VerifyClientCertIfGiven", 1):                                 "this needs web_config with TLS",
		"basic_auth_users: {alice: plain}":                                                                                  "is not hashed with bcrypt",
		"basic_auth_users: {alice: $2y$31$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi}":                           "at most 15",
		"basic_auth_users: {alice: $2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi}":                           "this needs web_config with TLS",
		"http_server_config: {headers: {Strict-Transport-Security: max-age=1}}":                                             "headers",
		"tls_server_config: {cert_file: server.crt, key_file: server.key, cipher_suites: [TLS_ECDHE_RSA_WITH_RC4_128_SHA]}": "cipher_suites",
	} {
		_, s := withTLS(t, content)
		srv, err := Listen(s, slog.New(slog.DiscardHandler), nil)
		if err == nil {
			srv.Close()
			t.Errorf("%s was accepted", content)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", content, err, want)
		}
	}
}

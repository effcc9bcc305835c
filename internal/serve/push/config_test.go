package push

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/serve/tlsfiles"
)

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	lines, junk := filepath.Join(dir, "lines"), filepath.Join(dir, "junk")
	for file, text := range map[string]string{lines: "a\nb\n", junk: "no certificate"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := "https://host:4040"
	for _, test := range []struct {
		cfg  Config
		want string
	}{
		{Config{Kind: "loki", URL: good}, `kind "loki": valid kinds are otlp, otlp-metrics, pyroscope, parca`},
		{Config{Kind: "otlp"}, "write it as https://HOST:PORT"},
		{Config{Kind: "otlp", URL: "host:4318"}, "write it as https://HOST:PORT"},
		{Config{Kind: "otlp", URL: "https://"}, "the host is missing"},
		{Config{Kind: "otlp", URL: "https://user:pass\x00word@host"}, "the URL is invalid"},
		{Config{Kind: "otlp", URL: "https://user:password@host"}, "the URL has a name or password"},
		{Config{Kind: "otlp", URL: "https://host?key=password"}, "the URL has a query"},
		{Config{Kind: "otlp", URL: "http://host", TLS: tlsfiles.Client{ServerName: "x"}}, "TLS settings"},
		{Config{Kind: "otlp", URL: good, Headers: map[string]string{"A B": "x"}}, `header "A B"`},
		{Config{Kind: "otlp", URL: good, Headers: map[string]string{"content-type": "x"}}, "bperf sets it itself"},
		{Config{Kind: "otlp", URL: good, Headers: map[string]string{"X": "password\n"}}, "control characters"},
		{Config{Kind: "otlp", URL: good, HeaderFiles: map[string]string{"X-Scope-OrgID": lines}}, "the tenant has its own setting"},
		{Config{Kind: "otlp", URL: good, HeaderFiles: map[string]string{"X": lines}}, "has more than one line"},
		{Config{Kind: "otlp", URL: good, HeaderFiles: map[string]string{"X": dir}}, "header X: "},
		{Config{Kind: "otlp", URL: good, Tenant: "a\nb"}, "control characters"},
		{Config{Kind: "otlp", URL: good, TLS: tlsfiles.Client{CA: filepath.Join(dir, "none")}}, "no such file"},
		{Config{Kind: "otlp", URL: good, TLS: tlsfiles.Client{CA: junk}}, "no certificate in PEM format"},
		{Config{Kind: "otlp", URL: good, TLS: tlsfiles.Client{Cert: junk}}, "needs its key"},
		{Config{Kind: "otlp", URL: good, TLS: tlsfiles.Client{Cert: junk, Key: junk}}, "certificate " + junk},
	} {
		q, err := Open(test.cfg, testNode, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Errorf("%+v: no error", test.cfg)
			_ = q.Close(t.Context())
			continue
		}
		if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "password") {
			if !strings.Contains(test.want, "password") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v: %v, want %q", test.cfg, err, test.want)
			}
		}
	}
}

func TestEndpoint(t *testing.T) {
	for url, want := range map[string]string{
		"http://h":                                "http://h/v1development/profiles",
		"https://h:1/":                            "https://h:1/v1development/profiles",
		"https://h/otlp/":                         "https://h/otlp/v1development/profiles",
		"https://h/otlp/v1development/profiles":   "https://h/otlp/v1development/profiles",
		"http://[::1]:4318/../v1development/x/..": "http://[::1]:4318/v1development/v1development/profiles",
	} {
		cfg := Config{Kind: "otlp", URL: url}
		if got, err := cfg.endpoint("/v1development/profiles"); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v, want %s", url, got, err, want)
		}
	}
}

// TestTLS pushes to a server that wants a certificate of the client. The certificate is replaced while the queue runs.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	authority := newCertificate(t, "authority", nil)
	server := newCertificate(t, "server.test", authority)
	writePEM(t, file("ca"), "CERTIFICATE", authority.Certificate[0])
	clients := x509.NewCertPool()
	clients.AddCert(authority.Leaf)
	var names []string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		names = append(names, r.TLS.PeerCertificates[0].Subject.CommonName)
		w.Header().Set("Connection", "close")
		accept(w, "parca")
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{*server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()

	cfg := Config{Kind: "parca", URL: s.URL, TLS: tlsfiles.Client{CA: file("ca"), Cert: file("cert"), Key: file("key"), ServerName: "server.test"}}
	replace := func(name string) {
		c := newCertificate(t, name, authority)
		key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		writePEM(t, file("cert"), "CERTIFICATE", c.Certificate[0])
		writePEM(t, file("key"), "PRIVATE KEY", key)
	}
	replace("first")
	q, clock := open(t, cfg, func(q *Queue) { q.phase = 1 }) // it sends when the clock has moved
	for _, name := range []string{"first", "second"} {
		replace(name)
		if err := q.Push(testBatch()); err != nil {
			t.Fatal(err)
		}
		<-clock.waits
		for q.Stats().Waiting > 0 {
			select {
			case <-clock.waits: // it failed
				t.Fatal(q.Stats().LastError)
			case <-time.After(time.Millisecond):
			}
		}
	}
	if err := flush(t, q); err != nil {
		t.Fatal(err)
	}
	if strings.Join(names, " ") != "first second" {
		t.Errorf("the server saw %v", names)
	}

	cfg.TLS.CA = "" // the system's do not know the server
	q, clock = open(t, cfg, nil)
	if err := q.Push(testBatch()); err != nil {
		t.Fatal(err)
	}
	<-clock.waits
	if s := q.Stats(); s.Retries != 1 || !strings.Contains(s.LastError, "certificate") {
		t.Errorf("without the authority: %+v", s)
	}
}

// newCertificate returns a certificate for a name, signed by parent or by itself.
func newCertificate(t *testing.T, name string, parent *tls.Certificate) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(100 * time.Hour), IsCA: parent == nil, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	signer, by := template, any(key)
	if parent != nil {
		signer, by = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

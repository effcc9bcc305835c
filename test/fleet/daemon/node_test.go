package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/bperf/bperf/test/fleet/server"
	"github.com/bperf/bperf/test/require"
)

// node is a `bperf serve` that asks for client certificates.
type node struct {
	t       *testing.T
	dir     string // its certificates and configuration
	port    string
	logs    string // a directory that it has as /var/log
	started *server.Server
	client  *http.Client
}

const configuration = `listen: ["0.0.0.0:%s"]
web_config: web.yml
roles: {certificates: {prometheus.example.com: [metrics]}}
events: %s
bpf_statistics: {on: 100ms, every: 1s}
budget: {cpu: 100%%, memory: 8G} # so large that bperf gives up nothing, which would have counts begin anew
`

const webConfiguration = `tls_server_config:
  cert_file: node.crt
  key_file: node.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
`

// startNode starts a node that counts events, a list in YAML.
func startNode(t *testing.T, events string) *node {
	t.Helper()
	require.Root(t)
	require.Tools(t, "unshare", "mount")
	n := &node{t: t, dir: t.TempDir(), port: server.FreePort(t), logs: t.TempDir()}
	n.makeCertificates()
	write(t, filepath.Join(n.dir, "bperf.yml"), fmt.Sprintf(configuration, n.port, events))
	write(t, filepath.Join(n.dir, "web.yml"), webConfiguration)
	n.start()
	return n
}

// start starts the daemon, and waits until it counts. Its /var/log is a directory of the test, where names of pods can be added.
func (n *node) start() {
	n.t.Helper()
	n.started = server.Start(n.t, exec.Command("unshare", "--mount", "sh", "-ec", `mount --bind "$1" /var/log; shift; exec "$@"`, "sh", n.logs,
		program, "serve", "--config", filepath.Join(n.dir, "bperf.yml")))
	n.started.Logged("msg=(counting)")
}

// metrics returns what a scrape returns.
func (n *node) metrics() string {
	n.t.Helper()
	response, err := n.client.Get("https://127.0.0.1:" + n.port + "/metrics")
	if err != nil {
		n.t.Fatal(err)
	}
	body := readAll(n.t, response.Body)
	if response.StatusCode != http.StatusOK {
		n.t.Fatalf("%s\n%s", response.Status, body)
	}
	return body
}

// makeCertificates makes ca.crt, and certificates of the node and its client that it signs, with their keys.
func (n *node) makeCertificates() {
	n.t.Helper()
	ca, caKey := n.issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	n.issue("node", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, ca, caKey)
	n.issue("prometheus", &x509.Certificate{DNSNames: []string{"prometheus.example.com"}}, ca, caKey)
	certificate, err := tls.LoadX509KeyPair(filepath.Join(n.dir, "prometheus.crt"), filepath.Join(n.dir, "prometheus.key"))
	n.check(err)
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	n.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}}}}
}

// issue writes NAME.crt and NAME.key. Without a CA, the certificate signs itself.
func (n *node) issue(name string, template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	n.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	n.check(err)
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Unix(0, 0), time.Now().Add(100*365*24*time.Hour) // the clocks of guests may be wrong
	if ca == nil {
		ca, caKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey)
	n.check(err)
	certificate, err := x509.ParseCertificate(der)
	n.check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	n.check(err)
	write(n.t, filepath.Join(n.dir, name+".crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(n.t, filepath.Join(n.dir, name+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	return certificate, key
}

func (n *node) check(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// addNames makes the node know the names of a pod and its container.
func (n *node) addNames(p *running) {
	n.t.Helper()
	n.check(p.AddNames(n.logs))
}

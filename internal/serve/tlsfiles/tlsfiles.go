// Package tlsfiles reads the files that TLS needs: certificates and keys in PEM format.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"

	"github.com/bperf/bperf/internal/userfile"
)

// limit is the most bytes of a file.
const limit = 1 << 20

// Client has the files of a client of HTTPS. Each may be empty.
type Client struct {
	CA   string `yaml:"ca_file,omitempty"`   // certificates that sign those of servers; the system's if empty
	Cert string `yaml:"cert_file,omitempty"` // of the client. It is read for each connection, so that it can be replaced
	Key  string `yaml:"key_file,omitempty"`  // of Cert

	ServerName string `yaml:"server_name,omitempty"` // in the server's certificate, if that is not the host of the URL
}

// Config returns the configuration of TLS. It fails if a file cannot be used now.
func (c *Client) Config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CA != "" {
		var err error
		if config.RootCAs, err = Authorities(c.CA); err != nil {
			return nil, err
		}
	}
	if c.Cert == "" && c.Key == "" {
		return config, nil
	}
	if c.Cert == "" || c.Key == "" {
		return nil, errors.New("the certificate of a client needs its key, and the key its certificate")
	}
	if _, err := c.certificate(nil); err != nil {
		return nil, err
	}
	config.GetClientCertificate = c.certificate
	return config, nil
}

func (c *Client) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	cert, err := userfile.Read(c.Cert, limit)
	if err != nil {
		return nil, fmt.Errorf("the client's certificate: %w", err)
	}
	key, err := userfile.Read(c.Key, limit)
	if err != nil {
		return nil, fmt.Errorf("the key of the client's certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(cert.Data, key.Data)
	if err != nil {
		return nil, fmt.Errorf("the client's certificate %s with the key %s: %w", c.Cert, c.Key, err)
	}
	return &pair, nil
}

// Authorities returns the certificates in a file, which sign others.
func Authorities(path string) (*x509.CertPool, error) {
	file, err := userfile.Read(path, limit)
	if err != nil {
		return nil, fmt.Errorf("certificate authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(file.Data) {
		return nil, fmt.Errorf("certificate authorities: %s has no certificate in PEM format", path)
	}
	return pool, nil
}

// IsLoopback reports whether the host of a URL is this machine, so that no other sees what is sent to it without TLS.
func IsLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

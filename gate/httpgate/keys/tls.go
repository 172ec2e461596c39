package keys

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	"golang.org/x/crypto/acme"

	"weir"
)

// TLS is how the gate speaks HTTPS. HTTP/2 and HTTP/1.1 are offered.
type TLS struct {
	// A file with the certificate and its chain, in PEM. It and the key are read again within 5s when they change. If
	// the new one cannot be used, the old one stays in use.
	Cert string `yaml:"cert" file:"beside"`
	// The file with its key, in PEM.
	Key string `yaml:"key" file:"beside"`
	// More certificates. The name that a client asks for decides which one it gets. Clients that ask for another name,
	// or for none, get the first of all.
	Certificates []Certificate `yaml:"certificates"`
	// Certificates that the gate gets by itself, and renews.
	ACME *ACME `yaml:"acme"`
	// The oldest version that is spoken, 1.2 or 1.3. Default 1.2.
	MinVersion string `yaml:"min_version"`
	// A file with the authorities, in PEM, one of which must have signed the certificate of a client. It is read again
	// when it changes. Default: clients are not asked for any.
	ClientCA string `yaml:"client_ca" file:"beside"`
	// Whether a client must have a certificate: request (the default where client_ca is given; one that is sent must be
	// valid) or require.
	ClientCerts ClientCerts `yaml:"client_certs"`
}

// Files are the files that the gate's certificates are in, with those it gets by itself in weir's data folder. Some of
// these may not be there yet.
func (t *TLS) Files(data string) (all []string) {
	if t.Cert != "" {
		all = append(all, t.Cert)
	}
	for _, c := range t.Certificates {
		all = append(all, c.Cert)
	}
	if t.ACME != nil {
		all = append(all, t.ACME.files(data)...)
	}
	return all
}

// A Certificate is a certificate with its key.
type Certificate struct {
	// The file with the certificate and its chain, in PEM.
	Cert string `yaml:"cert" file:"beside"`
	// The file with its key, in PEM.
	Key string `yaml:"key" file:"beside"`
}

// ClientCerts says what is asked of clients.
type ClientCerts string

// What may be asked.
const (
	RequestCerts ClientCerts = "request"
	RequireCerts ClientCerts = "require"
)

// maxCertificates is how many files of certificates a gate has.
const maxCertificates = 1000

// WithDefaults returns the options with everything filled in that was left out; nil stays nil.
func (t *TLS) WithDefaults() *TLS {
	if t == nil {
		return nil
	}
	full := *t
	full.MinVersion = cmp.Or(full.MinVersion, "1.2")
	if full.ClientCA != "" && full.ClientCerts == "" {
		full.ClientCerts = RequestCerts
	}
	if t.ACME != nil {
		ordered := *t.ACME
		ordered.Directory = cmp.Or(ordered.Directory, acme.LetsEncryptURL)
		full.ACME = &ordered
	}
	return &full
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (t *TLS) Validate() error {
	var v weir.Mistakes
	const hint = "write cert: /etc/weir/cert.pem and key: /etc/weir/key.pem"
	pair := func(at string, c Certificate) {
		if c.Cert == "" {
			v.Add(at+"cert", "the certificate is missing", hint)
		}
		if c.Key == "" {
			v.Add(at+"key", "the key of the certificate is missing", hint)
		}
	}
	if t.Cert != "" || t.Key != "" {
		pair("", Certificate{t.Cert, t.Key})
	}
	for i, c := range t.Certificates {
		pair(fmt.Sprintf("certificates[%d].", i), c)
	}
	if len(t.all()) == 0 && t.ACME == nil {
		v.Add("cert", "TLS needs a certificate", hint+", or acme: {domains: […]}")
	}
	if n := len(t.all()); n > maxCertificates {
		v.Add("certificates", fmt.Sprintf("%d certificates are too many", n),
			fmt.Sprintf("at most %d", maxCertificates))
	}
	if t.ACME != nil {
		v.Under("acme", t.ACME.validate())
	}
	v.OneOf("min_version", t.MinVersion, "1.2", "1.3")
	v.OneOf("client_certs", string(t.ClientCerts), string(RequestCerts), string(RequireCerts))
	if t.ClientCerts != "" && t.ClientCA == "" {
		v.Add("client_ca", "no authority for the certificates of clients is named",
			"write client_ca: /etc/weir/clients.pem")
	}
	return v.Err()
}

// all are the certificates that come from files.
func (t *TLS) all() []Certificate {
	if t.Cert == "" && t.Key == "" {
		return t.Certificates
	}
	return append([]Certificate{{t.Cert, t.Key}}, t.Certificates...)
}

// A server is TLS as the options want it. It is safe for concurrent use.
type server struct {
	opts   TLS
	env    Env
	certs  *certificates
	orders *orders                // nil without ACME
	ca     *watch[*x509.CertPool] // signs clients' certificates; nil where clients are asked for none
	config atomic.Pointer[tls.Config]
}

// newServer keeps the server before, if any, where nothing changed, with the sessions that clients can resume.
func newServer(o *TLS, env Env, before *server) (*server, error) {
	if o == nil {
		return nil, nil
	}
	if before != nil && reflect.DeepEqual(before.opts, *o) {
		if before.ca != nil {
			if err := before.ca.check(); err != nil {
				return nil, err
			}
		}
		return before, before.certs.check()
	}
	s := &server{opts: *o, env: env}
	var err error
	if s.certs, err = newCertificates(o.all(), env); err != nil {
		return nil, err
	}
	if o.ClientCA == "" {
		s.config.Store(s.newConfig(nil))
	} else {
		s.ca = &watch[*x509.CertPool]{clock: env.Clock, noted: s.noted, all: []*files[*x509.CertPool]{{
			what: "tls: cannot use client_ca " + o.ClientCA, paths: []string{o.ClientCA}, parse: parsePool}}}
		if err := s.ca.check(); err != nil {
			return nil, err
		}
	}
	if o.ACME != nil {
		var old *orders
		if before != nil {
			old = before.orders
		}
		if s.orders, err = newOrders(o.ACME, env, old); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func parsePool(contents [][]byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(contents[0]) {
		return nil, errors.New("there is no certificate in it")
	}
	return pool, nil
}

// noted takes new authorities of clients.
func (s *server) noted(f *files[*x509.CertPool], first bool, err error) {
	switch {
	case err == nil:
		s.config.Store(s.newConfig(f.value))
	case !first:
		s.env.Unusable()
		s.env.Log.Error("the new client_ca cannot be used; the old one stays", "file", f.paths[0], "error", err)
	}
}

// newConfig makes a configuration with keys of its own for resumed sessions: clients that were let in by another
// client_ca must shake hands again.
func (s *server) newConfig(clients *x509.CertPool) *tls.Config {
	c := &tls.Config{
		Time:           s.env.Clock.Now,
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: s.certificate,
		// Of version 1.2 only what HTTP/2 allows (RFC 9113, 9.2.2): forward secrecy, and authenticated encryption.
		CipherSuites: []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
	}
	if s.opts.MinVersion == "1.3" {
		c.MinVersion = tls.VersionTLS13
	}
	if s.opts.ACME != nil {
		c.NextProtos = append(c.NextProtos, ProofProtocol)
	}
	if clients != nil {
		c.ClientCAs, c.ClientAuth = clients, tls.VerifyClientCertIfGiven
		if s.opts.ClientCerts == RequireCerts {
			c.ClientAuth = tls.RequireAndVerifyClientCert
		}
	}
	return c
}

// certificate finds the one for a client: from a file if there is one for the name, else by ACME.
func (s *server) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if s.orders != nil && s.orders.concerns(hello, s.certs) {
		return s.orders.get(hello)
	}
	return s.certs.get(hello)
}

package httpgate

import (
	"crypto/tls"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"

	"weir"
)

// TLS is how the gate speaks HTTPS. HTTP/2 and HTTP/1.1 are offered.
type TLS struct {
	// A file with the certificate and those that vouch for it, in PEM. It and the key are read again when they change,
	// at most 5s later; one that is of no use leaves the old one in place.
	Cert string `yaml:"cert"`
	// The file with its key, in PEM.
	Key string `yaml:"key"`
	// More certificates: the name that the client asks for decides. The first of all is for those who ask for another
	// name, or for none.
	Certificates []Certificate `yaml:"certificates"`
	// Certificates that the gate gets by itself, and renews.
	ACME *ACME `yaml:"acme"`
	// The oldest version that is spoken, 1.2 or 1.3. Default 1.2.
	MinVersion string `yaml:"min_version"`
	// A file with the certificates, in PEM, by which clients' certificates must be signed. It is read again when it
	// changes. Default: clients are not asked for any.
	ClientCA string `yaml:"client_ca"`
	// Whether a client must have a certificate: request (the default where client_ca is given; one that comes must be
	// good) or require.
	ClientCerts ClientCerts `yaml:"client_certs"`
}

// A Certificate is one of several.
type Certificate struct {
	// The file with the certificate and those that vouch for it, in PEM.
	Cert string `yaml:"cert"`
	// The file with its key, in PEM.
	Key string `yaml:"key"`
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

func (t *TLS) withDefaults() *TLS {
	if t == nil {
		return nil
	}
	full := *t
	if full.MinVersion == "" {
		full.MinVersion = "1.2"
	}
	if full.ClientCA != "" && full.ClientCerts == "" {
		full.ClientCerts = RequestCerts
	}
	full.ACME = full.ACME.withDefaults()
	return &full
}

func (t *TLS) validate() error {
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
		v.Add("client_ca", "nobody says whose certificates of clients are good",
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

// A tlsFront is TLS as the options want it. It is safe for concurrent use.
type tlsFront struct {
	opts   TLS
	env    Env
	certs  *certificates
	orders *orders   // nil without ACME
	ca     *clientCA // nil where clients are asked for no certificate
	config atomic.Pointer[tls.Config]
}

// newTLS reads all files. What came before is kept where nothing changed for it, with the sessions that clients can
// resume.
func newTLS(o *TLS, env Env, before *tlsFront) (*tlsFront, error) {
	if o == nil {
		return nil, nil
	}
	if before != nil && reflect.DeepEqual(before.opts, *o) {
		return before, before.check()
	}
	f := &tlsFront{opts: *o, env: env}
	var err error
	if f.certs, err = newCertificates(o.all(), env); err != nil {
		return nil, err
	}
	if o.ClientCA != "" {
		if f.ca, err = newClientCA(o.ClientCA, env); err != nil {
			return nil, err
		}
	}
	if o.ACME != nil {
		var old *orders
		if before != nil {
			old = before.orders
		}
		if f.orders, err = newOrders(o.ACME, env, old); err != nil {
			return nil, err
		}
	}
	f.config.Store(f.newConfig())
	return f, nil
}

// check looks at all files now.
func (f *tlsFront) check() error {
	if f.ca != nil {
		anew, err := f.ca.check()
		if err != nil {
			return err
		}
		if anew {
			f.config.Store(f.newConfig())
		}
	}
	return f.certs.check()
}

// current is what the next handshake goes by.
func (f *tlsFront) current(now time.Time) *tls.Config {
	if f.ca != nil && f.ca.passBy(now) {
		f.config.Store(f.newConfig())
	}
	return f.config.Load()
}

// newConfig makes a configuration with keys of its own for resumed sessions: who has been let in by another client_ca
// begins anew.
func (f *tlsFront) newConfig() *tls.Config {
	c := &tls.Config{
		Time:           f.env.Clock.Now,
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: f.certificate,
		// Of version 1.2 only what HTTP/2 allows (RFC 9113, 9.2.2): forward secrecy, and encryption that nobody can
		// tamper with.
		CipherSuites: []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
	}
	if f.opts.MinVersion == "1.3" {
		c.MinVersion = tls.VersionTLS13
	}
	if f.orders != nil {
		c.NextProtos = append(c.NextProtos, acme.ALPNProto)
	}
	if f.ca != nil {
		c.ClientCAs = f.ca.pool()
		c.ClientAuth = tls.VerifyClientCertIfGiven
		if f.opts.ClientCerts == RequireCerts {
			c.ClientAuth = tls.RequireAndVerifyClientCert
		}
	}
	return c
}

// certificate finds the one for a client: from a file where there is one for the name, else by ACME.
func (f *tlsFront) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if f.orders != nil && f.orders.concerns(hello, f.certs) {
		return f.orders.get(hello)
	}
	return f.certs.get(hello)
}

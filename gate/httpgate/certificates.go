package httpgate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// certificates are those that the gate shows to clients, by the name that they ask for. They are safe for concurrent
// use.
type certificates struct {
	env   Env
	look  glance
	pairs []*watched[*tls.Certificate]
	index atomic.Pointer[certIndex]
}

// A certIndex finds certificates by their names. It does not change.
type certIndex struct {
	byName map[string][]*tls.Certificate // in lower case; "*.example.com" stands for its names one level below
	first  *tls.Certificate              // for everybody else
}

// newCertificates reads the files, all of which must be of use.
func newCertificates(all []Certificate, env Env) (*certificates, error) {
	c := &certificates{env: env}
	c.index.Store(&certIndex{})
	for _, one := range all {
		c.pairs = append(c.pairs, &watched[*tls.Certificate]{paths: []string{one.Cert, one.Key}, parse: parsePair})
	}
	return c, c.check()
}

func parsePair(contents [][]byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, err
	}
	if pair.Leaf == nil {
		pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0])
	}
	return &pair, err
}

// check looks at all files now. What is new and of use is taken; the error is about what is not.
func (c *certificates) check() error {
	c.look.mu.Lock()
	defer c.look.mu.Unlock()
	c.look.taken(c.env.Clock)
	c.update()
	var wrong []error
	for _, w := range c.pairs {
		if w.wrong != "" {
			wrong = append(wrong, fmt.Errorf("tls: cannot use the certificate %s with the key %s: %s", w.paths[0],
				w.paths[1], w.wrong))
		}
	}
	return errors.Join(wrong...)
}

// update takes in what changed. c.look.mu is held.
func (c *certificates) update() {
	changed := false
	for _, w := range c.pairs {
		before := w.value
		anew, err := w.look()
		changed = changed || anew
		switch {
		case err != nil && before != nil:
			c.env.Observer.Bounded(BoundCertificate)
			c.env.Log.Error("the new certificate cannot be used; the old one stays", "cert", w.paths[0], "key",
				w.paths[1], "error", err)
		case anew && before != nil:
			c.env.Log.Info("the certificate has changed", "cert", w.paths[0], "until", w.value.Leaf.NotAfter)
		case anew && w.value.Leaf.NotAfter.Before(c.env.Clock.Now()):
			c.env.Log.Warn("the certificate has expired", "cert", w.paths[0], "until", w.value.Leaf.NotAfter)
		}
	}
	if changed {
		c.index.Store(c.makeIndex())
	}
}

func (c *certificates) makeIndex() *certIndex {
	x := &certIndex{byName: map[string][]*tls.Certificate{}}
	for _, w := range c.pairs {
		if w.value == nil {
			continue
		}
		if x.first == nil {
			x.first = w.value
		}
		for _, name := range w.value.Leaf.DNSNames {
			name = strings.ToLower(name)
			x.byName[name] = append(x.byName[name], w.value)
		}
	}
	return x
}

// get returns the certificate for a client, and looks now and then whether the files have changed.
func (c *certificates) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c.look.due(c.env.Clock.Now()) {
		c.look.mu.Lock()
		c.update()
		c.look.mu.Unlock()
	}
	return c.index.Load().find(hello)
}

var errNoCertificate = errors.New("there is no certificate")

// find prefers, of several certificates for a name, one of a kind that the client knows.
func (x *certIndex) find(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	found := x.byName[name]
	if len(found) == 0 {
		if _, above, ok := strings.Cut(name, "."); ok {
			found = x.byName["*."+above]
		}
	}
	for _, one := range found {
		if hello.SupportsCertificate(one) == nil {
			return one, nil
		}
	}
	switch {
	case len(found) > 0:
		return found[0], nil
	case x.first != nil:
		return x.first, nil
	}
	return nil, errNoCertificate
}

// has reports whether a certificate is for this very name, or for those one level below the one above it.
func (x *certIndex) has(name string) bool {
	_, above, _ := strings.Cut(name, ".")
	return len(x.byName[name]) > 0 || len(x.byName["*."+above]) > 0
}

// A clientCA signs the certificates of clients.
type clientCA struct {
	env  Env
	look glance
	file watched[*x509.CertPool]
}

func newClientCA(path string, env Env) (*clientCA, error) {
	ca := &clientCA{env: env, file: watched[*x509.CertPool]{paths: []string{path},
		parse: func(contents [][]byte) (*x509.CertPool, error) {
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(contents[0]) {
				return nil, errors.New("there is no certificate in it")
			}
			return pool, nil
		}}}
	_, err := ca.check()
	return ca, err
}

// check looks at the file now, and reports whether it has changed.
func (ca *clientCA) check() (anew bool, err error) {
	ca.look.mu.Lock()
	defer ca.look.mu.Unlock()
	ca.look.taken(ca.env.Clock)
	anew, _ = ca.file.look()
	if ca.file.wrong != "" {
		err = fmt.Errorf("tls: cannot use client_ca %s: %s", ca.file.paths[0], ca.file.wrong)
	}
	return anew, err
}

// passBy looks at the file now and then, and reports whether it has changed.
func (ca *clientCA) passBy(now time.Time) (anew bool) {
	if !ca.look.due(now) {
		return false
	}
	ca.look.mu.Lock()
	defer ca.look.mu.Unlock()
	anew, err := ca.file.look()
	if err != nil {
		ca.env.Observer.Bounded(BoundCertificate)
		ca.env.Log.Error("the new client_ca cannot be used; the old one stays", "file", ca.file.paths[0], "error", err)
	}
	return anew
}

func (ca *clientCA) pool() *x509.CertPool {
	ca.look.mu.Lock()
	defer ca.look.mu.Unlock()
	return ca.file.value
}

package keys

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
)

// certificates are those from files. They are found by the name that a client asks for, and safe for concurrent use.
type certificates struct {
	watch[*tls.Certificate]
	env   Env
	index atomic.Pointer[certIndex]
}

// A certIndex finds certificates by their names. It does not change.
type certIndex struct {
	byName map[string][]*tls.Certificate // in lower case; "*.example.com" stands for the names one level below
	first  *tls.Certificate              // for all other names
}

// newCertificates reads the files, all of which must be usable.
func newCertificates(all []Certificate, env Env) (*certificates, error) {
	c := &certificates{env: env}
	c.clock, c.noted, c.changed = env.Clock, c.note, c.reindex
	c.index.Store(&certIndex{})
	for _, one := range all {
		c.all = append(c.all, &files[*tls.Certificate]{paths: []string{one.Cert, one.Key}, parse: parsePair,
			what: fmt.Sprintf("tls: cannot use the certificate %s with the key %s", one.Cert, one.Key)})
	}
	return c, c.check()
}

func parsePair(contents [][]byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err == nil && pair.Leaf == nil {
		pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0])
	}
	return &pair, err
}

func (c *certificates) note(f *files[*tls.Certificate], first bool, err error) {
	switch {
	case err == nil:
		until := f.value.Leaf.NotAfter
		if !first {
			c.env.Log.Info("the certificate has changed", "cert", f.paths[0], "until", until)
		} else if until.Before(c.env.Clock.Now()) {
			c.env.Log.Warn("the certificate has expired", "cert", f.paths[0], "until", until)
		}
	case !first:
		c.env.Unusable()
		c.env.Log.Error("the new certificate cannot be used; the old one stays", "cert", f.paths[0], "key", f.paths[1],
			"error", err)
	}
}

func (c *certificates) reindex() {
	x := &certIndex{byName: map[string][]*tls.Certificate{}}
	for _, f := range c.all {
		if !f.made {
			continue
		}
		if x.first == nil {
			x.first = f.value
		}
		for _, name := range f.value.Leaf.DNSNames {
			name = strings.ToLower(name)
			x.byName[name] = append(x.byName[name], f.value)
		}
	}
	c.index.Store(x)
}

var errNoCertificate = errors.New("there is no certificate")

// get prefers, of several certificates for a name, one of a kind that the client knows.
func (c *certificates) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.passBy(c.env.Clock.Now())
	x := c.index.Load()
	found := x.find(nameIn(hello))
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

// nameIn is the name that a client asks for, in lower case.
func nameIn(hello *tls.ClientHelloInfo) string {
	return strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
}

// find returns the certificates for a name, or else those for all names one level below the one above it.
func (x *certIndex) find(name string) []*tls.Certificate {
	if found := x.byName[name]; len(found) > 0 {
		return found
	}
	_, above, _ := strings.Cut(name, ".")
	return x.byName["*."+above]
}

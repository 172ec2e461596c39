package keys

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/mail"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/net/idna"

	"weir"
)

// ACME is how the gate gets certificates by itself (RFC 8555), and renews them. The authority connects to port 443 of
// the domain to see whether it belongs to the gate (TLS-ALPN-01). The gate must listen there, or behind something that
// passes connections on.
type ACME struct {
	// The names to get certificates for, one each. The first is also shown to clients that ask for no name.
	Domains []string `yaml:"domains"`
	// Where certificates are ordered: the directory of the authority. Default
	// https://acme-v02.api.letsencrypt.org/directory.
	Directory string `yaml:"directory"`
	// A file with the certificates, in PEM, that must have signed the directory's certificate. Default: those that the
	// system trusts.
	DirectoryCA string `yaml:"directory_ca" file:"beside"`
	// The address that the authority writes to when something is wrong with a certificate. Default: nowhere.
	Email string `yaml:"email"`
	// Whether you agree to the authority's terms of service. It must be true.
	Agree bool `yaml:"agree"`
	// Whether the authority may use port 80 instead (HTTP-01) if port 443 does not work: the gates of this weir that
	// listen without TLS answer it. Default false.
	HTTP01 bool `yaml:"http_01"`
	// The folder that keeps certificates and keys. Default: acme in weir's data folder.
	Cache string `yaml:"cache" file:"beside"`
}

// maxDomains is how many names a gate gets certificates for.
const maxDomains = 100

func (a *ACME) validate() error {
	var v weir.Mistakes
	if len(a.Domains) == 0 {
		v.Add("domains", "there is no name to get a certificate for", "write domains: [www.example.com]")
	}
	if len(a.Domains) > maxDomains {
		v.Add("domains", fmt.Sprintf("%d names are too many", len(a.Domains)), fmt.Sprintf("at most %d", maxDomains))
	}
	seen := map[string]bool{}
	for i, d := range a.Domains {
		at := fmt.Sprintf("domains[%d]", i)
		name, err := domainName(d)
		switch {
		case err != nil:
			v.Add(at, fmt.Sprintf("no certificate can be issued for %q", d),
				"write www.example.com; a * takes a certificate from a file")
		case seen[name]:
			v.Add(at, fmt.Sprintf("%q is there twice", d), "leave one out")
		}
		seen[name] = true
	}
	u, err := url.Parse(a.Directory)
	if a.Directory != "" && (err != nil || u.Scheme != "https" || u.Host == "" || weir.CheckURL(u) != nil) {
		v.Add("directory", fmt.Sprintf("%q is not the address of a directory", a.Directory),
			"write "+acme.LetsEncryptURL)
	}
	if a.Email != "" {
		if addr, err := mail.ParseAddress(a.Email); err != nil || addr.Address != a.Email {
			v.Add("email", fmt.Sprintf("%q is not an address", a.Email), "write admin@example.com")
		}
	}
	if !a.Agree {
		v.Add("agree", "the authority gives certificates to those who agree to its terms",
			"read them, and write agree: true")
	}
	return v.Err()
}

// domainName returns a name as certificates have it: in lower case and ASCII.
func domainName(s string) (string, error) {
	name, err := idna.Lookup.ToASCII(strings.TrimSuffix(s, "."))
	if err == nil && (!strings.Contains(name, ".") || net.ParseIP(name) != nil) {
		err = errors.New("not a domain")
	}
	return strings.ToLower(name), err
}

// orders are the certificates that the gate gets by itself.
type orders struct {
	domains []string
	*account
}

// An account is one at an authority, with what was ordered there. It outlives a reload that asks for other names. It is
// safe for concurrent use.
type account struct {
	opts    ACME // without the domains
	env     Env
	manager *autocert.Manager
	reasons *reasons
	stopped context.Context
	stop    func() // the authority is not asked any more

	mu    sync.Mutex
	order map[string]*order // at most maxDomains for each set of options
}

// An order is for the first certificate of a name. The manager orders the next ones. account.mu guards it.
type order struct {
	done     chan struct{} // closed when the order under way has ended; nil when there is none
	had      bool
	err      error
	failures int
	again    time.Time // an order that failed is not made again before
}

// newOrders keeps the account of the orders before, if any, where it is the same.
func newOrders(o *ACME, env Env, before *orders) (*orders, error) {
	next := &orders{}
	for _, d := range o.Domains {
		name, _ := domainName(d) // Validate has seen the error
		next.domains = append(next.domains, name)
	}
	opts := *o
	opts.Domains = nil
	if before != nil && reflect.DeepEqual(opts, before.opts) {
		next.account = before.account
		return next, nil
	}
	var err error
	next.account, err = newAccount(opts, env)
	return next, err
}

// folder is where certificates are kept: "" if there is no such folder.
func (a *ACME) folder(data string) string {
	if a.Cache != "" || data == "" {
		return a.Cache
	}
	return filepath.Join(data, "acme")
}

// files are where the certificates of all names are kept, once the gate has them: one for most clients, and one for
// those that know RSA alone.
func (a *ACME) files(data string) (all []string) {
	folder := a.folder(data)
	if folder == "" {
		return nil
	}
	for _, d := range a.Domains {
		if name, err := domainName(d); err == nil {
			all = append(all, filepath.Join(folder, name), filepath.Join(folder, name+"+rsa"))
		}
	}
	return all
}

func newAccount(o ACME, env Env) (*account, error) {
	cache := o.folder(env.Data)
	if cache == "" {
		return nil, &weir.FieldError{Path: "tls.acme.cache", Msg: "there is no folder for certificates",
			Hint: "write data: /var/lib/weir, or name one here"}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if o.DirectoryCA != "" {
		text, err := readFile(o.DirectoryCA)
		if err != nil {
			return nil, fmt.Errorf("tls.acme: cannot read directory_ca: %w", err)
		}
		roots, err := parsePool([][]byte{text})
		if err != nil {
			return nil, fmt.Errorf("tls.acme: there is no certificate in directory_ca %s", o.DirectoryCA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	a := &account{opts: o, env: env, order: map[string]*order{}}
	stopped, cancel := context.WithCancel(context.Background())
	a.stopped, a.stop = stopped, func() {
		cancel()
		transport.CloseIdleConnections()
	}
	a.reasons = &reasons{RoundTripper: transport, stopped: stopped, of: map[string]string{}}
	a.manager = &autocert.Manager{
		Prompt: autocert.AcceptTOS, // agree says so
		Cache:  autocert.DirCache(cache),
		Email:  o.Email,
		Client: &acme.Client{DirectoryURL: o.Directory, UserAgent: "weir",
			HTTPClient: &http.Client{Transport: a.reasons, Timeout: 30 * time.Second}},
	}
	if o.HTTP01 && env.Proofs != nil {
		env.Proofs.add(a)
	}
	return a, nil
}

// start makes an order unless there was one. It returns the channel that is closed at its end, or nil when the
// certificate is there. The error of an order that failed is returned until the next one may be made.
func (a *account) start(domain string) (done <-chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.order[domain]
	if o == nil {
		o = &order{}
		a.order[domain] = o
	}
	switch {
	case o.had:
		return nil, nil
	case o.done != nil:
		return o.done, nil
	case a.stopped.Err() != nil:
		return nil, a.stopped.Err()
	case a.env.Clock.Now().Before(o.again):
		return nil, o.err
	}
	o.done = make(chan struct{})
	go a.run(domain, o)
	return o.done, nil
}

// Pauses after orders that failed: authorities count them.
const (
	firstOrderPause = 2 * time.Minute
	maxOrderPause   = 4 * time.Hour
)

func (a *account) run(domain string, o *order) {
	cert, err := a.manager.GetCertificate(modernHello(domain))
	if why := a.reasons.take(domain); why != "" && err != nil {
		err = fmt.Errorf("the authority says: %s (%w)", why, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	close(o.done)
	o.done, o.err = nil, err
	if err == nil {
		o.had = true
		a.env.Log.Info("a certificate was issued", "domain", domain, "until", cert.Leaf.NotAfter)
		return
	}
	if a.stopped.Err() != nil {
		return
	}
	pause := min(firstOrderPause<<min(o.failures, 10), maxOrderPause)
	o.failures++
	o.again = a.env.Clock.Now().Add(pause)
	a.env.Unusable()
	a.env.Log.Error("cannot get a certificate", "domain", domain, "error", err, "again_in", pause)
	a.env.Clock.AfterFunc(pause, func() { _, _ = a.start(domain) })
}

// modernHello is the hello of a client that knows elliptic curves. For others the manager would order a second
// certificate.
func modernHello(domain string) *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{ServerName: domain, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}
}

// concerns reports whether a client asks for a name whose certificate is not in a file.
func (o *orders) concerns(hello *tls.ClientHelloInfo, files *certificates) bool {
	if isProof(hello) {
		return true
	}
	if name := nameIn(hello); slices.Contains(o.domains, name) {
		return len(files.index.Load().find(name)) == 0
	}
	return len(files.all) == 0
}

// get returns the certificate for a client. If it is on order, the client waits for as long as its handshake may take.
func (o *orders) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := nameIn(hello)
	if name == "" && len(o.domains) > 0 {
		name = o.domains[0]
	}
	if !slices.Contains(o.domains, name) {
		return nil, errNoCertificate
	}
	if isProof(hello) {
		return o.manager.GetCertificate(hello)
	}
	for {
		done, err := o.start(name)
		if err != nil {
			return nil, err
		}
		if done == nil {
			return o.manager.GetCertificate(modernHello(name))
		}
		select {
		case <-done:
		case <-hello.Context().Done():
			return nil, hello.Context().Err()
		}
	}
}

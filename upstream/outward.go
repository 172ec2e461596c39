package upstream

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"weir"
	"weir/internal/readfile"
)

// TLS is how servers with https:// are verified, and what is shown to them. There is no way to leave the verification
// out: name the server's own certificate as ca, and the name in it as server_name.
type TLS struct {
	// A file with the authorities, in PEM, one of which must have signed the server's certificate; or with that
	// certificate itself. It is read again at each reload, as are the other files. Default: those that this machine
	// trusts.
	CA string `yaml:"ca" file:"beside"`
	// A file with the certificate and its chain, in PEM, that is shown to servers that ask for one. Default: none.
	Cert string `yaml:"cert" file:"beside"`
	// The file with its key, in PEM.
	Key string `yaml:"key" file:"beside"`
	// The name that servers are asked for, and that must be in their certificates. Default: the one in their address.
	ServerName string `yaml:"server_name"`
}

func (t *TLS) validate(servers []string) error {
	var v weir.Mistakes
	const hint = "write cert: /etc/weir/client.pem and key: /etc/weir/client.key"
	secure := false
	for _, s := range servers {
		secure = secure || strings.HasPrefix(s, "https:")
	}
	if !secure {
		v.Add("", "tls is for servers with https://, and there is none", "write https:// before the address, or leave tls out")
	}
	switch {
	case t.Cert != "" && t.Key == "":
		v.Add("key", "the key of the certificate is missing", hint)
	case t.Cert == "" && t.Key != "":
		v.Add("cert", "the certificate of the key is missing", hint)
	}
	if t.ServerName != "" && !isHostName(t.ServerName) {
		v.Add("server_name", fmt.Sprintf("%.64q is not the name of a host", t.ServerName), "write app.example.org")
	}
	return v.Err()
}

// isHostName reports whether a server can be asked for a name.
func isHostName(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true // a certificate may be for an address
	}
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			return false
		}
	}
	return true
}

// An outward is TLS as https servers are spoken to. Two are the same if their files had the same text.
type outward struct {
	roots  *x509.CertPool
	certs  []tls.Certificate
	name   string // instead of the server's own
	digest [sha256.Size]byte
}

// newOutward reads the files.
func newOutward(o *TLS, roots *x509.CertPool) (*outward, error) {
	w := &outward{roots: roots}
	if o == nil {
		return w, nil
	}
	var v weir.Mistakes
	sum := sha256.New()
	read := func(key, path string) []byte {
		text, err := readfile.Read(path, readfile.MaxPEM)
		if err != nil {
			v.Add("tls."+key, "cannot be read: "+reasonOf(err), "name a file in PEM that weir may read")
		}
		fmt.Fprintf(sum, "%s %d %x\n", key, len(text), sha256.Sum256(text))
		return text
	}
	if o.CA != "" {
		if text := read("ca", o.CA); len(v) == 0 {
			if w.roots = x509.NewCertPool(); !w.roots.AppendCertsFromPEM(text) {
				v.Add("tls.ca", fmt.Sprintf("there is no certificate in %s", o.CA), "name a file in PEM")
			}
		}
	}
	if o.Cert != "" {
		before := len(v)
		cert, key := read("cert", o.Cert), read("key", o.Key)
		if len(v) == before {
			pair, err := tls.X509KeyPair(cert, key)
			if err != nil {
				v.Add("tls.cert", "certificate and key cannot be used: "+err.Error(),
					"both must be in PEM, and the key without a password")
			}
			w.certs = []tls.Certificate{pair}
		}
	}
	w.name = o.ServerName
	fmt.Fprintf(sum, "%s\n", w.name)
	sum.Sum(w.digest[:0])
	return w, v.Err()
}

// reasonOf is why a file cannot be read, with its path and without the name of the system call.
func reasonOf(err error) string {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Path + ": " + pe.Err.Error()
	}
	return err.Error()
}

func (w *outward) same(other *outward) bool { return w.digest == other.digest }

// config is for a connection to a server whose address has this name.
func (w *outward) config(domain string) *tls.Config {
	if w.name != "" {
		domain = w.name
	}
	return &tls.Config{ServerName: domain, RootCAs: w.roots, Certificates: w.certs}
}

// Stale reports whether a file that the options name is not what it was when the pool was made, so that Configure with
// the same options makes a difference. The error says what is wrong with the new files.
func (p *Pool) Stale() (bool, error) {
	if p.opts.TLS == nil {
		return false, nil
	}
	now, err := newOutward(p.opts.TLS, p.env.Roots)
	return err != nil || !now.same(p.tls), err
}

package nats

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/farm"
	"weir/internal/readfile"
)

// Certificates that follow from the secret are valid whatever a machine's clock says (RFC 5280, 4.1.2.5).
var (
	always  = time.Unix(0, 0).UTC()
	forever = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// A refusal is why a node is not let in.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

// A claim is what a node says of itself before anything is proven: in its certificate, and as the name of the server
// that it asks for. It explains a refusal; it never lets anybody in.
type claim struct {
	major  int
	prints []string // of its secrets, the one that signs first
}

// claimSuffix ends the text of a claim. It is sent as a server's name, and looks like one.
const claimSuffix = ".weir"

func (c claim) String() string {
	return "v" + strconv.Itoa(c.major) + "-" + strings.Join(c.prints, "-") + claimSuffix
}

// parseClaim reads what String has written. Everybody may send one.
func parseClaim(text string) (c claim, ok bool) {
	text, ok = strings.CutSuffix(text, claimSuffix)
	parts := strings.Split(text, "-")
	if !ok || len(parts) < 2 || len(parts) > 1+farm.MaxSecrets {
		return claim{}, false
	}
	digits, ok := strings.CutPrefix(parts[0], "v")
	major, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil || strconv.FormatUint(major, 10) != digits {
		return claim{}, false
	}
	for _, p := range parts[1:] {
		if len(p) != 8 || strings.Trim(p, "0123456789abcdef") != "" {
			return claim{}, false
		}
	}
	return claim{major: int(major), prints: parts[1:]}, true
}

// judge returns why a node with that claim cannot be let in, or nil. Both ends come to the same judgement.
func (c claim) judge(other claim) error {
	if other.major != c.major {
		return &refusal{fmt.Sprintf("it speaks version %d of the farm's language, this node %d: run the same version of "+
			"weir on both", other.major, c.major)}
	}
	if !slices.Contains(other.prints, c.prints[0]) || !slices.Contains(c.prints, other.prints[0]) {
		return &refusal{fmt.Sprintf("it has another farm.secret (fingerprint %s, ours is %s)",
			strings.Join(other.prints, " and "), strings.Join(c.prints, " and "))}
	}
	return nil
}

// fingerprint tells secrets apart without telling what they are.
func fingerprint(secret string) (string, error) {
	sum, err := hkdf.Key(sha256.New, []byte(secret), nil, "weir farm fingerprint", 4)
	return hex.EncodeToString(sum), err
}

// An identity is who a node is on its routes, and who it believes. It does not change.
type identity struct {
	claim claim
	cert  tls.Certificate
	roots *x509.CertPool
	files bool // cert and roots come from files
}

// newIdentity makes the identity that options give a node.
func newIdentity(o farm.Options, major int) (*identity, error) {
	if len(o.Secret) == 0 || len(o.Secret) > farm.MaxSecrets {
		return nil, fmt.Errorf("farm: there are %d secrets; write one, or a new and an old one (farm.secret)", len(o.Secret))
	}
	id := &identity{claim: claim{major: major}}
	for _, s := range o.Secret {
		print, err := fingerprint(s)
		if err != nil {
			return nil, fmt.Errorf("farm: the secret: %w", err)
		}
		id.claim.prints = append(id.claim.prints, print)
	}
	if o.TLS != (farm.TLS{}) {
		return id, id.read(o.TLS)
	}
	return id, id.derive(o)
}

// read takes certificates from files.
func (id *identity) read(files farm.TLS) (err error) {
	id.files = true
	if id.cert, err = readfile.Pair(files.Cert, files.Key); err != nil {
		return fmt.Errorf("farm: the node's certificate: %w (farm.tls.cert, farm.tls.key)", err)
	}
	id.roots, err = readRoots(files.CA)
	return err
}

func readRoots(file string) (*x509.CertPool, error) {
	pem, err := readfile.Read(file, readfile.MaxPEM)
	if err != nil {
		return nil, fmt.Errorf("farm: who signs the nodes' certificates: %w (farm.tls.ca)", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("farm: %s has no certificate in PEM (farm.tls.ca)", file)
	}
	return pool, nil
}

// derive makes certificates from the secrets: the first signs, all are believed.
func (id *identity) derive(o farm.Options) error {
	id.roots = x509.NewCertPool()
	var signer *x509.Certificate
	var signs ed25519.PrivateKey
	for i, s := range o.Secret {
		ca, key, err := authority(s, id.claim.prints[i])
		if err != nil {
			return fmt.Errorf("farm: the certificate of the secret: %w", err)
		}
		id.roots.AddCert(ca)
		if i == 0 {
			signer, signs = ca, key
		}
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("farm: the node's key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return fmt.Errorf("farm: the node's certificate: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: o.Node, SerialNumber: id.claim.String()},
		NotBefore:    always,
		NotAfter:     forever,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, signer, public, signs)
	if err != nil {
		return fmt.Errorf("farm: the node's certificate: %w", err)
	}
	id.cert = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return nil
}

// authority is the certificate authority of a secret. Every node computes the same one.
func authority(secret, print string) (*x509.Certificate, ed25519.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, []byte(secret), nil, "weir farm ca", ed25519.SeedSize)
	if err != nil {
		return nil, nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	self := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "weir farm " + print},
		NotBefore:             always,
		NotAfter:              forever,
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(nil, self, self, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	ca, err := x509.ParseCertificate(der)
	return ca, key, err
}

// verify returns why the other end of a connection cannot be let in, or nil.
func (id *identity) verify(certs []*x509.Certificate, now time.Time) error {
	if len(certs) == 0 {
		return &refusal{"it shows no certificate"}
	}
	leaf := certs[0]
	if !id.files {
		if other, ok := parseClaim(leaf.Subject.SerialNumber); ok {
			if err := id.claim.judge(other); err != nil {
				return err
			}
		}
	}
	between := x509.NewCertPool()
	for _, c := range certs[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: id.roots, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err == nil {
		return nil
	}
	from := "the farm's secret did not sign its certificate"
	if id.files {
		from = "its certificate is not signed by an authority that this node trusts (farm.tls.ca)"
	}
	return &refusal{fmt.Sprintf("%s: %v", from, err)}
}

// errNoNode is what a stranger gets before anything costly is computed.
var errNoNode = errors.New("it is not a node of a farm")

// config returns how routes are secured. claimed is told who is refused and why, before the handshake fails: the other
// end often leaves first, and gives no reason.
func (id *identity) config(now func() time.Time, claimed func(addr string, why error)) *tls.Config {
	base := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{id.cert},
		ClientAuth:             tls.RequireAnyClientCert,
		ServerName:             id.claim.String(),
		SessionTicketsDisabled: true, // nobody is let in without being verified anew
		InsecureSkipVerify:     true, // nodes have no host names to verify: VerifyConnection does it all
		VerifyConnection: func(s tls.ConnectionState) error {
			return id.verify(s.PeerCertificates, now())
		},
	}
	c := base.Clone()
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		other, ok := parseClaim(hello.ServerName)
		if !ok {
			return nil, errNoNode
		}
		if err := id.claim.judge(other); err != nil {
			claimed(hello.Conn.RemoteAddr().String(), err)
			if id.files {
				return nil, err
			}
		}
		return base, nil
	}
	return c
}

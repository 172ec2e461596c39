package token

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// Bounds on keys.
const (
	MaxKeys   = 100 // of a set
	minSecret = 32  // bytes: less can be guessed (RFC 7518, 3.2)
	maxSecret = 64 << 10
	minRSA    = 2048
	maxRSA    = 16384
)

// Errors of New.
var (
	ErrNoKey       = errors.New("there is no key in it that tokens could be checked with")
	ErrPrivateKey  = errors.New("it is a private key, which has no place here: write the public one")
	ErrShortSecret = fmt.Errorf("a shared secret must have %d bytes at least", minSecret)
	ErrLongSecret  = fmt.Errorf("a shared secret must have %d bytes at most", maxSecret)
	ErrNoSecret    = errors.New("others may know this key, so it cannot be a shared secret")
	ErrUndeclared  = errors.New("it is not a public key that weir can read; if it is a shared secret, write " +
		"algorithms: [HS256]")
	ErrWeakKey  = fmt.Errorf("an RSA key must have %d bits at least, and %d at most", minRSA, maxRSA)
	ErrManyKeys = fmt.Errorf("a set has %d keys at most", MaxKeys)
	ErrBadKeys  = errors.New("it is not a set of keys (JWKS)")
)

// A key checks the signatures of tokens.
type key struct {
	id     string // kid; may be empty
	alg    string // the only one that it is for, if it says so
	public any    // *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey, or []byte for a shared secret
}

func (k key) secret() bool { _, is := k.public.([]byte); return is }

// curves are the known elliptic curves, with their algorithms.
var curves = map[elliptic.Curve]string{elliptic.P256(): "ES256", elliptic.P384(): "ES384", elliptic.P521(): "ES512"}

// fits reports whether a key is for an algorithm, by the type of the key.
func (k *key) fits(alg string) bool {
	if k.alg != "" && k.alg != alg {
		return false
	}
	switch p := k.public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		return alg == curves[p.Curve]
	case ed25519.PublicKey:
		return alg == "EdDSA"
	case []byte:
		return strings.HasPrefix(alg, "HS")
	}
	return false
}

// parseKey reads the text of a key: a public one in PEM, in DER or in base64, or a shared secret if the options name
// its algorithms. A text that looks like a key in any other form is an error, and never a secret.
func parseKey(text []byte, secrets bool) ([]key, error) {
	if keys, err := parsePublic(text); err != nil {
		return nil, err
	} else if len(keys) > 0 {
		return keys, nil
	}
	secret := bytes.TrimRight(text, "\r\n")
	if err := checkSecret(secret, text); err != nil {
		return nil, err
	}
	if !secrets {
		return nil, ErrUndeclared
	}
	return []key{{public: bytes.Clone(secret)}}, nil
}

// checkSecret refuses a secret that is too short or too long, or that resembles a key which others know. It gets the
// whole text too, since line ends after a secret may be the end of a key.
func checkSecret(secret, text []byte) error {
	if len(secret) > maxSecret {
		return ErrLongSecret
	}
	if what := resembles(text); what != "" {
		return fmt.Errorf("%w: it looks like %s", ErrNoSecret, what)
	}
	if len(secret) < minSecret {
		return ErrShortSecret
	}
	return nil
}

// parsePEM reads all keys of a text, and ignores the text around them.
func parsePEM(text []byte) ([]key, error) {
	var keys []key
	all := text
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		public, err := parseBlock(block)
		if err != nil {
			return nil, err
		}
		if keys = append(keys, key{public: public}); len(keys) > MaxKeys {
			return nil, ErrManyKeys
		}
	}
	switch {
	case len(keys) > 0:
		return keys, nil
	case bytes.Contains(all, []byte("PRIVATE KEY")):
		return nil, ErrPrivateKey
	}
	return nil, ErrNoKey
}

func parseBlock(block *pem.Block) (public any, err error) {
	switch {
	case strings.Contains(block.Type, "PRIVATE KEY"):
		return nil, ErrPrivateKey
	case block.Type == "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return checkKey(cert.PublicKey)
	case block.Type == "RSA PUBLIC KEY":
		public, err = x509.ParsePKCS1PublicKey(block.Bytes)
	default:
		public, err = x509.ParsePKIXPublicKey(block.Bytes)
	}
	if err != nil {
		return nil, err
	}
	return checkKey(public)
}

// checkKey refuses keys that are too weak, or of an unknown kind.
func checkKey(public any) (any, error) {
	switch p := public.(type) {
	case *rsa.PublicKey:
		if n := p.N.BitLen(); n < minRSA || n > maxRSA || p.E < 3 || p.E%2 == 0 {
			return nil, ErrWeakKey
		}
		return p, nil
	case *ecdsa.PublicKey:
		if curves[p.Curve] != "" {
			return p, nil
		}
	case ed25519.PublicKey:
		return p, nil
	}
	return nil, ErrNoKey
}

// A jwk is a key of a set (RFC 7517).
type jwk struct {
	Kty, Kid, Alg, Use, Crv string
	N, E, X, Y, K, D        string
}

// parseSet reads a set of keys, or a single one. Keys of unknown kinds, or not for signatures, are ignored. So are
// useless keys of a remote set (RFC 7517, 5), and shared secrets in it: a published secret is none.
func parseSet(text []byte, remote bool) ([]key, error) {
	var set struct {
		Keys []jwk
		jwk
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadKeys, err)
	}
	if set.Keys == nil && set.Kty != "" {
		set.Keys = []jwk{set.jwk}
	}
	if len(set.Keys) > MaxKeys {
		return nil, ErrManyKeys
	}
	var keys []key
	var first error
	for i := range set.Keys {
		j := &set.Keys[i]
		if j.Use != "" && j.Use != "sig" || remote && j.Kty == "oct" {
			continue
		}
		public, err := j.public()
		if err != nil {
			err = fmt.Errorf("key %d (%q): %w", i, j.Kid, err)
			if !remote {
				return nil, err
			}
			first = cmp.Or(first, err)
		} else if public != nil {
			keys = append(keys, key{j.Kid, j.Alg, public})
		}
	}
	if len(keys) == 0 {
		return nil, cmp.Or(first, ErrNoKey)
	}
	return keys, nil
}

// public returns the key itself, or nil for one of an unknown kind.
func (j *jwk) public() (any, error) {
	if j.D != "" && j.Kty != "oct" {
		return nil, ErrPrivateKey
	}
	switch j.Kty {
	case "RSA":
		n, err1 := decode(j.N)
		e, err2 := decode(j.E)
		if err := errors.Join(err1, err2); err != nil || len(n) > maxRSA/8 || len(e) > 4 {
			return nil, cmp.Or(err, ErrWeakKey)
		}
		return checkKey(&rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())})
	case "EC":
		curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(),
			"P-521": elliptic.P521()}[j.Crv]
		if curve == nil {
			return nil, nil
		}
		size := (curve.Params().BitSize + 7) / 8
		x, err1 := decode(j.X)
		y, err2 := decode(j.Y)
		if err := errors.Join(err1, err2); err != nil || len(x) != size || len(y) != size {
			return nil, cmp.Or(err, ErrNoKey)
		}
		return ecdsa.ParseUncompressedPublicKey(curve, append(append([]byte{4}, x...), y...))
	case "OKP":
		if j.Crv != "Ed25519" {
			return nil, nil
		}
		x, err := decode(j.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, cmp.Or(err, ErrNoKey)
		}
		return ed25519.PublicKey(x), nil
	case "oct":
		secret, err := decode(j.K)
		if err == nil {
			err = checkSecret(secret, secret)
		}
		return secret, err
	}
	return nil, nil
}

func decode(s string) ([]byte, error) { return base64.RawURLEncoding.DecodeString(s) }

// A public key is known to everybody. If it were taken for a shared secret, everybody could sign tokens. So a text that
// resembles a key, in any encoding of keys, is never a secret. It is recognised by its marks, so that a key that is cut
// off or has other text around it is no secret either.

// maxLayers is how many encodings may be wrapped around each other, as in base64 of PEM that is quoted in JSON.
const maxLayers = 3

// parsePublic reads a text that is a public key, in PEM, DER, or the base64 of either. Otherwise it returns nil.
func parsePublic(text []byte) ([]key, error) {
	plain, der := plainText(text), text
	for range 2 {
		if bytes.Contains(plain, []byte("-----BEGIN ")) {
			return parsePEM(plain)
		}
		if public, err := parseDER(der); public != nil || err != nil {
			return []key{{public: public}}, err
		}
		inside, ok := plainBase64(plain)
		if !ok {
			break
		}
		plain, der = inside, inside
	}
	return nil, nil
}

// parseDER reads a public key or a certificate. It returns nil for anything else.
func parseDER(der []byte) (public any, err error) {
	if public, err = x509.ParsePKIXPublicKey(der); err == nil {
		return checkKey(public)
	}
	if rsa, err := x509.ParsePKCS1PublicKey(der); err == nil {
		return checkKey(rsa)
	}
	if cert, err := x509.ParseCertificate(der); err == nil {
		return checkKey(cert.PublicKey)
	}
	_, err8 := x509.ParsePKCS8PrivateKey(der)
	_, err1 := x509.ParsePKCS1PrivateKey(der)
	_, errEC := x509.ParseECPrivateKey(der)
	if err8 == nil || err1 == nil || errEC == nil {
		return nil, ErrPrivateKey
	}
	return nil, nil
}

// plainBase64 decodes a text that is base64 and white space from its beginning to its end, in either alphabet.
func plainBase64(text []byte) ([]byte, bool) {
	tight := strings.TrimRight(strings.Join(strings.Fields(string(text)), ""), "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if inside, err := encoding.DecodeString(tight); err == nil {
			return inside, true
		}
	}
	return nil, false
}

// plainText returns a text without a byte order mark and without the zeroes of UTF-16 and UTF-32.
func plainText(text []byte) []byte {
	for _, mark := range []string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff", "\x00\x00\xfe\xff"} {
		text = bytes.TrimPrefix(text, []byte(mark))
	}
	if bytes.IndexByte(text, 0) < 0 {
		return text
	}
	return bytes.ReplaceAll(text, []byte{0}, nil)
}

// resembles returns the kind of key that a text looks like, or "" for a text that may be a secret.
func resembles(text []byte) string { return resemblesIn(text, maxLayers) }

func resemblesIn(text []byte, layers int) string {
	if isSequence(text) {
		return likeDER
	}
	text = plainText(text)
	low := bytes.ToLower(text)
	for _, m := range marks {
		if bytes.Contains(low, []byte(m.word)) {
			return m.what
		}
	}
	if layers == 0 {
		return ""
	}
	var quoted string
	if json.Unmarshal(text, &quoted) == nil {
		return resemblesIn([]byte(quoted), layers-1)
	}
	bare := bytes.TrimSpace(text)
	if inside, ok := plainBase64(bare); ok {
		if what := resemblesIn(inside, layers-1); what != "" {
			return what
		}
	}
	if inside, err := hex.DecodeString(string(bare)); err == nil {
		return resemblesIn(inside, layers-1)
	}
	return ""
}

// What a key may look like, with what to do about it.
const (
	likePEM     = "a key or a certificate in PEM with something wrong about it"
	likeDER     = "a key or a certificate in DER"
	likeJWK     = "a JSON Web Key or a set of them: name the file under jwks"
	likeSSH     = "a key of OpenSSH: ssh-keygen -e -m PKCS8 -f FILE writes it as PEM"
	likeXML     = "an RSA key in XML"
	likePrivate = "a private key, which has no place here: write the public one"
)

// marks are words that only keys have, in lower case.
var marks = []struct{ word, what string }{
	{"private key", likePrivate}, {"openssh-key-v1", likePrivate}, {"putty-user-key", likePrivate},
	{"-----begin", likePEM}, {`"kty"`, likeJWK},
	{"ssh-rsa", likeSSH}, {"ssh-ed25519", likeSSH}, {"ecdsa-sha2-", likeSSH}, {"rsakeyvalue", likeXML},
}

// isSequence reports whether all of it is one SEQUENCE of ASN.1 with something in it, as all keys in DER are. Line
// ends may follow; the SEQUENCE says where it ends, as its last byte may look like one.
func isSequence(b []byte) bool {
	var whole asn1.RawValue
	rest, err := asn1.Unmarshal(b, &whole)
	if err != nil || len(bytes.TrimLeft(rest, "\r\n")) > 0 || whole.Class != asn1.ClassUniversal ||
		whole.Tag != asn1.TagSequence {
		return false
	}
	rest = whole.Bytes
	for len(rest) > 0 {
		var one asn1.RawValue
		if rest, err = asn1.Unmarshal(rest, &one); err != nil {
			return false
		}
	}
	return true
}

package token

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
)

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

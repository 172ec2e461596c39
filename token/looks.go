package token

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
)

// A public key is known to everybody. A file with one that is taken for a shared secret lets everybody sign tokens. So
// whatever resembles a key, in whatever encoding somebody copied it, is never a secret. What is found here is found on
// purpose by its marks and not by a full parse: a key that is cut off, or has other text around it, is no secret
// either.

// maxLayers is how many encodings may be wrapped around each other, as in the base64 of a PEM file that is quoted in
// JSON.
const maxLayers = 4

// parsePublic reads a public key that stands alone, in PEM, DER, or the base64 of either. It returns nothing where
// there is none.
func parsePublic(text []byte) ([]key, error) {
	plain := plainText(text)
	if bytes.Contains(plain, []byte("-----BEGIN ")) {
		return parsePEM(plain)
	}
	if public, err := parseDER(text); public != nil || err != nil {
		return []key{{public: public}}, err
	}
	inside, ok := plainBase64(plain)
	if !ok {
		return nil, nil
	}
	if bytes.Contains(inside, []byte("-----BEGIN ")) {
		return parsePEM(inside)
	}
	if public, err := parseDER(inside); public != nil || err != nil {
		return []key{{public: public}}, err
	}
	return nil, nil
}

// parseDER reads a public key or a certificate, and nothing besides. It returns nil for what is neither.
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

// plainText is a text without what editors put around it: a byte order mark, and the zeroes of UTF-16 and UTF-32.
func plainText(text []byte) []byte {
	for _, mark := range []string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff", "\x00\x00\xfe\xff"} {
		text = bytes.TrimPrefix(text, []byte(mark))
	}
	if bytes.IndexByte(text, 0) < 0 {
		return text
	}
	return bytes.ReplaceAll(text, []byte{0}, nil)
}

// resembles says what kind of key a text looks like, or returns "" for what may be a secret.
func resembles(text []byte) string { return resemblesIn(text, maxLayers) }

func resemblesIn(text []byte, layers int) string {
	plain := plainText(text)
	for _, what := range []string{markedByBytes(text), markedByWords(plain)} {
		if what != "" {
			return what
		}
	}
	if layers == 0 || !printable(plain) {
		return ""
	}
	for _, inside := range decoded(plain) {
		if what := resemblesIn(inside, layers-1); what != "" {
			return what
		}
	}
	return ""
}

// What a key may look like, with what to do about it.
const (
	likePEM     = "a key or a certificate in PEM with something wrong about it"
	likeDER     = "a key or a certificate in DER"
	likePoint   = "a point of an elliptic curve, which is a public key"
	likeJWK     = "a JSON Web Key or a set of them: name the file under jwks"
	likeJSON    = "JSON"
	likeSSH     = "a key of OpenSSH: ssh-keygen -e -m PKCS8 -f FILE writes it as PEM"
	likeXML     = "an RSA key in XML"
	likePrinted = "a key or a certificate as text for people"
	likePrivate = "a private key, which has no place here: write the public one"
)

// words are what only stands in keys, in lower case.
var words = []struct{ word, what string }{
	{"private key", likePrivate}, {"private-key", likePrivate}, {"private_key", likePrivate}, {"privatekey", likePrivate}, {"putty-user-key", likePrivate},
	{"openssh-key-v1", likePrivate},
	{"-----begin", likePEM}, {"---- begin", likePEM},
	{`"kty"`, likeJWK}, {`'kty'`, likeJWK}, {"kty:", likeJWK}, {"kty=", likeJWK}, {`"keys"`, likeJWK},
	{"ssh-rsa", likeSSH}, {"ssh-ed25519", likeSSH}, {"ssh-dss", likeSSH}, {"ecdsa-sha2-", likeSSH},
	{"rsakeyvalue", likeXML}, {"<modulus", likeXML},
	{"modulus=", likePrinted}, {"modulus:", likePrinted}, {"modulus (", likePrinted},
	{"public key", likePrinted}, {"public-key", likePrinted}, {"public_key", likePrinted}, {"publickey", likePrinted}, {"certificate", likePrinted},
}

func markedByWords(text []byte) string {
	low := bytes.ToLower(text)
	for _, w := range words {
		if bytes.Contains(low, []byte(w.word)) {
			return w.what
		}
	}
	if low = bytes.TrimSpace(low); len(low) > 0 && (low[0] == '{' || low[0] == '[') && json.Valid(low) {
		return likeJSON
	}
	return ""
}

// identifiers are those of ASN.1 by which keys say what they are for: each stands in every key of its kind.
var identifiers = [][]byte{
	{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01},             // PKCS: RSA in all forms, sealed keys
	{0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01}, // keys on elliptic curves
	{0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01}, // the curves of X9.62: P-256
	{0x06, 0x05, 0x2b, 0x81, 0x04, 0x00},                   // those of SECG: P-384, P-521, secp256k1
	{0x06, 0x03, 0x2b, 0x65, 0x6e},                         // X25519, and the others of RFC 8410
	{0x06, 0x03, 0x2b, 0x65, 0x6f},
	{0x06, 0x03, 0x2b, 0x65, 0x70}, // Ed25519
	{0x06, 0x03, 0x2b, 0x65, 0x71},
	{0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x01},       // DSA
	{0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03}, // signatures of NIST: ML-DSA, SLH-DSA
}

func markedByBytes(b []byte) string {
	for _, id := range identifiers {
		if bytes.Contains(b, id) {
			return likeDER
		}
	}
	if hasModulus(b) || isSequence(b) {
		return likeDER
	}
	if hasPoint(b) {
		return likePoint
	}
	return ""
}

// hasPoint finds an uncompressed point: chance does not hit the curve.
func hasPoint(b []byte) bool {
	for i, c := range b {
		if c != 4 {
			continue
		}
		for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()} {
			size := 1 + 2*((curve.Params().BitSize+7)/8)
			if len(b)-i < size {
				continue
			}
			if _, err := ecdsa.ParseUncompressedPublicKey(curve, b[i:i+size]); err == nil {
				return true
			}
		}
	}
	return false
}

// hasModulus finds what an RSA key of PKCS #1 has, which names itself nowhere: an odd number of a round length, and a
// short number behind it.
func hasModulus(b []byte) bool {
	const integer = 0x02
	for i := range b {
		rest := b[i:]
		var size, head int
		switch {
		case len(rest) > 4 && rest[0] == integer && rest[1] == 0x81:
			size, head = int(rest[2]), 3
		case len(rest) > 5 && rest[0] == integer && rest[1] == 0x82:
			size, head = int(rest[2])<<8|int(rest[3]), 4
		default:
			continue
		}
		end := head + size
		if size < 65 || size%8 != 1 || rest[head] != 0 || rest[head+1] < 0x80 || len(rest) < end+3 || rest[end-1]%2 == 0 {
			continue
		}
		if rest[end] == integer && rest[end+1] >= 1 && rest[end+1] <= 8 {
			return true
		}
	}
	return false
}

// isSequence reports whether all of it is one SEQUENCE of ASN.1 with something in it, as all keys in DER are.
func isSequence(b []byte) bool {
	var whole asn1.RawValue
	rest, err := asn1.Unmarshal(b, &whole)
	if err != nil || len(rest) > 0 || whole.Class != asn1.ClassUniversal || whole.Tag != asn1.TagSequence {
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

// printable reports whether something is text, so that it can be an encoding of something else.
func printable(b []byte) bool {
	odd := 0
	for _, c := range b {
		if c > '~' || c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			odd++
		}
	}
	return odd*10 <= len(b)
}

// decoded is what a text may be the encoding of. Other text in front, behind and between is passed over: in front of
// base64 it moves what follows, so that it is read from each of the places where a group can begin.
func decoded(text []byte) (all [][]byte) {
	s := string(bytes.TrimSpace(text))
	var quoted string
	if json.Unmarshal([]byte(s), &quoted) == nil {
		all = append(all, []byte(quoted))
	}
	if strings.Contains(s, `\`) {
		plain := strings.NewReplacer(`\n`, "\n", `\r`, "", `\t`, " ", `\/`, "/", `\u002b`, "+", `\u002B`, "+", `\`, "").Replace(s)
		all = append(all, []byte(plain))
	}
	if strings.Contains(s, "%") {
		if plain, err := url.PathUnescape(s); err == nil {
			all = append(all, []byte(plain))
		}
	}
	tight := strings.Map(func(r rune) rune {
		switch {
		case r == '-':
			return '+'
		case r == '_':
			return '/'
		case r == '+', r == '/', r >= '0' && r <= '9', r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z':
			return r
		}
		return -1
	}, s)
	for at := range min(4, len(tight)) {
		group := tight[at:]
		if len(group)%4 == 1 {
			group = group[:len(group)-1]
		}
		if b, err := base64.RawStdEncoding.DecodeString(group); err == nil {
			all = append(all, b)
		}
	}
	digits := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'f' || r >= 'A' && r <= 'F' {
			return r
		}
		return -1
	}, strings.NewReplacer("0x", "", "0X", "").Replace(s))
	for at := range min(2, len(digits)) {
		if b, err := hex.DecodeString(digits[at : at+(len(digits)-at)/2*2]); err == nil {
			all = append(all, b)
		}
	}
	letters := strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '2' && r <= '7' {
			return r
		}
		return -1
	}, strings.ToUpper(s))
	for at := range min(8, len(letters)) {
		group := letters[at:]
		switch len(group) % 8 {
		case 1, 3, 6: // no whole bytes end there
			group = group[:len(group)-1]
		}
		if b, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(group); err == nil {
			all = append(all, b)
		}
	}
	return all
}

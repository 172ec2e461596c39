package identify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/mail"
	"net/netip"
	"strings"
	"time"
	"unicode"
)

// MaxRecipient is how many bytes the address of a recipient may have: 64 before the @ and 255 behind it.
const MaxRecipient = 320

// ErrRecipient is returned for a text that is not the address of a recipient.
var ErrRecipient = errors.New("not an address")

// recipients reads addresses. Names beside them are ignored, and may be in any charset.
var recipients = mail.AddressParser{WordDecoder: &mime.WordDecoder{
	CharsetReader: func(_ string, r io.Reader) (io.Reader, error) { return r, nil },
}}

// Recipient returns the form of an address by which a recipient is counted and stamps are made: without a name or
// quotes, in lower case, so that the header, the command line and the envelope mean the same recipient.
func Recipient(address string) (string, error) {
	if len(address) > MaxRecipient && !strings.ContainsAny(address, "<\"") { // it has no name beside it
		return "", tooLong(address)
	}
	a, err := recipients.Parse(address)
	if err != nil {
		return "", fmt.Errorf("%w: %q; write name@example.com", ErrRecipient, address[:min(len(address), MaxRecipient)])
	}
	if len(a.Address) > MaxRecipient {
		return "", tooLong(address)
	}
	return strings.ToLower(a.Address), nil
}

func tooLong(address string) error {
	return fmt.Errorf("%w: %q… is longer than %d bytes", ErrRecipient, address[:MaxRecipient], MaxRecipient)
}

// networkBits is the length of the network of one IPv6 customer, who may use any address in it.
const networkBits = 64

// AddressUser returns the user name of a client that sends mail without a login: its address, or for IPv6 its /64, as
// in 2001:db8::/64. An invalid address gives "".
func AddressUser(addr netip.Addr) string {
	addr = Plain(addr)
	switch {
	case !addr.IsValid():
		return ""
	case addr.Is4() || addr.IsLoopback():
		return addr.String()
	}
	return Network(addr, 32, networkBits).String()
}

// ParseAddressUser returns the user of an address, or of a network that AddressUser returns. ok is false for others.
func ParseAddressUser(text string) (name string, ok bool) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return AddressUser(addr), true
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.Addr().Is6() || p.Bits() != networkBits || p != p.Masked() {
		return text, false
	}
	return p.String(), true
}

// KeepRealm leaves the names of users as they log in.
const KeepRealm = "keep"

// LogInName returns the user name for a login, of which several spellings may mean one account. It is in lower case.
// With a realm, which is a domain, it has the form name@domain without a +detail: ann, ann+x and ANN@example.org are
// one user in the realm example.org. "" and KeepRealm are no realm.
func LogInName(name, realm string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	if realm == "" || realm == KeepRealm || name == "" {
		return name
	}
	local, domain := name, strings.ToLower(realm)
	if at := strings.LastIndexByte(name, '@'); at >= 0 {
		local, domain = name[:at], strings.TrimRightFunc(name[at+1:],
			func(r rune) bool { return r == '.' || unicode.IsSpace(r) })
	}
	if plus := strings.IndexByte(local, '+'); plus > 0 {
		local = local[:plus]
	}
	return local + "@" + domain
}

// UserName returns the user for a name as people and programs write it in configuration, commands and calls: that of a
// client that is known by its address, and else what LogInName says.
func UserName(name, realm string) string {
	if user, ok := ParseAddressUser(strings.TrimSpace(name)); ok {
		return user
	}
	return LogInName(name, realm)
}

// IsRealm reports whether a text can be a realm: KeepRealm, or a domain.
func IsRealm(text string) bool {
	if text == KeepRealm {
		return true
	}
	if len(text) > 255 || !strings.Contains(text, ".") {
		return false
	}
	for label := range strings.SplitSeq(text, ".") {
		if label == "" || strings.ContainsFunc(label, func(r rune) bool {
			return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') &&
				r < 0x80
		}) {
			return false
		}
	}
	return true
}

// Errors of ReadMark.
var (
	ErrMarkMalformed = errors.New("not a mark")
	ErrMarkForged    = errors.New("the mark was not made here")
	ErrMarkOld       = errors.New("the mark has expired")
)

// MarkHeader is the header field in which another mail server sends a mark. Only the very first field of a mail counts,
// since the sender may have written the others. All such fields are removed before a mail is delivered.
const MarkHeader = "X-Weir-User"

// MaxMark is how many bytes a mark may have. MaxMarkedMail is how many the name of a mail in it may have.
const (
	MaxMark       = 1024
	MaxMarkedMail = 128
)

// A mark is a version, the user, the mail, the end in seconds since the epoch, and a tag, in base64url, with dots.
const (
	markVersion = "1"
	markLabel   = "weir mail mark 1" // keeps its key apart from others of the same secret
	untilBytes  = 8
	markTag     = sha256.Size
)

// Mark returns a mark that names the user of a mail which another server hands over. Only that server has seen the
// login. It has letters, digits, '-', '_' and dots, and is good until a time. mail is the name of the mail on its
// server, for logs. A user of more than MaxAccount bytes, a mail of more than MaxMarkedMail, or no secret gives "".
func Mark(secret []byte, user, mail string, until time.Time) string {
	if len(secret) == 0 || user == "" || len(user) > MaxAccount || len(mail) > MaxMarkedMail || until.Unix() < 0 {
		return ""
	}
	var end [untilBytes]byte
	binary.BigEndian.PutUint64(end[:], uint64(until.Unix()))
	text := make([]byte, 0, MaxMark)
	text = append(append(text, markVersion...), '.')
	text = append(base64url.AppendEncode(text, []byte(user)), '.')
	text = append(base64url.AppendEncode(text, []byte(mail)), '.')
	text = base64url.AppendEncode(text, end[:])
	tag := signMark(secret, text)
	return string(base64url.AppendEncode(append(text, '.'), tag[:]))
}

// ReadMark returns the user and the mail of a mark under any secret, or ErrMarkMalformed, ErrMarkForged, ErrMarkOld.
func ReadMark(mark string, now time.Time, secrets ...[]byte) (user, mail string, err error) {
	if len(mark) > MaxMark {
		return "", "", ErrMarkMalformed
	}
	fields := strings.Split(mark, ".")
	if len(fields) != 5 || fields[0] != markVersion {
		return "", "", ErrMarkMalformed
	}
	var read [4][]byte
	for i, field := range fields[1:] {
		// The decoder skips line breaks, which would allow several spellings of the same mark.
		if read[i], err = base64url.DecodeString(field); err != nil || strings.ContainsAny(field, "\r\n") {
			return "", "", ErrMarkMalformed
		}
	}
	name, end, tag := read[0], read[2], read[3]
	if len(name) == 0 || len(name) > MaxAccount || len(read[1]) > MaxMarkedMail || len(end) != untilBytes ||
		len(tag) != markTag {
		return "", "", ErrMarkMalformed
	}
	signed := []byte(mark[:strings.LastIndexByte(mark, '.')])
	genuine := false
	for _, secret := range secrets {
		if len(secret) > 0 {
			want := signMark(secret, signed)
			genuine = hmac.Equal(want[:], tag) || genuine
		}
	}
	if !genuine {
		return "", "", ErrMarkForged
	}
	if until := binary.BigEndian.Uint64(end); now.Unix() < 0 || uint64(now.Unix()) >= until {
		return "", "", ErrMarkOld
	}
	return string(name), string(read[1]), nil
}

func signMark(secret, text []byte) (tag [markTag]byte) {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(markLabel))
	h = hmac.New(sha256.New, h.Sum(nil))
	h.Write(text)
	h.Sum(tag[:0])
	return tag
}

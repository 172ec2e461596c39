package identify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"time"
)

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

package notice

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"slices"
	"strings"
	"time"
)

// What a ticket's text is made of. 30 bytes are exactly 48 letters and digits: a ticket has one text only.
const (
	nonceBytes = 10
	untilBytes = 5 // of seconds
	tagBytes   = 15

	// MaxTicket is how long the text of a ticket is. The local part of an address ends at 64, so that of the command
	// address at 15.
	MaxTicket = (nonceBytes + untilBytes + tagBytes) * 8 / 5
)

var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// A Signer signs tickets. It is safe for concurrent use.
type Signer struct{ secret []byte }

// NewSigner returns one for a secret. Without one, tickets are good until the process ends.
func NewSigner(secret []byte) *Signer {
	if len(secret) == 0 {
		secret = make([]byte, 32)
		_, _ = rand.Read(secret) // never fails
	}
	return &Signer{slices.Clone(secret)}
}

// Purposes of tickets: one made for mail is no good for a page.
const (
	ForMail = "mail"
	ForPage = "page"
)

// Sign makes the text of a ticket, of letters and digits in lower case, short enough for the detail of an address:
// command+TEXT@host. The nonce is NewNonce's; for anything else the text is empty, and no ticket.
func (s *Signer) Sign(purpose, nonce string, until time.Time) string {
	b := make([]byte, 0, nonceBytes+untilBytes+tagBytes)
	b, err := letters.AppendDecode(b, []byte(nonce))
	if err != nil || len(b) != nonceBytes || letters.EncodeToString(b) != nonce {
		return ""
	}
	const latest = 1<<(8*untilBytes) - 1
	end := binary.BigEndian.AppendUint64(nil, uint64(min(max(until.Unix(), 0), latest)))
	b = append(b, end[8-untilBytes:]...)
	return letters.EncodeToString(append(b, s.tag(purpose, b)...))
}

// Read returns the nonce of a ticket's text, ErrForged or ErrOld. A ticket is good up to and including its last second.
func (s *Signer) Read(purpose, text string, now time.Time) (nonce string, err error) {
	if len(text) != MaxTicket {
		return "", ErrForged
	}
	b, err := letters.DecodeString(strings.ToLower(text)) // addresses come in any case
	if err != nil || len(b) != nonceBytes+untilBytes+tagBytes {
		return "", ErrForged
	}
	signed, tag := b[:nonceBytes+untilBytes], b[nonceBytes+untilBytes:]
	if !hmac.Equal(tag, s.tag(purpose, signed)) {
		return "", ErrForged
	}
	var end [8]byte
	copy(end[8-untilBytes:], signed[nonceBytes:])
	if now.Unix() > int64(binary.BigEndian.Uint64(end[:])) {
		return "", ErrOld
	}
	return letters.EncodeToString(signed[:nonceBytes]), nil
}

func (s *Signer) tag(purpose string, signed []byte) []byte {
	mac := hmac.New(sha256.New, s.secret)
	mac.Write([]byte("weir ticket 1\x00" + purpose + "\x00")) // the secret may sign other things elsewhere
	mac.Write(signed)
	return mac.Sum(nil)[:tagBytes]
}

// NewNonce returns a nonce by chance.
func NewNonce() string {
	var b [nonceBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return letters.EncodeToString(b[:])
}

// Detail puts a ticket into the command address: weir@host becomes weir+TICKET@host. Empty: command is no address.
func Detail(command, ticket string) string {
	at := strings.LastIndexByte(command, '@')
	if at <= 0 {
		return ""
	}
	return command[:at] + "+" + ticket + command[at:]
}

// SplitDetail reports whether an address is the command address, in either case of letters, and returns the ticket in
// it: of weir+TICKET@host. The ticket is empty where there is none, which Read says is forged.
func SplitDetail(address, command string) (ticket string, ok bool) {
	at, cat := strings.LastIndexByte(address, '@'), strings.LastIndexByte(command, '@')
	if at <= 0 || cat <= 0 || !strings.EqualFold(address[at:], command[cat:]) {
		return "", false
	}
	local, name := address[:at], command[:cat]
	if len(local) < len(name) || !strings.EqualFold(local[:len(name)], name) {
		return "", false
	}
	if len(local) == len(name) {
		return "", true
	}
	if ticket, ok = strings.CutPrefix(local[len(name):], "+"); !ok {
		return "", false
	}
	return strings.ToLower(ticket), true
}

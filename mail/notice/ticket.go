package notice

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// The parts of a ticket. 30 bytes are exactly 48 letters and digits, so that a ticket has one text only.
const (
	nonceBytes = 10
	untilBytes = 5 // of seconds
	tagBytes   = 15

	// MaxTicket is how long the text of a ticket is. A local part has at most 64 characters, so that of the command
	// address has at most 15.
	MaxTicket = (nonceBytes + untilBytes + tagBytes) * 8 / 5
)

var encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// A Signer signs tickets. It is safe for concurrent use.
type Signer struct {
	secrets atomic.Pointer[[][]byte] // the first one signs
}

// NewSigner returns a signer with a secret. Tickets signed with old secrets are accepted. Without a secret, tickets are
// good until the process ends.
func NewSigner(secret []byte, old ...[]byte) *Signer {
	s := new(Signer)
	s.Configure(secret, old...)
	return s
}

// Configure changes the secrets. Tickets that were signed with another one are no longer accepted.
func (s *Signer) Configure(secret []byte, old ...[]byte) {
	if len(secret) == 0 {
		secret = []byte(rand.Text())
	}
	all := [][]byte{slices.Clone(secret)}
	for _, o := range old {
		if len(o) > 0 { // anybody could sign with an empty one
			all = append(all, slices.Clone(o))
		}
	}
	s.secrets.Store(&all)
}

// Purposes of tickets. A ticket for one is no good for another.
const (
	ForMail = "mail" // commands by mail
	ForPage = "page" // all that a user may do on the page
	ForLook = "look" // to see what is there, and nothing else
)

// Sign returns the text of a ticket: letters and digits in lower case, short enough for the detail of an address,
// command+TEXT@host. The nonce is one of NewNonce. For anything else the text is empty, and no ticket.
func (s *Signer) Sign(purpose, nonce string, until time.Time) string {
	b := make([]byte, 0, nonceBytes+untilBytes+tagBytes)
	b, err := encoding.AppendDecode(b, []byte(nonce))
	if err != nil || len(b) != nonceBytes || encoding.EncodeToString(b) != nonce {
		return ""
	}
	const latest = 1<<(8*untilBytes) - 1
	end := binary.BigEndian.AppendUint64(nil, uint64(min(max(until.Unix(), 0), latest)))
	b = append(b, end[8-untilBytes:]...)
	return encoding.EncodeToString(append(b, tag((*s.secrets.Load())[0], purpose, b)...))
}

// Read returns the nonce of a ticket, ErrForged or ErrOld. A ticket is good up to and including its last second.
func (s *Signer) Read(purpose, text string, now time.Time) (nonce string, err error) {
	if len(text) != MaxTicket {
		return "", ErrForged
	}
	b, err := encoding.DecodeString(strings.ToLower(text)) // addresses come in any case
	if err != nil || len(b) != nonceBytes+untilBytes+tagBytes {
		return "", ErrForged
	}
	signed, given := b[:nonceBytes+untilBytes], b[nonceBytes+untilBytes:]
	genuine := false
	for _, secret := range *s.secrets.Load() {
		genuine = hmac.Equal(given, tag(secret, purpose, signed)) || genuine
	}
	if !genuine {
		return "", ErrForged
	}
	var end [8]byte
	copy(end[8-untilBytes:], signed[nonceBytes:])
	if now.Unix() > int64(binary.BigEndian.Uint64(end[:])) {
		return "", ErrOld
	}
	return encoding.EncodeToString(signed[:nonceBytes]), nil
}

func tag(secret []byte, purpose string, signed []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("weir ticket 1\x00" + purpose + "\x00")) // the secret may sign other things elsewhere
	mac.Write(signed)
	return mac.Sum(nil)[:tagBytes]
}

// NewNonce returns a random nonce.
func NewNonce() string {
	var b [nonceBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return encoding.EncodeToString(b[:])
}

// Detail puts a ticket into the command address: weir@host becomes weir+TICKET@host. It is empty if command is no
// address.
func Detail(command, ticket string) string {
	at := strings.LastIndexByte(command, '@')
	if at <= 0 {
		return ""
	}
	return command[:at] + "+" + ticket + command[at:]
}

// SplitDetail reports whether an address is the command address, in upper or lower case, and returns the ticket in it:
// of weir+TICKET@host. The ticket is empty if there is none; Read returns ErrForged for it.
func SplitDetail(address, command string) (ticket string, ok bool) {
	at, cat := strings.LastIndexByte(address, '@'), strings.LastIndexByte(command, '@')
	if at < cat || cat <= 0 || !strings.EqualFold(address[:cat]+address[at:], command) {
		return "", false
	}
	if ticket, ok = strings.CutPrefix(address[cat:at], "+"); ok {
		return strings.ToLower(ticket), true
	}
	return "", at == cat
}

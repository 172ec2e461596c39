package admission

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"weir/internal/hmackey"
)

// What is wrong with a ticket; match it with errors.Is.
var (
	ErrTicketMalformed = errors.New("ticket: malformed") // not a ticket, or longer than one can be
	// not issued here, or changed since; or the key is another one
	ErrTicketForged  = errors.New("ticket: forged")
	ErrTicketForeign = errors.New("ticket: of another client") // genuine, but somebody else's
	ErrTicketLapsed  = errors.New("ticket: lapsed")            // its holder stayed away for too long
)

// Bounds of the format.
const (
	MaxClient = 64 // bytes of a client's id
	MaxTicket = 136

	ticketVersion = 1
	ticketFixed   = 1 + 8 + 6 + 6
	ticketTag     = 16
	ticketBytes   = ticketFixed + 1 + MaxClient + ticketTag
)

// A Ticket is a number in the waiting room. It is good for one client, until a time: whoever does not come back before
// that has none any more, and whoever does gets it renewed (Lanes.Renew).
type Ticket struct {
	Number uint64
	Issued time.Time
	By     time.Time
	Client string
}

// Tickets sign and verify tickets. Nothing about a ticket is stored:
//
//	version 1 | number 8 | issued 6 | by 6 | 1+client | tag 16
//
// Times are in milliseconds, numbers big-endian. As text it is base64url without padding. Goroutines may share them.
type Tickets struct {
	keys []*hmackey.Key // the first one signs
}

// NewTickets returns a signer with a key derived from a secret. Tickets signed with old secrets are accepted. Without a
// secret it is random and ends with the process.
func NewTickets(secret []byte, old ...[]byte) *Tickets {
	if len(secret) == 0 {
		secret = make([]byte, sha256.Size)
		_, _ = rand.Read(secret) // never fails
	}
	t := &Tickets{[]*hmackey.Key{ticketKey(secret)}}
	for _, s := range old {
		if len(s) > 0 { // anybody could sign with an empty one
			t.keys = append(t.keys, ticketKey(s))
		}
	}
	return t
}

// ticketKey is a key of its own: what is signed under the same secret for another purpose is never a ticket.
func ticketKey(secret []byte) *hmackey.Key {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("weir admission ticket"))
	return hmackey.New(h.Sum(nil))
}

// ticketText is strict, so that no two texts mean the same ticket.
var ticketText = base64.RawURLEncoding.Strict()

// Sign returns a ticket as text. It is empty for a client whose id is longer than MaxClient.
func (t *Tickets) Sign(k Ticket) string {
	if len(k.Client) > MaxClient {
		return ""
	}
	var buf [ticketBytes]byte
	b := append(buf[:0], ticketVersion)
	b = binary.BigEndian.AppendUint64(b, k.Number)
	b = appendMillis(appendMillis(b, k.Issued), k.By)
	b = append(append(b, byte(len(k.Client))), k.Client...)
	tag := t.keys[0].Sum(b)
	return ticketText.EncodeToString(append(b, tag[:ticketTag]...))
}

// Parse reads a ticket that a client shows at a time. Only a genuine one of that client, not lapsed, has no error.
func (t *Tickets) Parse(text, client string, now time.Time) (Ticket, error) {
	var in [MaxTicket]byte
	var buf [ticketBytes]byte
	if len(text) > MaxTicket {
		return Ticket{}, ErrTicketMalformed
	}
	want := ticketText.DecodedLen(len(text))
	n, err := ticketText.Decode(buf[:], in[:copy(in[:], text)])
	// The decoder skips line ends; a ticket has none.
	if err != nil || n != want || n < ticketFixed+1+ticketTag || buf[0] != ticketVersion {
		return Ticket{}, ErrTicketMalformed
	}
	signed, tag := buf[:n-ticketTag], buf[n-ticketTag:n]
	id := signed[ticketFixed+1:]
	if len(id) != int(signed[ticketFixed]) {
		return Ticket{}, ErrTicketMalformed
	}
	genuine := false
	for _, key := range t.keys {
		want := key.Sum(signed)
		genuine = hmac.Equal(want[:ticketTag], tag) || genuine
	}
	switch k := (Ticket{binary.BigEndian.Uint64(signed[1:]), millis(signed[9:]), millis(signed[15:]), client}); {
	case !genuine:
		return Ticket{}, ErrTicketForged
	case string(id) != client:
		return Ticket{}, ErrTicketForeign
	case now.After(k.By):
		return Ticket{}, ErrTicketLapsed
	default:
		return k, nil
	}
}

// appendMillis writes a time in six bytes, which last for 8,900 years. There is nothing before the epoch.
func appendMillis(b []byte, at time.Time) []byte {
	ms := uint64(max(0, min(at.UnixMilli(), 1<<48-1)))
	return append(b, byte(ms>>40), byte(ms>>32), byte(ms>>24), byte(ms>>16), byte(ms>>8), byte(ms))
}

func millis(b []byte) time.Time {
	return time.UnixMilli(int64(b[0])<<40 | int64(b[1])<<32 | int64(b[2])<<24 | int64(b[3])<<16 | int64(b[4])<<8 |
		int64(b[5]))
}

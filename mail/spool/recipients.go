package spool

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"strings"
	"sync"

	"weir/identify"
	"weir/mail/notice"
	"weir/store"
	"weir/throttle/outbreak"
)

// normal is the form in which recipients are compared and counted. A text that is no address is put in lower case.
func normal(address string) string {
	if plain(address) {
		return strings.ToLower(address)
	}
	if r, err := identify.Recipient(address); err == nil {
		return r
	}
	return strings.ToLower(address)
}

// plain reports whether an address could not be written in another way, except for upper and lower case.
func plain(address string) bool {
	at := 0
	for i := range len(address) {
		switch c := address[i]; {
		case c == '@':
			at++
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte(".-_+=", c) >= 0:
		default:
			return false
		}
	}
	return at == 1
}

// A hasher hashes recipients, so that a stolen store does not name them. It is safe for concurrent use.
type hasher struct{ pool *sync.Pool }

func newHasher(secret []byte) hasher {
	secret = append([]byte("weir recipients\x00"), secret...)
	return hasher{&sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}}
}

func (h hasher) key(recipient string) uint64 {
	mac := h.pool.Get().(hash.Hash)
	defer h.pool.Put(mac)
	mac.Reset()
	mac.Write([]byte(recipient))
	var sum [sha256.Size]byte
	return binary.BigEndian.Uint64(mac.Sum(sum[:0]))
}

// A keyList has the keys of recipients, each once.
type keyList struct {
	keys  []uint64
	known map[string]int
}

// add adds a recipient that is not there yet, and returns the index of the key.
func (l *keyList) add(h hasher, recipient string) int {
	k, known := l.known[recipient]
	if !known {
		if l.known == nil {
			l.known = map[string]int{}
		}
		k = len(l.keys)
		l.known[recipient] = k
		l.keys = append(l.keys, h.key(recipient))
	}
	return k
}

// Free reports whether a recipient is never counted, and reached by stopped users: internal, listed, or the user's own.
func (q *queue) Free(gate string, user *store.User, recipient string) bool {
	g := q.gates.Load().of(gate)
	return g != nil && g.free(user, recipient, normal(recipient))
}

// free is Free for a recipient as written and in the normal form. An address that may be a route is not the user's own.
func (g *Gate) free(user *store.User, written, recipient string) bool {
	if outbreak.Routed(written) || outbreak.Routed(recipient) {
		return g.Mail != nil && !g.Mail.Counted(written) && !g.Mail.Counted(recipient) // it is listed as written
	}
	is := func(own string) bool { return own != "" && recipient == normal(own) }
	if g.Mail != nil && !g.Mail.Counted(recipient) || recipient == "postmaster" || is(g.Postmaster) || is(g.Admin) ||
		g.commands(recipient) {
		return true
	}
	return user != nil && (is(user.Contact) || slices.ContainsFunc(user.Senders, is))
}

// passesNull reports whether a message is not counted because it is a notification: with one recipient and no sender
// (RFC 5321 section 4.5.5), unless the throttle counts those too.
func (g *Gate) passesNull(user, sender string, recipients int) bool {
	return sender == "" && recipients == 1 && (g.Mail == nil || !g.Mail.CountsNull(user))
}

// Commands reports whether an address is the command address of a gate. Such an address gets no notices.
func (q *queue) Commands(address string) bool {
	return slices.ContainsFunc(q.gates.Load().list,
		func(way *gateway) bool { return way.conf.Load().commands(normal(address)) })
}

// commands reports whether an address is the one for commands, with a ticket or without.
func (g *Gate) commands(recipient string) bool {
	if g.Command == "" {
		return false
	}
	_, ok := notice.SplitDetail(recipient, g.Command)
	return ok
}

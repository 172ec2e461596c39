package stamp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Parts are what an issuer is made of.
type Parts struct {
	Keys   *Keyring // nil: a random secret, changed by the hour
	Ledger Ledger   // nil: a Filter for challenges of up to five minutes, of a million stamps
	// challenges from before are refused: for a ledger that starts empty under a secret that is not new
	Since time.Time
}

// skew is how far the clock of another node may be ahead.
const skew = time.Minute

// An Issuer issues challenges and honours stamps. Most callers want New, Issue and Verify. It is safe for concurrent
// use, reads no clock, and stores nothing for a challenge until it comes back paid.
type Issuer struct {
	parts      Parts
	since      atomic.Int64               // Parts.Since in milliseconds, or less where the clock was ahead then
	farmLedger atomic.Pointer[farmLedger] // nil: this node is alone
	marks      maphash.Seed
	memory     sync.Pool // of *scratch
	Counts     Counts
}

// A scratch is the memory for work on one challenge, used again so that nothing is allocated.
type scratch struct {
	c    Challenge
	raw  [maxBytes]byte
	text [MaxChallenge]byte
	buf  [maxSolution]byte
}

// Counts say what an issuer has done since it was opened.
type Counts struct {
	Issued, Accepted                                                       atomic.Uint64
	Malformed, Forged, Unknown, Expired, Foreign, TooEasy, Replayed, Wrong atomic.Uint64
	Full, Busy, Gone                                                       atomic.Uint64
}

// NewIssuer opens an issuer made of parts, for those who share some of them. Others want New.
func NewIssuer(p Parts) *Issuer {
	if p.Keys == nil {
		p.Keys = NewKeyring(time.Hour)
	}
	if p.Ledger == nil {
		p.Ledger = NewFilter(5*time.Minute+skew, defaultMaxSpent)
	}
	o := &Issuer{parts: p, marks: maphash.MakeSeed(), memory: sync.Pool{New: func() any { return new(scratch) }}}
	o.since.Store(p.Since.UnixMilli()) // as challenges tell the time
	return o
}

// sinceAt returns, in milliseconds, from when on challenges of a lifetime are honoured. If the clock was far ahead when
// the issuer opened and has come back, the issuer must not refuse everything until then, so it begins anew now. What
// was issued before it opened was issued before now, and stays refused.
func (o *Issuer) sinceAt(now time.Time, lifetime time.Duration) int64 {
	since, at := o.since.Load(), now.UnixMilli()
	if at < since-(lifetime+skew).Milliseconds() {
		o.since.CompareAndSwap(since, at)
		since = at
	}
	return since
}

// Parts returns what the issuer is made of, for the one that follows it after a reload.
func (o *Issuer) Parts() Parts { return o.parts }

// An Ask says what a challenge demands.
type Ask struct {
	Algorithm Algorithm     // zero: sha256-k
	Work      Work          // at least 1
	Lifetime  time.Duration // how long the client has
	Message   string        // what the stamp pays for, as ID makes it; empty when it pays for anything
	Client    string        // who pays
}

// Issue makes a challenge. Nothing about it is stored. It may ask for more work than a.Work, as a puzzle has a least
// work, and for less where that is above MaxWork. Above 40 bits dlog-classic becomes dlog.
func (o *Issuer) Issue(now time.Time, a Ask) (string, error) {
	if len(a.Message) > MaxID || len(a.Client) > MaxID {
		return "", ErrTooLong
	}
	a.Algorithm = cmp.Or(a.Algorithm, SHA256K)
	if !a.Algorithm.known() || a.Work < 1 || a.Lifetime < time.Millisecond || a.Lifetime > maxLifetime {
		return "", fmt.Errorf("stamp: cannot ask for %d operations of %s within %s", a.Work, a.Algorithm, a.Lifetime)
	}
	s := o.memory.Get().(*scratch)
	defer o.memory.Put(s)
	c := &s.c
	*c = Challenge{Lifetime: a.Lifetime, Expires: now.Add(a.Lifetime), Message: a.Message, Client: a.Client}
	c.Algorithm, c.Work = puzzles[a.Algorithm].fit(min(a.Work, MaxWork))
	o.sinceAt(now, c.Lifetime)
	k := o.parts.Keys.at(now).all[0]
	c.keyID = k.id
	// It is enough that nonces differ: the tag, which goes into the puzzle too, cannot be predicted.
	if b := o.farmLedger.Load(); b != nil {
		copy(c.Nonce[:], b.self[:])
	} else {
		binary.BigEndian.PutUint64(c.Nonce[:], rand.Uint64())
	}
	binary.BigEndian.PutUint64(c.Nonce[TagBytes:], rand.Uint64())

	puzzles[c.Algorithm].draw(c, k)
	b := c.appendHead(s.raw[:0])
	b = append(append(b, byte(len(c.Data))), c.Data...)
	tag := k.tag(b)
	b = append(b, tag[:]...)
	o.Counts.Issued.Add(1)
	n := encoding.EncodedLen(len(b))
	encoding.Encode(s.text[:n], b)
	return string(s.text[:n]), nil
}

// A Demand says what a stamp must be to be accepted.
type Demand struct {
	Client  string // who sends it; empty where only Or counts
	Or      string // another id that whoever sends it goes by
	Message string // what it must pay for, exactly as it was asked
	MinWork Work   // less is ErrTooEasy; zero takes whatever was asked at the time
	Covers  int    // how many requests one stamp pays for; zero is 1
}

// A Receipt says what was paid.
type Receipt struct {
	Nonce           Nonce
	Algorithm       Algorithm
	Work            Work
	Issued, Expires time.Time
	Client, Message string
	Uses            int // how often the stamp has been used, this time included
	Covers          int // how often it may be
}

// use is one more request that the stamp pays for.
func (r *Receipt) use() Use {
	return Use{Nonce: r.Nonce, Expires: r.Expires, Lifetime: r.Expires.Sub(r.Issued), Covers: r.Covers}
}

// Left is how many more requests the stamp pays for.
func (r *Receipt) Left() int { return max(r.Covers-r.Uses, 0) }

// Verify accepts a stamp, which uses it once, or says what is wrong with it. It checks what is cheap first: form, tag,
// expiry, whose it is, whether it is spent; then the solution. Only a stamp with nothing wrong is noted as used, so
// that a wrong answer spends nothing, and refusing costs next to nothing. ctx matters only where the ledger is shared.
func (o *Issuer) Verify(ctx context.Context, now time.Time, stamp string, d Demand) (Receipt, error) {
	s := o.memory.Get().(*scratch)
	defer o.memory.Put(s)
	r, err := o.verify(ctx, now, stamp, &d, s)
	o.Counts.count(err)
	return r, err
}

func (o *Issuer) verify(ctx context.Context, now time.Time, stamp string, d *Demand, s *scratch) (Receipt, error) {
	dot := strings.IndexByte(stamp, '.')
	if len(stamp) > MaxStamp || dot < 0 {
		return Receipt{}, ErrMalformed
	}
	raw, err := decodeText(s.raw[:], stamp[:dot], MaxChallenge)
	if err != nil {
		return Receipt{}, err
	}
	c := &s.c
	message, client, err := c.parse(raw)
	if err != nil {
		return Receipt{}, err
	}
	p := puzzles[c.Algorithm]
	_, size := p.sizes()
	if len(stamp)-dot-1 != encoding.EncodedLen(size) {
		return Receipt{}, ErrMalformed
	}
	k := o.parts.Keys.at(now).find(c.keyID)
	if k == nil {
		return Receipt{}, ErrUnknown
	}
	if tag := k.tag(raw[:len(raw)-tagBytes]); subtle.ConstantTimeCompare(tag[:], c.tag[:]) != 1 {
		return Receipt{}, ErrForged
	}
	b, issued := o.farmLedger.Load(), c.Issued() // once: it may change meanwhile
	if !now.Before(c.Expires) ||
		(b == nil || b.issued(&c.Nonce)) && issued.UnixMilli() < o.sinceAt(now, c.Lifetime) {
		return Receipt{}, ErrExpired
	}
	who := d.Client
	if string(client) != who && d.Or != "" {
		who = d.Or
	}
	if string(message) != d.Message || string(client) != who {
		return Receipt{}, ErrForeign
	}
	if c.Work < d.MinWork {
		return Receipt{}, ErrTooEasy
	}
	c.Message, c.Client = d.Message, who
	use := Use{Nonce: c.Nonce, Expires: c.Expires, Lifetime: c.Lifetime, Covers: max(d.Covers, 1)}
	ledger := o.ledger(b)
	uses, mark, err := ledger.Look(ctx, now, use)
	if err != nil {
		return Receipt{}, err
	}
	if uses >= use.Covers {
		return Receipt{}, ErrReplayed
	}
	// The solution of a stamp that was accepted before is not checked again. One that covers a single request never is.
	if use.Covers > 1 {
		use.Mark = maphash.String(o.marks, stamp)
	}
	if uses == 0 || mark != use.Mark {
		solution, err := decodeText(s.buf[:], stamp[dot+1:], encoding.EncodedLen(size))
		if err != nil {
			return Receipt{}, err
		}
		if !p.check(c, k, solution) {
			return Receipt{}, ErrWrong
		}
	}
	if uses, err = ledger.Spend(ctx, now, use); err != nil {
		return Receipt{}, err
	}
	return Receipt{Nonce: c.Nonce, Algorithm: c.Algorithm, Work: c.Work, Issued: issued, Expires: c.Expires,
		Client: c.Client, Message: c.Message, Uses: uses, Covers: use.Covers}, nil
}

// Spend uses the stamp of a receipt once more without seeing it, and updates Uses: for a gate that remembers who paid.
func (o *Issuer) Spend(ctx context.Context, now time.Time, r *Receipt) error {
	if !now.Before(r.Expires) {
		o.Counts.Expired.Add(1)
		return ErrExpired
	}
	uses, err := o.ledger(o.farmLedger.Load()).Spend(ctx, now, r.use())
	o.Counts.count(err)
	if err != nil {
		return err
	}
	r.Uses = uses
	return nil
}

// Refund gives a use back, for a request that did not go on.
func (o *Issuer) Refund(ctx context.Context, now time.Time, r *Receipt) error {
	return o.ledger(o.farmLedger.Load()).Refund(ctx, now, r.use())
}

// outcomes are what may become of a stamp.
var outcomes = [...]error{nil, ErrMalformed, ErrForged, ErrUnknown, ErrExpired, ErrForeign, ErrTooEasy, ErrReplayed,
	ErrWrong, ErrFull, ErrBusy, ErrIssuerGone}

// of is the count of an outcome. Errors that are not about stamps, such as that of a context, have none. What floods
// consist of comes first.
func (c *Counts) of(err error) *atomic.Uint64 {
	switch err {
	case nil:
		return &c.Accepted
	case ErrReplayed:
		return &c.Replayed
	case ErrForged:
		return &c.Forged
	case ErrWrong:
		return &c.Wrong
	case ErrMalformed:
		return &c.Malformed
	case ErrUnknown:
		return &c.Unknown
	case ErrExpired:
		return &c.Expired
	case ErrForeign:
		return &c.Foreign
	case ErrTooEasy:
		return &c.TooEasy
	case ErrFull:
		return &c.Full
	case ErrBusy:
		return &c.Busy
	case ErrIssuerGone:
		return &c.Gone
	}
	return nil
}

func (c *Counts) add(old *Counts) {
	c.Issued.Add(old.Issued.Load())
	for _, err := range outcomes {
		c.of(err).Add(old.of(err).Load())
	}
}

func (c *Counts) count(err error) {
	if n := c.of(err); n != nil {
		n.Add(1)
	}
}

// digest hashes length-prefixed parts under a label. Everything in this package that is hashed without a key uses it.
func digest(label string, n uint32, parts ...string) [sha256.Size]byte {
	b := make([]byte, 0, 256)
	b = append(append(b, byte(len(label))), label...)
	b = binary.BigEndian.AppendUint32(b, n)
	for _, p := range parts {
		b = binary.BigEndian.AppendUint16(b, uint16(len(p)))
		b = append(b, p...)
	}
	return sha256.Sum256(b)
}

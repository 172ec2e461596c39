package stamp

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"
)

// Nodes are the other nodes of a farm. The node that issued a challenge is the one that knows how often its stamp
// was used, so all others ask it. Goroutines share them.
type Nodes interface {
	// Self is what this run of this node is known by. It is written into nonces.
	Self() [TagBytes]byte
	// Ask puts a question to the node that issued a challenge: to Throttle.Answer there. It returns an error when that
	// run of the node is not up, or ctx ends.
	Ask(ctx context.Context, issuer [TagBytes]byte, question []byte) ([]byte, error)
	// Tell is Ask without an answer. It never waits, and what it is given may be lost.
	Tell(issuer [TagBytes]byte, question []byte)
}

// Bounds of what nodes ask each other.
const (
	TagBytes = 8 // of a nonce name the run that issued it
	MaxAsks  = 256
	// AskTimeout is how long a request waits for the issuer of its stamp.
	AskTimeout = 250 * time.Millisecond
)

// What the memory of other nodes' stamps holds, beside numbers of uses.
const (
	spentOut = 1 << 30      // the issuing node said so
	isGone   = spentOut + 1 // the issuing node did not answer, or does not know the stamp
)

// A farmLedger is the ledger of all nodes of a farm together. Stamps that were issued here are looked up in this node's
// own ledger. For each other stamp the node that issued it decides. Its answer is remembered, so that a flood of
// replays causes no questions.
type farmLedger struct {
	own     Ledger
	with    Nodes
	self    [TagBytes]byte
	others  *Filter // stamps that other nodes issued and that came here
	refunds *Filter // ids of refunds that other nodes have had: a message may come twice
	asks    *atomic.Int32
}

var _ Ledger = (*farmLedger)(nil)

// issuer names the run of a node that issued the nonce: its first bytes.
func (n *Nonce) issuer() [TagBytes]byte { return [TagBytes]byte(n[:]) }

func (b *farmLedger) issued(n *Nonce) bool { return n.issuer() == b.self }

// join makes the issuer one of a farm, and join with nil lets it leave. After that nobody can say what the other nodes
// accept, so all challenges from before are refused.
func (o *Issuer) join(c Nodes, ttl time.Duration, most int, now time.Time) {
	old := o.farmLedger.Load()
	switch {
	case c != nil:
		b := &farmLedger{own: o.parts.Ledger, with: c, self: c.Self(), asks: new(atomic.Int32)}
		if old != nil {
			b.others, b.refunds, b.asks = old.others, old.refunds, old.asks
		} else {
			b.others, b.refunds = NewFilter(ttl, most), NewFilter(ttl, most)
			// The farm's time may be behind the clock that the issuer opened by. This run has not issued anything
			// yet, so nothing from before is let in.
			o.since.Store(min(o.since.Load(), now.UnixMilli()))
		}
		o.farmLedger.Store(b)
	case old != nil:
		o.since.Store(max(o.since.Load(), now.UnixMilli()+1)) // also those of this millisecond
		o.farmLedger.Store(nil)
	}
}

// ledger knows how often a stamp was used. A node that is alone uses its own.
func (o *Issuer) ledger(b *farmLedger) Ledger {
	if b == nil {
		return o.parts.Ledger
	}
	return b
}

// Look returns how often a stamp was used, as far as it is known here.
func (b *farmLedger) Look(ctx context.Context, now time.Time, u Use) (int, uint64, error) {
	if b.issued(&u.Nonce) {
		return b.own.Look(ctx, now, u)
	}
	uses, mark, err := b.others.Look(ctx, now, u)
	if err != nil { // a clock is wrong: the issuing node's clock counts
		return 0, 0, nil
	}
	if uses == isGone {
		return 0, 0, ErrExpired
	}
	return uses, mark, nil
}

// Spend uses a stamp once more, here or at the node that issued it.
func (b *farmLedger) Spend(ctx context.Context, now time.Time, u Use) (int, error) {
	if b.issued(&u.Nonce) {
		return b.own.Spend(ctx, now, u)
	}
	switch uses, _, err := b.Look(ctx, now, u); {
	case err != nil:
		return 0, err
	case uses >= u.Covers:
		return uses, ErrReplayed
	}
	if b.asks.Add(1) > MaxAsks {
		b.asks.Add(-1)
		return 0, ErrBusy
	}
	defer b.asks.Add(-1)
	uses, err := b.askToSpend(ctx, u)
	switch err {
	case nil:
		b.others.note(now, &u, uint32(uses))
	case ErrReplayed:
		b.others.note(now, &u, spentOut)
	case ErrIssuerGone, ErrExpired:
		// The use may have been counted or not, so the stamp is worth nothing from now on.
		b.others.note(now, &u, isGone)
	}
	return uses, err
}

func (b *farmLedger) askToSpend(ctx context.Context, u Use) (int, error) {
	asking, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	q := question{kind: askSpend, use: u}
	text, err := b.with.Ask(asking, u.Nonce.issuer(), q.append(nil))
	if ctx.Err() != nil { // the client has left, which says nothing about the issuing node
		return 0, ctx.Err()
	}
	if err != nil {
		return 0, ErrIssuerGone
	}
	r, err := parseReply(text)
	if err != nil || r.result == nil && (r.uses < 1 || int64(r.uses) > int64(u.Covers)) {
		return 0, ErrIssuerGone
	}
	return int(r.uses), r.result
}

// Refund gives one use back, here or at the node that issued it. If the message is lost, so is the use.
func (b *farmLedger) Refund(ctx context.Context, now time.Time, u Use) error {
	if b.issued(&u.Nonce) {
		return b.own.Refund(ctx, now, u)
	}
	if uses, _, err := b.others.Look(ctx, now, u); err == nil && uses < spentOut {
		_ = b.others.Refund(ctx, now, u)
	} else if uses == spentOut {
		b.others.forget(now, &u) // it no longer is: the issuing node knows how many are left
	}
	q := question{kind: askRefund, use: u}
	_, _ = rand.Read(q.id[:]) // never fails
	b.with.Tell(u.Nonce.issuer(), q.append(nil))
	return nil
}

// answer answers another node's question about a stamp that was issued here. Of what the two nodes think that a stamp
// covers, the smaller counts. There is no answer to what is no question.
func (o *Issuer) answer(now time.Time, text []byte, covers int) []byte {
	b := o.farmLedger.Load()
	q, err := parseQuestion(text)
	if b == nil || err != nil {
		return nil
	}
	r := reply{result: ErrIssuerGone}
	if b.issued(&q.use.Nonce) {
		q.use.Covers = min(q.use.Covers, max(covers, 1))
		r = o.serve(b, now, &q)
	}
	return r.append(nil)
}

func (o *Issuer) serve(b *farmLedger, now time.Time, q *question) (r reply) {
	u := q.use
	issued := u.Expires.Add(-u.Lifetime).UnixMilli()
	if !now.Before(u.Expires) || issued < o.sinceAt(now, u.Lifetime) {
		return reply{result: ErrExpired}
	}
	ctx := context.Background()
	if q.kind == askRefund {
		once := Use{Nonce: q.id, Expires: u.Expires, Covers: 1}
		if _, r.result = b.refunds.Spend(ctx, now, once); r.result == nil {
			r.result = b.own.Refund(ctx, now, u)
		}
		return r
	}
	uses, err := b.own.Spend(ctx, now, u)
	return reply{err, uint32(max(uses, 0))}
}

// A question is what nodes ask each other about a stamp:
//
//	version 1 | kind 1 | nonce 16 | expires 8 | lifetime 4 | covers 4 | of a refund: id 16
//
// Times are in milliseconds, numbers big-endian.
type question struct {
	kind byte
	use  Use
	id   Nonce // of a refund, which is made once
}

// A reply is the answer: version 1 | result 1 | uses 4.
type reply struct {
	result error // nil, or one of results
	uses   uint32
}

const (
	wireVersion   = 1
	askSpend      = 1
	askRefund     = 2
	questionBytes = 2 + nonceBytes + 8 + 4 + 4
	replyBytes    = 6
)

var errQuestion = errors.New("stamp: no question that this version knows")

// results are what a reply may say, by number.
func results() [5]error { return [...]error{nil, ErrReplayed, ErrFull, ErrExpired, ErrIssuerGone} }

func (q *question) append(b []byte) []byte {
	b = append(b, wireVersion, q.kind)
	b = append(b, q.use.Nonce[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(q.use.Expires.UnixMilli()))
	b = binary.BigEndian.AppendUint32(b, uint32(q.use.Lifetime.Milliseconds()))
	b = binary.BigEndian.AppendUint32(b, uint32(q.use.Covers))
	if q.kind == askRefund {
		b = append(b, q.id[:]...)
	}
	return b
}

func parseQuestion(b []byte) (q question, err error) {
	if len(b) < questionBytes || b[0] != wireVersion {
		return question{}, errQuestion
	}
	q.kind = b[1]
	switch rest := b[questionBytes:]; {
	case q.kind == askSpend && len(rest) == 0:
	case q.kind == askRefund && len(rest) == nonceBytes:
		q.id = Nonce(rest)
	default:
		return question{}, errQuestion
	}
	q.use.Nonce = Nonce(b[2:])
	expires, lifetime := binary.BigEndian.Uint64(b[18:]), binary.BigEndian.Uint32(b[26:])
	covers := binary.BigEndian.Uint32(b[30:])
	if expires >= 1<<48 || lifetime < 1 || time.Duration(lifetime)*time.Millisecond > maxLifetime || covers < 1 ||
		covers > MaxCovers {
		return question{}, errQuestion
	}
	q.use.Expires, q.use.Lifetime = time.UnixMilli(int64(expires)), time.Duration(lifetime)*time.Millisecond
	q.use.Covers = int(covers)
	return q, nil
}

func (r *reply) append(b []byte) []byte {
	code := byte(3) // whatever else is wrong with it, it is worth nothing any more
	for i, err := range results() {
		if err == r.result {
			code = byte(i)
		}
	}
	return binary.BigEndian.AppendUint32(append(b, wireVersion, code), r.uses)
}

func parseReply(b []byte) (reply, error) {
	all := results()
	if len(b) != replyBytes || b[0] != wireVersion || int(b[1]) >= len(all) {
		return reply{}, errQuestion
	}
	return reply{all[b[1]], binary.BigEndian.Uint32(b[2:])}, nil
}

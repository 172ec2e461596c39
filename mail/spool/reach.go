package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"weir/store"
	"weir/throttle/reach"
)

// Errors of Accept and Reaches for users who are flagged by a reach throttle.
var (
	// The recipient is new to the user.
	ErrNewRecipient = &Refusal{
		"this account writes to too many new people: for now it may write only to those it has written to before", false}
	// Nothing of the user's goes on.
	ErrFlagged = &Refusal{"this account has written to too many new people: for now it may not send, ask support", false}
	// As much of the user's mail is withheld as may be.
	ErrWithheld = &Refusal{
		"too much of your mail to new people waits for somebody to look at it already, try again later", true}
	// The user has sent as many messages as flagged ones may.
	ErrFlaggedLimit = &Refusal{
		"this account writes to too many new people: for now it may send only a few messages, try again later", true}
)

// A Reach is a reach throttle.
type Reach struct {
	Name       string // of its sketches: gates with the same name share them
	Rules      *reach.Rules
	Population *reach.Population // what is usual among users; a change of the rules keeps it
	Shadow     func() bool       // whether it is in shadow: it counts, and everything passes; nil: never
}

func (r *Reach) inShadow() bool { return r.Shadow != nil && r.Shadow() }

// A sketch is what is stored of a user of a reach throttle: its state, and the fields that the spool needs.
type sketch struct {
	state    reach.State
	told     time.Time // when the user was last told of withheld messages; to the second
	shadow   bool      // the flag was set in shadow, and has no consequences later
	withheld int       // recipients
	bytes    int64     // of messages with such recipients
}

// The layout: the version, flags, when the user was told (seconds), withheld recipients and bytes, all as varints, and
// the state.
const (
	sketchVersion = 1
	sketchShadow  = 1
)

func (k *sketch) append(b []byte) ([]byte, error) {
	var flags byte
	if k.shadow {
		flags |= sketchShadow
	}
	b = appendTold(append(b, sketchVersion, flags), k.told)
	b = binary.AppendUvarint(b, uint64(max(k.withheld, 0)))
	return k.state.AppendBinary(binary.AppendUvarint(b, uint64(max(k.bytes, 0))))
}

func (k *sketch) read(b []byte) error {
	if len(b) < 2 {
		return fmt.Errorf("a sketch of %d bytes: %w", len(b), store.ErrCorrupt)
	}
	if b[0] != sketchVersion {
		return fmt.Errorf("a sketch of version %d: %w", b[0], store.ErrNewer)
	}
	rest := b[2:]
	var numbers [3]uint64
	for i := range numbers {
		v, n := binary.Uvarint(rest)
		if n <= 0 || v > maxTold<<10 {
			return fmt.Errorf("a sketch without its numbers: %w", store.ErrCorrupt)
		}
		numbers[i], rest = v, rest[n:]
	}
	if b[1]&^sketchShadow != 0 || numbers[0] > maxTold {
		return fmt.Errorf("a sketch: no flags or no time: %w", store.ErrCorrupt)
	}
	next := sketch{shadow: b[1]&sketchShadow != 0, told: toldAt(numbers[0]), withheld: int(numbers[1]),
		bytes: int64(numbers[2])}
	switch err := next.state.UnmarshalBinary(rest); {
	case errors.Is(err, reach.ErrNewer):
		return fmt.Errorf("a sketch: %w: %w", err, store.ErrNewer)
	case err != nil:
		return fmt.Errorf("a sketch: %w: %w", err, store.ErrCorrupt)
	}
	*k = next
	return nil
}

// A reachTx is what a reach throttle knows of one user, within one transaction.
type reachTx struct {
	reach  *reaches
	tx     store.MailTx
	now    time.Time
	of     *Reach
	user   string
	shadow bool
	sketch sketch
	stored bool // flagged, as it is stored: in shadow, too
	was    bool // flagged, and not in shadow, when the transaction began
	since  time.Time

	gate    *Gate       // of the message that is judged
	account store.User  // its user
	counts  *reachCount // its recipients
	verdict reach.Verdict
	quiet   bool // the observer is not told the verdict
	stops   bool // the mail throttle stops the user, who is told that alone
	samples []reach.Sample
}

// open begins a reachTx, and reads the sketch.
func (r *reaches) open(tx store.MailTx, now time.Time, of *Reach, user string) (*reachTx, error) {
	c := &reachTx{reach: r, tx: tx, now: now, of: of, user: user, shadow: of.inShadow()}
	kept, err := tx.Sketch(of.Name, user)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return c, c.age()
	case err != nil:
		return nil, err
	}
	c.stored = kept.Flagged
	if err := c.read(kept.State); errors.Is(err, store.ErrNewer) {
		return nil, err
	} else if err != nil { // the user may send, and begins anew
		r.log.Error("a reach throttle's state of a user is damaged and starts again", "throttle", of.Name, "user",
			user, "error", err)
		c.sketch = sketch{}
		if err := c.age(); err != nil {
			return nil, err
		}
	}
	if c.sketch.shadow && !c.shadow { // a flag of the time in shadow has no consequences
		c.sketch.shadow = false
		c.sketch.state.Clear(now)
	}
	c.since, _, c.was = c.sketch.state.Flagged()
	c.was = c.was && !c.sketch.shadow
	return c, nil
}

// age says of a user who was unknown here that the account is as old as its registration.
func (c *reachTx) age() error {
	user, err := c.reach.userOf(c.tx, c.user)
	if err == nil && !user.Made.IsZero() {
		c.sketch.state.IsAtLeastFrom(user.Made, c.now)
	}
	return err
}

func (c *reachTx) read(b []byte) error {
	if err := c.sketch.read(b); err != nil || !c.sketch.state.NeedsKnown() {
		return err
	}
	known, err := c.tx.Known(c.of.Name, c.user)
	if err != nil {
		return err
	}
	return c.sketch.state.SetKnown(known)
}

// judge decides about recipients. The recipients of an exempt user are counted all the same: they are known when the
// user is not exempt any more.
func (c *reachTx) judge(counts *reachCount) {
	c.verdict = c.sketch.state.Judge(c.of.Rules, c.of.Population, c.now, counts.keys, counts.fates)
	if c.of.Rules.Exempt(c.user) {
		c.verdict.Flagged, c.verdict.Now = false, false
		c.verdict.Held, c.verdict.Refused, c.verdict.Cause = 0, 0, reach.NoCause
		clear(counts.fates)
	}
}

// refused returns the error of a refused message, or nil.
func (c *reachTx) refused() *Refusal {
	switch {
	case c == nil || c.shadow || c.verdict.Refused == 0:
		return nil
	case c.verdict.Cause == reach.TooMany:
		return ErrFlaggedLimit
	case c.verdict.Cause == reach.AllBlocked:
		return ErrFlagged
	}
	return ErrNewRecipient
}

// commit takes recipients and their fates into the history.
func (c *reachTx) commit(counts *reachCount) {
	_, samples := c.sketch.state.Commit(c.of.Rules, c.of.Population, c.now, counts.keys, counts.fates)
	c.samples = append(c.samples, samples...)
}

// store writes the sketch, and changes of the flag into the audit log.
func (c *reachTx) store() error {
	since, by, flagged := c.sketch.state.Flagged()
	if flagged && c.of.Rules.Exempt(c.user) {
		c.sketch.state.Clear(c.now)
		flagged = false
	}
	// A clock that was set back takes the beginning of a flag with it. Only a later beginning is a flag of its own.
	same := c.was && !since.After(c.since)
	c.sketch.shadow = flagged && c.shadow && !same
	b, err := c.sketch.append(nil)
	if err != nil {
		return err
	}
	earnest := flagged && !c.sketch.shadow
	if err := c.tx.PutSketch(store.Sketch{Throttle: c.of.Name, User: c.user, State: b, Flagged: flagged}); err != nil {
		return err
	}
	if c.sketch.state.KnownChanged() {
		known, err := c.sketch.state.AppendKnown(nil)
		if err != nil {
			return err
		}
		if err := c.tx.PutKnown(c.of.Name, c.user, known); err != nil {
			return err
		}
	}
	if c.was && !(earnest && same) {
		if err := c.note(weirItself, "unflagged", "fewer new recipients"); err != nil {
			return err
		}
	}
	if earnest && !same {
		return c.note(weirItself, "flagged", figureText(by))
	}
	return nil
}

func (c *reachTx) note(by, what, text string) error {
	return c.tx.Log(entry(c.now, by, what, c.user, 0, fmt.Sprintf("%s (throttle %s)", text, c.of.Name)))
}

func figureText(f reach.Figure) string {
	if f.Limit == 0 {
		return "an operator flagged the user"
	}
	article := "a"
	if f.Window == reach.Hour {
		article = "an"
	}
	return fmt.Sprintf("%.0f new recipients within %s %s, the limit is %.0f", f.New, article, f.Window, f.Limit)
}

// settleReach does after a transaction what follows from a reachTx that was stored. nil: nothing.
func (r *reaches) settleReach(c *reachTx) {
	if c == nil {
		return
	}
	if len(c.samples) > 0 {
		c.of.Population.Observe(c.now, c.samples)
	}
	if _, _, flagged := c.sketch.state.Flagged(); flagged != c.stored {
		r.refresh(&r.flagged, c.of.Name, c.user)
	}
	if !c.quiet {
		r.tell.Reached(c.of.Name, c.user, c.verdict, c.shadow)
	}
	if c.verdict.Now && !c.shadow {
		r.tell.Flagged(c.of.Name)
		r.log.Warn("a user is flagged", "throttle", c.of.Name, "user", c.user, "why", figureText(c.verdict.Figure))
	}
}

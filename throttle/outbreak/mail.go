package outbreak

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir"
)

// Bounds of a state, whatever the parameters say: it must stay small, and readable by UnmarshalBinary.
const (
	MaxItems      = 65_536 // recipients that wait
	MaxWorkingSet = 1_000
	MaxCredit     = 10_000 // slack, mSlack
)

// Params are what holds for one user, everything filled in. Options make them.
type Params struct {
	Every      time.Duration // one recipient per so long
	MultiEvery time.Duration // the same for mails to several; it is Every unless the options say otherwise
	WorkingSet int
	FIFO       bool // replacement; LRU otherwise
	MaxSlack   int
	MaxMSlack  int
	Stop       int           // more recipients than that waiting stop the user
	HoldLarge  bool          // a single mail that would stop the user by itself is held for review instead
	Recipients int           // the most that one mail may have; whoever takes the mail sees to it
	Exempt     bool          // everything passes, nothing is counted
	Resume     time.Duration // a stopped user is tried again in slow motion after so long; 0: never
	Slow       int           // in slow motion the clock takes so many times as long
	Nulls      Nulls         // how many messages without a sender pass uncounted; the zero value: any number
}

// Nulls are how many messages without a sender a user may send uncounted: as many as fit into Per at once, and one more
// Every so often.
type Nulls struct{ Per, Every time.Duration }

// String says what holds, as an operator would write it.
func (p *Params) String() string {
	if p.Exempt {
		return "exempt"
	}
	replace := ""
	if p.FIFO {
		replace = ", replace fifo"
	}
	multi := ""
	if p.MultiEvery != p.Every {
		multi = fmt.Sprintf(", one recipient of several per %s", weir.Duration(p.MultiEvery))
	}
	return fmt.Sprintf("one recipient per %s%s, working_set %d%s, max_slack %d, max_mslack %d, stop %d, recipients %d",
		weir.Duration(p.Every), multi, p.WorkingSet, replace, p.MaxSlack, p.MaxMSlack, p.Stop, p.Recipients)
}

// A Fate says what becomes of one recipient of a mail.
type Fate uint8

// The fates. Package spool says what becomes of a recipient of each.
const (
	Pass  Fate = iota // goes on now
	Delay             // waits in the delay queue
	Hold              // the mail is held for review (HoldLarge)
)

func (p Fate) String() string {
	switch p {
	case Pass:
		return "pass"
	case Delay:
		return "delay"
	}
	return "hold"
}

// An Item is one recipient in the delay queue.
type Item struct {
	Mail   uint64 // whose mail; 0 for one that is only counted (shadow, or a mail that somebody else keeps)
	Number int    // which recipient of it
	Key    uint64 // the recipient, as a keyed hash
	Single bool   // of a mail to one
}

// A State is what the throttle remembers of one user. The zero value is a user who has never sent anything: the credit
// is full. It is not safe for concurrent use.
type State struct {
	last  int64    // when the clock ticked last, in nanoseconds since 1970
	multi int64    // when the clock of mails to several did; the same where there is one clock for both
	since int64    // when the user was stopped
	every [2]int64 // the periods of the two clocks; 0 where they are not known
	set   []uint64 // the working set, the latest first
	queue []Item   // the delay queue, the next first; nil where nobody waits

	nulls         int64 // when the last message without a sender is forgotten; 0 where there was none
	spent, mSpent int32 // what is missing of slack and mSlack: nothing at first, whatever their maxima are
	started       bool  // the clock runs
	stopped       bool
	operator      bool // stopped by an operator
	slow          bool // slow motion: somebody waits, or credit is missing
}

// Stopped reports whether the user is stopped, and since when.
func (s *State) Stopped() (since time.Time, stopped bool) {
	if !s.stopped {
		return time.Time{}, false
	}
	return time.Unix(0, s.since), true
}

// ByOperator reports whether the user is stopped because an operator said so: then no clock resumes.
func (s *State) ByOperator() bool { return s.operator }

// Slow reports whether the clock runs in slow motion.
func (s *State) Slow() bool { return s.slow }

// Credit is how many mails to new recipients, and how many recipients of mails to several, would pass at now.
func (s *State) Credit(p *Params, now time.Time) (slack, mSlack int) {
	c := s.at(p, now)
	return c.slack(p), c.mSlack(p)
}

// Known is how many recipients are in the working set.
func (s *State) Known() int { return len(s.set) }

// Stop stops the user, because an operator says so: exempt or not, and until Resume.
func (s *State) Stop(now time.Time) {
	s.stop(nanos(now))
	s.operator = true
}

func (s *State) stop(now int64) {
	if !s.stopped {
		s.since = now
	}
	s.stopped, s.slow = true, false
}

// Resume lets a stopped user go on. What was held is no longer the throttle's: it leaves the queue, and whoever keeps
// it waits for somebody to release or delete it. In slow motion the user begins without credit, and the clock takes
// longer until nobody waits and the credit is full again. If the user is not stopped, it changes the pace.
func (s *State) Resume(p *Params, now time.Time, slow bool) {
	t := nanos(now)
	s.wind(p, t)
	s.resume(p, t, slow)
}

func (s *State) resume(p *Params, now int64, slow bool) {
	if s.stopped || s.slow && !slow {
		s.idle(p, now)
	}
	if s.stopped {
		s.keep(nil)
		if slow && s.started {
			s.spent, s.mSpent = int32(credit(p.MaxSlack)), int32(credit(p.MaxMSlack))
		}
	}
	s.stopped, s.operator, s.since = false, false, 0
	s.slow = slow && (len(s.queue) > 0 || s.spent > 0 || s.mSpent > 0)
}

// Waiting is what waits, in order. It is not to be changed, and good until the state is changed.
func (s *State) Waiting() []Item { return s.queue }

// Take takes items out of the delay queue that were released or deleted, and returns them. Credit does not change.
func (s *State) Take(match func(Item) bool) (taken []Item) {
	s.keep(slices.DeleteFunc(s.queue, func(it Item) bool {
		is := match(it)
		if is {
			taken = append(taken, it)
		}
		return is
	}))
	return taken
}

// keep makes kept, which is a part of the queue, the whole of it.
func (s *State) keep(kept []Item) {
	if s.queue = kept; len(kept) == 0 {
		s.queue = nil
	}
}

func (s *State) slack(p *Params) int { return max(0, credit(p.MaxSlack)-int(s.spent)) }

func (s *State) mSlack(p *Params) int { return max(0, credit(p.MaxMSlack)-int(s.mSpent)) }

func credit(most int) int { return min(max(most, 0), MaxCredit) }

func (s *State) knows(p *Params, key uint64) bool {
	return slices.Contains(s.set[:min(len(s.set), workingSet(p))], key)
}

// remember puts a recipient into the working set, at the expense of the oldest. One that is there already comes to the
// front by LRU, and stays where it is by FIFO.
func (s *State) remember(p *Params, key uint64) {
	size := workingSet(p)
	if size == 0 {
		s.set = nil
		return
	}
	s.set = s.set[:min(len(s.set), size)]
	at := slices.Index(s.set, key)
	switch {
	case at >= 0 && p.FIFO:
		return
	case at < 0 && len(s.set) < size:
		if s.set == nil {
			s.set = make([]uint64, 0, size)
		}
		s.set = append(s.set, key)
		at = len(s.set) - 1
	case at < 0:
		at = size - 1
	}
	copy(s.set[1:at+1], s.set[:at])
	s.set[0] = key
}

func workingSet(p *Params) int { return min(max(p.WorkingSet, 0), MaxWorkingSet) }

// Counted reports whether a recipient, as a normalised address, is counted: neither internal nor listed as free, in any
// case. A Routed address is counted, unless it is listed just so.
func (o *Options) Counted(recipient string) bool {
	for _, free := range o.Free {
		if strings.EqualFold(free, recipient) {
			return false
		}
	}
	at := strings.LastIndexByte(recipient, '@')
	if at < 0 || Routed(recipient) {
		return true
	}
	host := recipient[at+1:]
	for _, internal := range o.Internal {
		if within(host, internal) {
			return false
		}
	}
	return true
}

// Routed reports whether what stands before the last @ may be the way to somebody else, as servers still understand it:
// ann%example.net@example.org, example.net!ann@example.org, "ann@example.net"@example.org and
// @example.org:ann@example.net. The domain says nothing then about who gets the mail.
func Routed(address string) bool {
	return strings.ContainsAny(address[:max(0, strings.LastIndexByte(address, '@'))], "%!@")
}

// within reports whether a domain is an internal one, or below one that is written with a dot in front.
func within(host, internal string) bool {
	base, deep := strings.CutPrefix(internal, ".")
	if strings.EqualFold(host, base) {
		return true
	}
	// Ends with the dot, too, so that an internal .example.org says nothing about badexample.org. Where letters have
	// another length in the other case, addresses are equal only as they are written.
	return deep && len(host) > len(internal) && strings.EqualFold(host[len(host)-len(internal):], internal)
}

func address(s string) (msg, hint string) {
	const example = "write support@example.org"
	at := strings.LastIndexByte(s, '@')
	switch {
	case s == "":
		return "an address is missing", example
	case at < 0:
		return fmt.Sprintf("%.64q is not an address", s), example + "; put whole domains under internal"
	case at == 0 || at == len(s)-1 || weir.Unfit(s) || strings.ContainsAny(s[at:], ",;<>*"):
		return fmt.Sprintf("%.64q is not an address", s), example
	}
	return "", ""
}

// TakeNull takes one message without a sender that is not counted otherwise, and reports whether it may go on. Its
// bucket has nothing to do with the working set, the credit, the delay queue or the stop.
func (s *State) TakeNull(p *Params, now time.Time) bool {
	next, ok := s.null(p, now)
	if ok && next != 0 {
		s.nulls = next
	}
	return ok
}

// MayNull says what TakeNull would, and changes nothing.
func (s *State) MayNull(p *Params, now time.Time) bool {
	_, ok := s.null(p, now)
	return ok
}

// ForgetNulls begins to count messages without a sender anew.
func (s *State) ForgetNulls() { s.nulls = 0 }

// null returns when one more message is forgotten; 0 where nobody counts them.
func (s *State) null(p *Params, now time.Time) (next int64, ok bool) {
	per, every := int64(p.Nulls.Per), int64(p.Nulls.Every)
	if per <= 0 || every <= 0 || p.Exempt {
		return 0, true
	}
	t := nanos(now)
	full := after(t, per)
	// A clock that was ahead, or a longer period before, leaves a full bucket at most.
	next = after(max(min(s.nulls, full), t), every)
	return min(next, never-1), next <= full
}

// A Decision is what Submit says about a mail as a whole.
type Decision struct {
	Refused bool // the user is stopped: nothing of the mail is taken
	Full    bool // refused because MaxItems would be exceeded
	Stopped bool // the user has just been stopped by this mail, whose recipients have their fates all the same
	Held    bool // the mail is held for review
	Passed  int
	Delayed int
}

// Submit says what becomes of each recipient of a mail: fates[i] for keys[i], which is the recipient's keyed hash. It
// is one of numbers[i] in the mail, or of i without numbers. mail names the mail in the Items of later; 0 keeps count
// of it and nothing else. Recipients that are never counted are not given to it: a mail to one that it counts is a mail
// to one. Without any, it does nothing. Where the mail is refused, fates is left alone.
//
// Call Tick with the same now first, and see to what leaves the queue. Submit does not do so by itself, because what
// leaves would be lost: without Tick, what is due stays in the queue until the next one, and counts as waiting.
func (s *State) Submit(p *Params, now time.Time, mail uint64, keys []uint64, numbers []int,
	fates []Fate) Decision {
	t := nanos(now)
	s.settle(p, t)
	d := s.judge(p, keys, fates)
	if len(keys) == 0 || p.Exempt || d.Refused || d.Held {
		return d
	}
	if !s.started {
		s.last, s.multi, s.started = t, t, true
		s.repace(p, t)
	}
	switch single := len(keys) == 1; {
	case single && d.Passed == 1:
		if !s.knows(p, keys[0]) {
			s.spent++
		}
		s.remember(p, keys[0])
	case !single:
		s.mSpent += int32(d.Passed)
	}
	s.wait(mail, keys, numbers, d.Passed)
	if d.Stopped {
		s.stop(t)
	}
	return d
}

// Hold puts recipients of a mail into the delay queue of a stopped user, whose server has taken it already: they wait
// with what waited before the stop, and nothing is charged. keys, numbers and mail are those of Submit. It
// reports whether it fitted; the user must be stopped.
func (s *State) Hold(now time.Time, mail uint64, keys []uint64, numbers []int) bool {
	if !s.stopped || len(s.queue)+len(keys) > MaxItems {
		return false
	}
	if len(keys) > 0 && !s.started {
		t := nanos(now)
		s.last, s.multi, s.started = t, t, true
	}
	s.wait(mail, keys, numbers, 0)
	return true
}

func (s *State) wait(mail uint64, keys []uint64, numbers []int, from int) {
	for i := from; i < len(keys); i++ {
		number := i
		if numbers != nil {
			number = numbers[i]
		}
		s.queue = append(s.queue, Item{Mail: mail, Number: number, Key: keys[i], Single: len(keys) == 1})
	}
}

// Peek says what Submit would after a Tick, and changes nothing.
func (s *State) Peek(p *Params, now time.Time, keys []uint64, fates []Fate) Decision {
	c := s.at(p, now)
	return c.judge(p, keys, fates)
}

// at returns the state as a Tick would make it, to be looked at.
func (s *State) at(p *Params, now time.Time) State {
	c := *s
	// With two clocks one may earn credit while somebody waits for the other.
	if due := s.Due(p); !due.IsZero() && (p.two() || !due.After(now)) {
		c.set, c.queue = slices.Clone(s.set), slices.Clone(s.queue)
		c.Tick(p, now, nil)
	} else {
		c.settle(p, nanos(now))
	}
	return c
}

// judge decides about a mail. Those that pass come first.
func (s *State) judge(p *Params, keys []uint64, fates []Fate) (d Decision) {
	n := len(keys)
	switch {
	case n == 0:
		return d
	case s.operator, s.stopped && !p.Exempt:
		return Decision{Refused: true}
	case p.Exempt:
		d.Passed = n
	case n > 1:
		d.Passed = min(n, s.mSlack(p))
	case s.slack(p) > 0 || s.knows(p, keys[0]):
		d.Passed = 1
	}
	d.Delayed = n - d.Passed
	stop := min(max(p.Stop, 0), MaxItems)
	switch {
	case d.Delayed == 0:
	case p.HoldLarge && d.Delayed > stop:
		fill(fates, n, Hold)
		return Decision{Held: true}
	case len(s.queue)+d.Delayed > MaxItems:
		return Decision{Refused: true, Full: true}
	default:
		d.Stopped = len(s.queue)+d.Delayed > stop
	}
	fill(fates, n, Delay)
	fill(fates, d.Passed, Pass)
	return d
}

func fill(fates []Fate, n int, with Fate) {
	for i := range fates[:min(n, len(fates))] {
		fates[i] = with
	}
}

package reach

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"weir"
	"weir/identify"
)

// Rules are options made ready for use. They do not change, and are safe for concurrent use.
type Rules struct {
	o        Options
	same     *identify.Aliases
	domains  domains // empty for all
	internal domains
	exempt   map[string]struct{}

	learn, hold, per int64 // seconds: of dynamic.learn, for, and the period of limit
	until            float64
}

// Rules makes rules of the options, or returns what Validate does.
func (o Options) Rules() (*Rules, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	same, err := identify.NewAliases(o.Same)
	if err != nil {
		return nil, err
	}
	r := &Rules{
		o: o, same: same, domains: newDomains(o.Domains, same), internal: newDomains(o.Internal, same),
		exempt: map[string]struct{}{},
		learn:  int64(o.Dynamic.Learn.Std() / time.Second), hold: int64(o.For.Std() / time.Second),
		per: int64(o.Limit.Per / time.Second), until: float64(o.Until),
	}
	for _, user := range o.Exempt {
		r.exempt[strings.ToLower(user)] = struct{}{}
	}
	return r, nil
}

// Options are what the rules were made of, everything filled in.
func (r *Rules) Options() Options { return r.o }

// NeedsKnown reports whether a set of known recipients is kept. A Bloom filter is one by itself.
func (r *Rules) NeedsKnown() bool {
	return r.o.Structure == HyperLogLog && (r.o.Known || r.o.Over == KnownOnly || r.o.Over == HoldNew)
}

// Exempt reports whether a user is never flagged.
func (r *Rules) Exempt(user string) bool {
	if len(r.exempt) == 0 {
		return false
	}
	_, exempt := r.exempt[strings.ToLower(user)] // mail users log in in any case
	return exempt
}

// Recipient returns the form of a mail address by which it is counted, and whether it is. Others are in lower case.
func (r *Rules) Recipient(address string) (normal string, counted bool) {
	// Where what stands before the @ may be the way to somebody else (ann%example.net@example.org,
	// example.net!ann@example.org), neither the domain nor a tag says anything about who gets the mail.
	if routed(address) {
		if plain, err := identify.Recipient(address); err == nil {
			return plain, true
		}
		return strings.ToLower(strings.TrimSpace(address)), true
	}
	normal, err := r.same.Address(address)
	if err != nil {
		normal = strings.ToLower(strings.TrimSpace(address))
	}
	at := strings.LastIndexByte(normal, '@')
	if at < 0 || err != nil || strings.ContainsAny(normal[:at], "%!@") {
		return normal, true
	}
	host := normal[at+1:]
	return normal, (r.domains.empty() || r.domains.has(host)) && !r.internal.has(host)
}

// routed reports whether an address may be the way to somebody else, as it is written.
func routed(address string) bool {
	at := strings.LastIndexByte(address, '@')
	return at >= 0 && strings.ContainsAny(address[:at], "%!@")
}

// domains are some, and everything below others.
type domains struct{ exact, below map[string]struct{} }

// newDomains also takes what the domains are the same as: addresses are looked at in their one form.
func newDomains(list []string, same *identify.Aliases) domains {
	d := domains{exact: map[string]struct{}{}, below: map[string]struct{}{}}
	for _, one := range list {
		base, below := strings.CutPrefix(one, ".")
		base = identify.Domain(base)
		d.exact[base] = struct{}{}
		if as, err := same.Address("a@" + base); err == nil {
			d.exact[as[strings.LastIndexByte(as, '@')+1:]] = struct{}{}
		}
		if below {
			d.below[base] = struct{}{}
		}
	}
	return d
}

func (d *domains) empty() bool { return len(d.exact) == 0 }

func (d *domains) has(host string) bool {
	if _, found := d.exact[host]; found {
		return true
	}
	for more := len(d.below) > 0; more; {
		if _, found := d.below[host]; found {
			return true
		}
		_, host, more = strings.Cut(host, ".")
	}
	return false
}

// A Threshold is dynamic, a share or a count. The zero value is dynamic.
type Threshold struct {
	Share weir.Share // 2 is 200%: three times as many as before
	Count int        // so many new recipients in the window
}

const dynamicWord = "dynamic"

func (t Threshold) String() string {
	switch {
	case t.Share != 0:
		return t.Share.String()
	case t.Count != 0:
		return strconv.Itoa(t.Count)
	}
	return dynamicWord
}

func (t Threshold) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads dynamic, a share or a count.
func (t *Threshold) UnmarshalText(text []byte) error { return weir.ReadText(t, text, ParseThreshold) }

// ParseThreshold reads dynamic, a share (200%) or a count (100).
func ParseThreshold(text string) (Threshold, error) {
	s := strings.TrimSpace(text)
	var t Threshold
	switch {
	case s == dynamicWord:
		return t, nil
	case strings.HasSuffix(s, "%"):
		share, err := weir.ParseShare(s)
		if err != nil {
			return t, err
		}
		t.Share = share
	default:
		count, err := strconv.Atoi(s)
		if err != nil || count < 0 {
			hint := "write dynamic, 200% or 100"
			if near := weir.Nearest(s, dynamicWord); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return t, &weir.FieldError{Msg: fmt.Sprintf("%.64q is not a threshold", s), Hint: hint}
		}
		t.Count = count
	}
	if t == (Threshold{}) {
		return t, &weir.FieldError{Msg: "a threshold of 0 flags everybody", Hint: "write dynamic, 200% or 100"}
	}
	return t, nil
}

// Times is how many times as much: 2, or 1.5.
type Times float64

func (t Times) String() string { return strconv.FormatFloat(float64(t), 'f', -1, 64) }

func (t Times) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a number with at most one point.
func (t *Times) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.Trim(s, "0123456789.") != "" {
		return &weir.FieldError{Msg: fmt.Sprintf("%.64q is not a number of times", s), Hint: "write 2 or 1.5"}
	}
	if n == 0 {
		return &weir.FieldError{Msg: "0 times as much is nothing", Hint: "write 2 or 1.5"}
	}
	*t = Times(n)
	return nil
}

// ownTimes is how many times their own usual a user may have under a dynamic threshold, whatever is usual among others.
const ownTimes = 3

// A measure is what limits are made from, beside the meter: the history of the user as it is before a message.
type measure struct {
	r     *Rules
	p     *Population
	now   time.Time
	count float64 // recipients
	blur  float64 // how much more than one recipient a change of the sketch that counts stands for
}

// figures appends how the user stands in each window of the rules.
func (m *meter) figures(x *measure, out []Figure) []Figure {
	for _, w := range x.r.o.Windows {
		fresh := m.sum(w)
		out = append(out, Figure{Window: w, New: fresh, Limit: m.limit(x, w, fresh)})
	}
	return out
}

func (m *meter) limit(x *measure, w Window, fresh float64) float64 {
	o := &x.r.o
	if o.Threshold.Count > 0 {
		return float64(max(o.Floor, o.Threshold.Count))
	}
	limit := max(m.threshold(x, w, fresh), float64(o.Floor))
	// A sketch that is not exact any more is wrong by chance. Three times its usual error is not chance.
	if x.blur > 0 {
		limit += 3 * math.Sqrt(limit*x.blur)
	}
	return limit
}

// threshold is the limit without a floor, where it is no count.
func (m *meter) threshold(x *measure, w Window, fresh float64) float64 {
	o := &x.r.o
	// The window must have begun when the learning was over: a list brought before is allowed as long as it counts.
	age := m.age(m.at)
	if age < x.r.learn+w.shape().length {
		return float64(o.Newcomers)
	}
	before := max(x.count-fresh, 0)
	switch share := float64(o.Threshold.Share); {
	case share > 0 && o.Against == AgainstPrevious:
		limit := (1 + share) * m.previous(w)
		if m.flagged && w == m.by.Window && m.by.Limit > 0 {
			limit = min(limit, m.by.Limit) // what was tried since must not be what is usual
		}
		return limit
	case share > 0:
		return share * before
	}
	if x.p != nil {
		if limit, ok := x.p.Limit(x.r, x.now, w, time.Duration(age)*time.Second, before); ok {
			return max(limit, ownTimes*float64(m.usual[w])/fraction)
		}
	}
	return float64(o.Newcomers)
}

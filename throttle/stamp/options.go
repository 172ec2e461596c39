package stamp

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/identify"
	"weir/throttle/stamp/classic"
)

// Bounds on what an operator may write.
const (
	MaxCovers   = 10_000
	MaxSteps    = 64
	MaxSpentCap = 100_000_000
	MaxPatience = 65_000
	minSecret   = 16
	maxSecret   = 4096

	minMaxTime = 10 * time.Millisecond

	defaultMaxSpent = 1_000_000
)

// Doubles says what is doubled.
type Doubles string

const (
	DoubleBits Doubles = "bits" // 16 bits, 32 bits: the source's way
	DoubleWork Doubles = "work" // 16 bits, 17 bits
)

// A Fate is what becomes of a request whose stamp is worth nothing.
type Fate string

const (
	FateDrop Fate = "drop" // turned away; a forger goes on the block list
	FatePool Fate = "pool" // as if it had brought none: it is asked for one, and may wait in the general pool
)

// Options configure stamps: what clients pay with when the service is overloaded.
type Options struct {
	// The puzzle: sha256-k (the default), eqs60 (ten times less of an advantage for graphics cards), dlog, or
	// dlog-classic (weak: for the document's own flow).
	Algorithm Algorithm `yaml:"algorithm"`
	// The load from which stamps are asked for; below it, nothing is asked of anybody. 0% always asks, even if no load
	// is known. Default 90%.
	FromLoad *weir.Share `yaml:"from_load"`
	// How long requests with a stamp should wait at most. The work asked for is raised while they wait longer. Default
	// 200ms.
	TargetWait weir.Duration `yaml:"target_wait"`
	// The work asked for first: "16 bits", or a number of operations. Default "16 bits".
	First Work `yaml:"first"`
	// How many requests a stamp pays for: a page and what it loads. 1 binds it to a single request, by method, URL and
	// body. Default 50.
	Covers int `yaml:"covers"`
	// How long a challenge may be paid, and its stamp used. Default 5m.
	Expires weir.Duration `yaml:"expires"`
	// How long a phone may have to work on a stamp, at most. No more than that is ever asked. Default 5s.
	MaxTime weir.Duration `yaml:"max_time"`
	// Which clients and paths are never asked: health checks, webhooks, feeds, good bots.
	NeverAsk identify.ExemptOptions `yaml:"never_ask"`
	// How many challenges a client may leave unpaid within a minute, without a ticket for the general pool, before it
	// is turned away. Clients without a cookie are counted by their address: beyond it, newcomers there may pay four
	// times as much. Default 1000; with classic 1.
	Patience int `yaml:"patience"`
	// What happens to a request with a forged or wrongly solved stamp in its header: drop (and the client goes on the
	// block list; the default) or pool. In a cookie it counts as none.
	OnInvalid Fate `yaml:"on_invalid"`
	// What happens to a request with a used stamp, where a stamp covers one request: drop (the default) or pool. Where
	// it covers more, or came in a cookie, a new stamp is simply asked for.
	OnReplay Fate `yaml:"on_replay"`
	// The source document to the letter: dlog-classic, difficulty that doubles, one stamp for each request, the
	// client's address as its id, old clients without a stamp on the block list, and strict priority.
	Classic bool `yaml:"classic"`
	// Work by load, in steps, instead of the steered one: [{load: 0%, work: 4 bits}, {load: 80%, work: 8 bits}].
	Schedule []Step `yaml:"schedule"`
	// Instead of the steered difficulty: start with the first work at from_load, and double it after every such
	// interval at whose end the load is still there. 0 turns it off. Default: off; with classic 10s.
	DoubleEvery *weir.Duration `yaml:"double_every"`
	// What is doubled: bits (the default, as in the document: 16 bits, then 32) or work (16 bits, then 17).
	Doubles Doubles `yaml:"doubles"`
	// The secret under which challenges are issued: the same on all nodes of a farm. Default: a random one, and
	// challenges end with the process. Write ${file:/path} or ${env:NAME}.
	Secret string `yaml:"secret"`
	// The secret before this one, still accepted while the nodes of a farm change over.
	OldSecret string `yaml:"old_secret"`
	// How often the key changes that follows from the secret. At least expires. Default 1h.
	Rotate weir.Duration `yaml:"rotate"`
	// How many spent stamps are remembered, about 50 bytes each. Beyond that no stamp is accepted until some have
	// expired. Default 1000000.
	MaxSpent int `yaml:"max_spent"`
}

// A Step is the work that is asked for from a load on.
type Step struct {
	// From this load on.
	Load weir.Share `yaml:"load" zero:"same"`
	// The work: "8 bits", or a number of operations. 0 asks for nothing.
	Work Work `yaml:"work" zero:"same"`
}

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	if o.Classic {
		o.Algorithm = cmp.Or(o.Algorithm, DLogClassic)
		o.Covers = cmp.Or(o.Covers, 1)
		o.Patience = cmp.Or(o.Patience, 1)
		if len(o.Schedule) == 0 {
			o.DoubleEvery = cmp.Or(o.DoubleEvery, new(weir.Duration(10*time.Second)))
		}
	}
	o.Algorithm = cmp.Or(o.Algorithm, SHA256K)
	o.FromLoad = cmp.Or(o.FromLoad, new(weir.Share(0.9)))
	o.TargetWait = cmp.Or(o.TargetWait, weir.Duration(200*time.Millisecond))
	o.First = cmp.Or(o.First, 1<<16)
	o.Covers = cmp.Or(o.Covers, 50)
	o.Expires = cmp.Or(o.Expires, weir.Duration(5*time.Minute))
	o.MaxTime = cmp.Or(o.MaxTime, weir.Duration(5*time.Second))
	o.Patience = cmp.Or(o.Patience, 1000)
	o.OnInvalid = cmp.Or(o.OnInvalid, FateDrop)
	o.OnReplay = cmp.Or(o.OnReplay, FateDrop)
	o.Doubles = cmp.Or(o.Doubles, DoubleBits)
	o.Rotate = cmp.Or(o.Rotate, max(weir.Duration(time.Hour), o.Expires))
	o.MaxSpent = cmp.Or(o.MaxSpent, defaultMaxSpent)
	return o
}

// doubleEvery is after how long the work doubles; zero where it does not.
func (o Options) doubleEvery() weir.Duration {
	if o.DoubleEvery == nil {
		return 0
	}
	return *o.DoubleEvery
}

// ReadsFiles reports whether the options name files whose contents count.
func (o *Options) ReadsFiles() bool {
	return len(o.NeverAsk.Files) > 0 ||
		slices.ContainsFunc(o.NeverAsk.Bots, func(b identify.Bot) bool { return len(b.Files) > 0 })
}

// AlwaysAsks reports whether a stamp is asked for without any load, too.
func (o Options) AlwaysAsks() bool {
	if len(o.Schedule) > 0 {
		return o.Schedule[0].Load <= 0 && o.Schedule[0].Work > 0
	}
	return *o.WithDefaults().FromLoad <= 0
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o Options) Validate() error {
	var v weir.Mistakes
	full := o.WithDefaults()
	if !full.Algorithm.known() {
		v.Add("algorithm", fmt.Sprintf("unknown algorithm %d", o.Algorithm),
			"one of "+strings.Join(allNames(), ", "))
		return v.Err()
	}
	if load := *full.FromLoad; !(load >= 0 && load <= 1) {
		v.Add("from_load", fmt.Sprintf("%s is out of bounds", load), "0% to 100%")
	}
	v.Lasts("target_wait", o.TargetWait, time.Millisecond, time.Minute)
	v.Lasts("expires", o.Expires, 10*time.Second, maxLifetime)
	v.Lasts("max_time", o.MaxTime, minMaxTime, 10*time.Minute)
	validateDoubling(full.doubleEvery(), o.Doubles, &v)
	v.Lasts("rotate", o.Rotate, 10*time.Second, 30*24*time.Hour)
	if o.Rotate != 0 && o.Rotate < full.Expires {
		v.Add("rotate", fmt.Sprintf("challenges live for %s, their key only for %s", full.Expires, o.Rotate),
			"at least expires")
	}
	v.Within("covers", int64(o.Covers), 1, MaxCovers)
	v.Within("patience", int64(o.Patience), 1, MaxPatience)
	v.Within("max_spent", int64(o.MaxSpent), 1, MaxSpentCap)
	for _, given := range [...]struct {
		path string
		fate Fate
	}{{"on_invalid", o.OnInvalid}, {"on_replay", o.OnReplay}} {
		switch given.fate {
		case "", FateDrop, FatePool:
		default:
			v.Add(given.path, fmt.Sprintf("unknown fate %q", given.fate), "one of drop, pool")
		}
	}
	v.Under("never_ask", o.NeverAsk.Validate())
	for _, given := range [...][2]string{{"secret", o.Secret}, {"old_secret", o.OldSecret}} {
		if path, s := given[0], given[1]; s != "" && (len(s) < minSecret || len(s) > maxSecret) {
			v.Add(path, fmt.Sprintf("a secret of %d characters is too short or too long", len(s)),
				fmt.Sprintf("%d to %d; 'openssl rand -base64 32' makes one", minSecret, maxSecret))
		}
	}
	if o.OldSecret != "" && o.Secret == "" {
		v.Add("old_secret", "there is no secret that replaces it", "give secret, too")
	}
	o.validateWork(&v)
	return v.Err()
}

func (o Options) validateWork(v *weir.Mistakes) {
	full := o.WithDefaults()
	most := Bearable(full.Algorithm, full.MaxTime.Std())
	tooMuch := func(path string, w Work) {
		if w > most {
			v.Add(path, fmt.Sprintf("a phone would work %s on %s",
				weir.Duration(w.Time(full.Algorithm).Round(time.Millisecond)), w),
				fmt.Sprintf("at most %d within max_time %s", most, full.MaxTime))
		}
	}
	if least := full.Algorithm.Least(); least > most && full.MaxTime.Std() >= minMaxTime {
		v.Add("max_time", fmt.Sprintf("a phone works %s on the least that %s asks for, %d operations",
			weir.Duration(least.Time(full.Algorithm).Round(time.Millisecond)), full.Algorithm, least),
			"give it more time, or use sha256-k")
	}
	if o.First != 0 {
		tooMuch("first", o.First)
	}
	if len(o.Schedule) > 0 && o.doubleEvery() != 0 {
		v.Add("double_every", "there is a schedule already", "either schedule or double_every")
	}
	validateSteps(o.Schedule, tooMuch, v)
}

// validateSteps checks a schedule. dear reports what is wrong with a work.
func validateSteps(steps []Step, dear func(path string, w Work), v *weir.Mistakes) {
	if !v.AtMost("schedule", "steps", len(steps), MaxSteps) {
		return
	}
	for i, s := range steps {
		at := fmt.Sprintf("schedule[%d]", i)
		if !(s.Load >= 0 && s.Load <= 1) {
			v.Add(at+".load", fmt.Sprintf("%s is out of bounds", s.Load), "0% to 100%")
		}
		if i > 0 && s.Load <= steps[i-1].Load {
			v.Add(at+".load", fmt.Sprintf("%s is not above %s", s.Load, steps[i-1].Load),
				"from the lowest load to the highest")
		}
		dear(at+".work", s.Work)
	}
}

func validateDoubling(every weir.Duration, doubles Doubles, v *weir.Mistakes) {
	v.Lasts("double_every", every, time.Second, time.Hour)
	switch doubles {
	case "", DoubleBits, DoubleWork:
	default:
		v.Add("doubles", fmt.Sprintf("%q cannot be doubled", doubles),
			weir.Suggest(string(doubles), string(DoubleBits), string(DoubleWork)))
	}
}

// always reports whether clients that do not pay are asked at any load, as in the source document.
func (o *Options) always() bool { return o.Classic || len(o.Schedule) > 0 || *o.FromLoad <= 0 }

// Difficulty makes what decides how much work is asked for.
func (o Options) Difficulty() *Difficulty {
	o = o.WithDefaults()
	least := o.Algorithm.Least()
	d := &Difficulty{
		steps:  o.Schedule,
		from:   *o.FromLoad,
		first:  max(o.First, least),
		least:  least,
		most:   max(Bearable(o.Algorithm, o.MaxTime.Std()), least),
		target: o.TargetWait.Std(),
	}
	d.doubling = classic.Doubling{Interval: o.doubleEvery().Std(), From: d.from, First: uint64(d.First()),
		Most: uint64(d.most), Bits: o.Doubles == DoubleBits}
	return d
}

// New opens an issuer. A configured secret may have issued challenges before. Those from before since, when this
// process began to remember what is spent, are refused. Pass the zero time where another ledger remembers.
func New(o Options, since time.Time) (*Issuer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	p := Parts{
		Keys:   o.keys(),
		Ledger: NewFilter(o.remembers(), o.MaxSpent),
		Since:  since,
	}
	return NewIssuer(p), nil
}

// remembers is for how long a spent stamp is remembered.
func (o *Options) remembers() time.Duration { return o.Expires.Std() + skew }

func (o Options) keys() *Keyring {
	var secrets [][]byte
	for _, s := range []string{o.Secret, o.OldSecret} {
		if s != "" {
			secrets = append(secrets, []byte(s))
		}
	}
	return NewKeyring(o.Rotate.Std(), secrets...)
}

// Renew opens the issuer that follows an old one after a reload. What was spent stays spent, and challenges that were
// issued stay good, under a new secret too. They are refused only if expires or max_spent has changed, or if they are
// of an old secret that is no longer listed. now is the time of the reload.
func Renew(old *Issuer, before, after Options, now time.Time) (*Issuer, error) {
	o, err := New(after, now)
	if err != nil {
		return nil, err
	}
	o.Counts.add(&old.Counts)
	before, after = before.WithDefaults(), after.WithDefaults()
	if before.Secret == after.Secret && before.OldSecret == after.OldSecret && before.Rotate == after.Rotate {
		o.parts.Keys = old.parts.Keys
	} else {
		o.parts.Keys.honour(old.parts.Keys, func(s secret) bool { return s == newSecret([]byte(before.OldSecret)) })
	}
	joined := old.farmLedger.Load()
	if before.Expires == after.Expires && before.MaxSpent == after.MaxSpent {
		o.parts.Ledger, o.parts.Since, o.marks = old.parts.Ledger, old.parts.Since, old.marks
		o.since.Store(old.since.Load())
		o.farmLedger.Store(joined)
	} else if joined != nil {
		o.join(joined.with, after.remembers(), after.MaxSpent, now)
	}
	return o, nil
}

package stamp

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/needs"
	"weir/throttle/stamp/classic"
)

// cheap is work that each algorithm does at once.
var cheap = map[Algorithm]Work{SHA256K: 256, DLog: 64, DLogClassic: 1 << 12, EQS60: 1}

func TestRoundTrip(t *testing.T) {
	for _, alg := range Algorithms {
		t.Run(alg.String(), func(t *testing.T) {
			t.Parallel()
			o := NewIssuer(Parts{})
			a := ask(alg, cheap[alg])
			s := solved(t, o, a)
			if len(s) > MaxStamp {
				t.Errorf("%d characters", len(s))
			}
			r, err := o.Verify(bg, start.Add(time.Minute), s, demand(a))
			if err != nil {
				t.Fatal(err)
			}
			want := Receipt{Nonce: r.Nonce, Algorithm: alg, Work: r.Work, Issued: start, Expires: start.Add(a.Lifetime),
				Client: a.Client, Message: a.Message, Uses: 1, Covers: 1}
			r.Issued, r.Expires = r.Issued.UTC(), r.Expires.UTC()
			if r != want || r.Work < a.Work {
				t.Errorf("receipt %+v, want %+v", r, want)
			}
			if _, err := o.Verify(bg, start.Add(time.Minute), s, demand(a)); err != ErrReplayed {
				t.Errorf("again: %v", err)
			}
			if o.Counts.Issued.Load() != 1 || o.Counts.Accepted.Load() != 1 || o.Counts.Replayed.Load() != 1 {
				t.Errorf("counts %+v", &o.Counts)
			}
		})
	}
}

// TestLongest: ids of the greatest length fit, one more is refused.
func TestLongest(t *testing.T) {
	o := NewIssuer(Parts{})
	long := strings.Repeat("x", MaxID)
	a := Ask{Algorithm: DLog, Work: 6, Lifetime: time.Minute, Client: long, Message: long}
	s := solved(t, o, a)
	if n := strings.IndexByte(s, '.'); n != MaxChallenge {
		t.Errorf("%d characters, want %d", n, MaxChallenge)
	}
	if _, err := o.Verify(bg, start, s, demand(a)); err != nil {
		t.Error(err)
	}
	for _, a := range []Ask{{Client: long + "x"}, {Message: long + "x"}} {
		a.Work, a.Lifetime = 16, time.Minute
		if _, err := o.Issue(start, a); err != ErrTooLong {
			t.Error(err)
		}
	}
	for _, a := range []Ask{{Algorithm: 9, Work: 1, Lifetime: time.Minute}, {Lifetime: time.Minute}, {Work: 1},
		{Work: 1, Lifetime: 25 * time.Hour}} {
		if _, err := o.Issue(start, a); err == nil {
			t.Errorf("%+v is issued", a)
		}
	}
}

// TestRefusals: a stamp for another client, message, time, or with less work than demanded is refused, and refusing
// spends nothing.
func TestRefusals(t *testing.T) {
	for alg, w := range map[Algorithm]Work{SHA256K: 256, EQS60: eqsLeast} {
		t.Run(alg.String(), func(t *testing.T) { refusals(t, ask(alg, w)) })
	}
}

func refusals(t *testing.T, a Ask) {
	o := NewIssuer(Parts{})
	s := solved(t, o, a)
	other := NewIssuer(Parts{})
	for name, c := range map[string]struct {
		issuer *Issuer
		now    time.Time
		stamp  string
		demand Demand
		want   error
	}{
		"another client": {o, start, s, Demand{Client: "somebody", Message: a.Message}, ErrForeign},
		"no client":      {o, start, s, Demand{Message: a.Message}, ErrForeign},
		"another message": {o, start, s, Demand{Client: a.Client, Message: ID("GET", "https://example.com/ ", "")},
			ErrForeign},
		"swapped":              {o, start, s, Demand{Client: a.Message, Message: a.Client}, ErrForeign},
		"too easy":             {o, start, s, Demand{Client: a.Client, Message: a.Message, MinWork: a.Work + 1}, ErrTooEasy},
		"expired":              {o, start.Add(a.Lifetime), s, demand(a), ErrExpired},
		"the key is gone":      {o, start.Add(3 * time.Hour), s, demand(a), ErrUnknown},
		"another secret":       {other, start, s, demand(a), ErrUnknown},
		"nothing":              {o, start, "", demand(a), ErrMalformed},
		"a dot":                {o, start, ".", demand(a), ErrMalformed},
		"no solution":          {o, start, s[:strings.IndexByte(s, '.')], demand(a), ErrMalformed},
		"an empty solution":    {o, start, s[:strings.IndexByte(s, '.')+1], demand(a), ErrMalformed},
		"a longer solution":    {o, start, s + "A", demand(a), ErrMalformed},
		"a line end":           {o, start, s[:40] + "\n" + s[40:], demand(a), ErrMalformed},
		"line ends at the end": {o, start, s[:len(s)-4] + "\r\n\r\n", demand(a), ErrMalformed},
		"as long as allowed":   {o, start, strings.Repeat("A", MaxStamp), demand(a), ErrMalformed},
		"in small letters":     {o, start, strings.ToLower(s), demand(a), ErrMalformed},
		"padded":               {o, start, s + "=", demand(a), ErrMalformed},
		"a padded challenge":   {o, start, strings.Replace(s, ".", "=.", 1), demand(a), ErrMalformed},
		"of the future":        {o, start.Add(-20 * time.Minute), s, demand(a), ErrForeign},
		"of a later key":       {o, start.Add(-3 * time.Hour), s, demand(a), ErrUnknown},
		"longer":               {o, start, strings.Repeat("A", MaxStamp+1), demand(a), ErrMalformed},
		"endless":              {o, start, strings.Repeat("A.", 1<<20), demand(a), ErrMalformed},
	} {
		if _, err := c.issuer.Verify(bg, c.now, c.stamp, c.demand); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := o.Verify(bg, start, s, demand(a)); err != nil {
		t.Errorf("then the right one: %v", err)
	}
}

// TestEveryBit: whichever bit of a stamp is turned, it is refused; so is every other character in its place.
func TestEveryBit(t *testing.T) {
	for _, alg := range Algorithms {
		t.Run(alg.String(), func(t *testing.T) {
			t.Parallel()
			o := NewIssuer(Parts{})
			w := cheap[alg]
			if alg == SHA256K {
				w = 1 << 16 // so that a changed counter is not right by chance, but for one in 4096
			}
			a := ask(alg, w)
			s := solved(t, o, a)
			dot := strings.IndexByte(s, '.')
			lucky := 0
			for i := range s {
				for bit := range 8 {
					b := []byte(s)
					b[i] ^= 1 << bit
					_, err := o.Verify(bg, start, string(b), demand(a))
					if err == nil && i > dot && alg == SHA256K {
						lucky++ // another solution of the same puzzle
						if _, err := o.Verify(bg, start, s, demand(a)); err != ErrReplayed {
							t.Fatalf("both solutions are taken: %v", err)
						}
						o = renewed(o)
						continue
					}
					if err == nil {
						t.Fatalf("character %d, bit %d: accepted", i, bit)
					}
				}
			}
			if lucky > 3 {
				t.Errorf("%d changed solutions are right", lucky)
			}
			if _, err := o.Verify(bg, start, s, demand(a)); err != nil {
				t.Error(err)
			}
		})
	}
}

// renewed is an issuer with the same keys and an empty ledger.
func renewed(o *Issuer) *Issuer { return NewIssuer(Parts{Keys: o.parts.Keys}) }

// TestFieldsAreBound: nobody can change what a challenge says, even where the result decodes.
func TestFieldsAreBound(t *testing.T) {
	o := NewIssuer(Parts{})
	a := ask(SHA256K, 1<<12)
	c, err := o.Issue(start, a)
	if err != nil {
		t.Fatal(err)
	}
	var buf [maxBytes]byte
	raw, _ := decodeText(buf[:], c, MaxChallenge)
	for name, change := range map[string]func(b []byte){
		"work":     func(b []byte) { binary.BigEndian.PutUint64(b[20:], 16) },
		"expiry":   func(b []byte) { b[15]++ },
		"lifetime": func(b []byte) { b[19]-- },
		"nonce":    func(b []byte) { b[30]++ },
		"eqs60":    func(b []byte) { b[1] = byte(EQS60) },
		"message":  func(b []byte) { b[45]++ },
		"client":   func(b []byte) { b[len(b)-tagBytes-2]++ },
		"tag":      func(b []byte) { b[len(b)-1]++ },
		"key":      func(b []byte) { b[9]++ },
	} {
		b := append([]byte(nil), raw...)
		change(b)
		_, size := puzzles[b[1]].sizes()
		s := encoding.EncodeToString(b) + "." + encoding.EncodeToString(make([]byte, size))
		if _, err := o.Verify(bg, start, s, demand(a)); err != ErrForged {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWrongBurnsNothing: a wrong answer first, then the right one: accepted. And the right one varied: a replay.
func TestWrongBurnsNothing(t *testing.T) {
	for _, alg := range Algorithms {
		t.Run(alg.String(), func(t *testing.T) {
			t.Parallel()
			o := NewIssuer(Parts{})
			w := cheap[alg]
			if alg == SHA256K {
				w = 1 << 14
			}
			a := ask(alg, w)
			s := solved(t, o, a)
			dot := strings.IndexByte(s, '.')
			solution, _ := encoding.DecodeString(s[dot+1:])
			put := func(b []byte) string { return s[:dot+1] + encoding.EncodeToString(b) }

			// A cheap puzzle is now and then solved by chance: another issuer with the same keys tells what is wrong.
			wrong := append([]byte(nil), solution...)
			for fill := byte(0xff); fill > 0; fill-- {
				for i := range wrong {
					wrong[i] = fill
				}
				probe := NewIssuer(Parts{Keys: o.Parts().Keys})
				if _, err := probe.Verify(bg, start, put(wrong), demand(a)); err == ErrWrong {
					break
				}
			}
			for range 3 {
				if _, err := o.Verify(bg, start, put(wrong), demand(a)); err != ErrWrong {
					t.Fatalf("wrong: %v", err)
				}
			}
			if _, err := o.Verify(bg, start, s, demand(a)); err != nil {
				t.Fatalf("then right: %v", err)
			}
			c, _ := ParseChallenge(s[:dot])
			varied := append([]byte(nil), solution...)
			switch alg {
			case SHA256K:
				b, n := newBlock(&c), counter(solution, 3)+1
				for b.value(3, n) >= sha256k.target(c.Work) {
					n++
				}
				putCounter(varied, 3, n)
			case DLogClassic:
				q := binary.BigEndian.Uint64(c.Data) / 2
				x := binary.BigEndian.Uint64(solution[8:]) + q
				binary.BigEndian.PutUint64(varied[8:], x)
				if fresh := renewed(o); !errors.Is(verifyErr(fresh, put(varied), demand(a)), ErrWrong) {
					t.Error("x + ord(a) is taken by an issuer that has not seen x")
				}
			}
			if _, err := o.Verify(bg, start, put(varied), demand(a)); err != ErrReplayed {
				t.Errorf("varied: %v", err)
			}
		})
	}
}

// TestTheNextUseIsCheckedToo: only the very stamp that was accepted is not solved again in the head. Another answer to
// the same challenge is looked at like the first one: a wrong one is refused and costs no use, a right one is the next
// use.
func TestTheNextUseIsCheckedToo(t *testing.T) {
	for _, alg := range Algorithms {
		t.Run(alg.String(), func(t *testing.T) {
			t.Parallel()
			o := NewIssuer(Parts{})
			a := ask(alg, max(cheap[alg], 1<<12))
			d := demand(a)
			d.Covers = 3
			s := solved(t, o, a)
			dot := strings.IndexByte(s, '.')
			c, err := ParseChallenge(s[:dot])
			if err != nil {
				t.Fatal(err)
			}
			solution, _ := encoding.DecodeString(s[dot+1:])
			put := func(b []byte) string { return s[:dot+1] + encoding.EncodeToString(b) }
			uses := func(s string) int {
				t.Helper()
				r, err := o.Verify(bg, start, s, d)
				if err != nil {
					t.Fatal(err)
				}
				return r.Uses
			}
			refused := func() {
				t.Helper()
				// Every answer but for one byte of the right one. That a changed counter is right by chance another
				// issuer tells.
				for i := range solution {
					wrong := append([]byte(nil), solution...)
					wrong[i] ^= 0x80
					if !errors.Is(verifyErr(renewed(o), put(wrong), d), ErrWrong) {
						continue
					}
					if err := verifyErr(o, put(wrong), d); err != ErrWrong {
						t.Errorf("byte %d is wrong: %v", i, err)
					}
				}
			}
			if n := uses(s); n != 1 {
				t.Fatalf("%d uses", n)
			}
			refused()
			if n := uses(s); n != 2 {
				t.Errorf("wrong answers are counted: use %d", n)
			}
			refused()
			if other, exists := another(&c, solution); exists {
				if n := uses(put(other)); n != 3 {
					t.Errorf("another right answer is use %d", n)
				}
			} else if n := uses(s); n != 3 {
				t.Errorf("use %d", n)
			}
			if err := verifyErr(o, s, d); err != ErrReplayed {
				t.Errorf("used up: %v", err)
			}
			if n := o.Counts.Wrong.Load(); n == 0 || o.Counts.Accepted.Load() != 3 {
				t.Errorf("%d wrong, %d accepted", n, o.Counts.Accepted.Load())
			}
		})
	}
}

// another returns a second right answer to a challenge, where there is one.
func another(c *Challenge, solution []byte) ([]byte, bool) {
	other := append([]byte(nil), solution...)
	n := counter(solution, 0) + 1
	h, ok := puzzles[c.Algorithm].(*hashes)
	if !ok { // x is the only one below the width, or the order
		return nil, false
	}
	for b := newBlock(c); b.value(0, n) >= h.target(c.Work); n++ {
	}
	putCounter(other, 0, n)
	return other, true
}

func verifyErr(o *Issuer, s string, d Demand) error {
	_, err := o.Verify(bg, start, s, d)
	return err
}

// TestCovers: a stamp that covers n requests is good for exactly n, by showing it again or by its receipt; a use given
// back can be had again.
func TestCovers(t *testing.T) {
	o := NewIssuer(Parts{})
	a := ask(SHA256K, 256)
	s := solved(t, o, a)
	d := demand(a)
	d.Covers = 5
	r, err := o.Verify(bg, start, s, d)
	if err != nil || r.Left() != 4 {
		t.Fatal(r, err)
	}
	if r, err = o.Verify(bg, start, s, d); err != nil || r.Uses != 2 {
		t.Fatal(r, err)
	}
	for want := 3; want <= 5; want++ {
		if err := o.Spend(bg, start, &r); err != nil || r.Uses != want {
			t.Fatal(r, err)
		}
	}
	if err := o.Spend(bg, start, &r); err != ErrReplayed {
		t.Error(err)
	}
	if _, err := o.Verify(bg, start, s, d); err != ErrReplayed {
		t.Error(err)
	}
	if err := o.Refund(bg, start, &r); err != nil {
		t.Error(err)
	}
	if r, err = o.Verify(bg, start, s, d); err != nil || r.Uses != 5 {
		t.Error(r, err)
	}
	if err := o.Spend(bg, start.Add(a.Lifetime), &r); err != ErrExpired {
		t.Error(err)
	}
}

// TestKeysRotate: a challenge outlives one change of the key, whoever's clock is a little off; a secret replaced is
// still honoured.
func TestKeysRotate(t *testing.T) {
	secret, after := []byte("a secret of the farm"), []byte("the next secret of the farm")
	a := ask(SHA256K, 64)
	end := time.Date(2026, 3, 2, 12, 59, 59, 0, time.UTC)
	one, two := NewKeyring(time.Hour, secret), NewKeyring(time.Hour, secret)
	issue := func(k *Keyring, now time.Time) string {
		c, err := NewIssuer(Parts{Keys: k}).Issue(now, a)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Solve(bg, c, SolveOptions{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, c := range map[string]struct {
		keys   *Keyring
		issued time.Time
		now    time.Time
		want   error
	}{
		"another node":      {two, end, end, nil},
		"the hour is over":  {two, end, end.Add(2 * time.Second), nil},
		"our clock is late": {two, end.Add(2 * time.Second), end, nil},
		"the next secret":   {NewKeyring(time.Hour, after, secret), end, end, nil},
		"only the next":     {NewKeyring(time.Hour, after), end, end, ErrUnknown},
	} {
		s := issue(one, c.issued)
		if err := func() error {
			_, err := NewIssuer(Parts{Keys: c.keys}).Verify(bg, c.now, s,
				demand(a))
			return err
		}(); err != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := issue(one, end)
	o := NewIssuer(Parts{Keys: one, Since: end.Add(time.Second)})
	if _, err := o.Verify(bg, end.Add(2*time.Second), s, demand(a)); err != ErrExpired {
		t.Errorf("from before the ledger was opened: %v", err)
	}
	if _, err := NewIssuer(Parts{Keys: NewKeyring(time.Hour)}).Issue(time.Unix(-5, 0), a); err != nil {
		t.Errorf("before the epoch: %v", err)
	}
}

// TestIssuerOverAJump: a clock that is a year ahead for a minute, also when the issuer opens, does not close it until
// that year is over.
func TestIssuerOverAJump(t *testing.T) {
	const year = 365 * 24 * time.Hour
	keys := NewKeyring(time.Hour)
	a := ask(SHA256K, 256)
	at := func(o *Issuer, now time.Time) string {
		t.Helper()
		text, err := o.Issue(now, a)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Solve(bg, text, SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	old := NewIssuer(Parts{Keys: keys})
	of := at(old, start) // spent at an issuer before this one, perhaps
	for name, since := range map[string]time.Time{"opened before": start, "opened while ahead": start.Add(year)} {
		o := NewIssuer(Parts{Keys: keys, Since: since})
		verify := func(when, s string, now time.Time, want error) {
			t.Helper()
			if _, err := o.Verify(bg, now, s, demand(a)); err != want {
				t.Errorf("%s, %s: %v, want %v", name, when, err, want)
			}
		}
		var first string
		if since.Equal(start) {
			first = at(o, start)
			verify("before", first, start, nil)
		}
		ahead := at(o, start.Add(year))
		verify("ahead", ahead, start.Add(year), nil)
		back := start.Add(time.Minute)
		if first != "" {
			verify("spent before", first, back, ErrReplayed)
		} else {
			verify("of an issuer before", of, back, ErrExpired)
		}
		verify("spent ahead", ahead, back, ErrUnknown)
		for i := range 3 {
			now := back.Add(time.Duration(i) * time.Second)
			s := at(o, now)
			verify("issued after it came back", s, now, nil)
			verify("issued after it came back, again", s, now, ErrReplayed)
		}
		verify("spent ahead, a year later", ahead, start.Add(year), ErrReplayed)
	}
	// A clock that is set back a little does not make good what was issued before.
	o := NewIssuer(Parts{Keys: keys, Since: start.Add(2 * time.Minute)})
	if _, err := o.Verify(bg, start.Add(time.Minute), of, demand(a)); err != ErrExpired {
		t.Errorf("set back by a minute: %v", err)
	}
	if _, err := o.Verify(bg, start.Add(time.Minute), at(o, start.Add(time.Minute)), demand(a)); err != ErrExpired {
		t.Errorf("issued then: %v", err)
	}
}

// TestSolveEnds: a solver stops when it is told to, whatever it is working on, and refuses what it would never finish.
func TestSolveEnds(t *testing.T) {
	o := NewIssuer(Parts{})
	for alg, w := range map[Algorithm]Work{SHA256K: 1 << 44, DLog: 1 << 28, DLogClassic: 1 << 40, EQS60: 1 << 44} {
		t.Run(alg.String(), func(t *testing.T) {
			t.Parallel()
			c, err := o.Issue(start, ask(alg, w))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(bg)
			told := 0
			_, err = Solve(ctx, c, SolveOptions{Progress: func(done, expected Work) {
				if told++; done == 0 || expected < w {
					t.Errorf("progress %d of %d", done, expected)
				}
				cancel()
			}})
			if err != context.Canceled || told == 0 {
				t.Errorf("%v after %d reports", err, told)
			}
			if _, err := Solve(bg, c, SolveOptions{MaxWork: 1 << 20}); err != ErrTooHard {
				t.Error(err)
			}
		})
	}
	c, _ := o.Issue(start, ask(DLog, MaxWork))
	if _, err := Solve(bg, c, SolveOptions{}); err != ErrTooHard {
		t.Error(err)
	}
	if _, err := Solve(bg, "nonsense", SolveOptions{}); err != ErrMalformed {
		t.Error(err)
	}
}

// TestID: no two lists of parts have the same id.
func TestID(t *testing.T) {
	seen := map[string][]string{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"", "ab"}, {"ab", ""}, {"GET", "/", ""},
		{"GET", "/ ", ""}} {
		id := ID(parts...)
		if other, twice := seen[id]; twice || len(id) > MaxID {
			t.Errorf("%q and %q: %s", parts, other, id)
		}
		seen[id] = parts
	}
}

// TestHashesSameAnswers: what sha256-k takes is what the hashes of its parts say, for solutions of which about every
// other one is right.
func TestHashesSameAnswers(t *testing.T) {
	needs.Unwatched(t)
	r := rand.New(rand.NewPCG(15, 16))
	right := 0
	for range 5000 {
		c := &Challenge{Algorithm: SHA256K, Work: 17}
		binary.BigEndian.PutUint64(c.Nonce[:], r.Uint64())
		binary.BigEndian.PutUint64(c.tag[:], r.Uint64())
		solution, want := make([]byte, sha256k.parts*counterBytes), true
		for i := range solution {
			solution[i] = byte(r.Uint32())
		}
		for i := range sha256k.parts {
			b := slices.Concat(c.Nonce[:], c.tag[:], binary.BigEndian.AppendUint64(nil, uint64(i)), []byte{0, 0},
				solution[i*counterBytes:][:counterBytes])
			sum := sha256.Sum256(b)
			want = want && binary.BigEndian.Uint64(sum[:]) < sha256k.target(c.Work)
		}
		if got := sha256k.check(c, nil, solution); got != want {
			t.Fatalf("%x under %x is taken: %t", solution, c.Nonce, got)
		}
		if want {
			right++
		}
	}
	if right < 1000 || right > 4000 {
		t.Errorf("%d of 5000 were right", right)
	}
}

// TestClassicClip: above 40 bits it is dlog of equal work.
func TestClassicClip(t *testing.T) {
	for w, want := range map[Work]Algorithm{1 << 40: DLogClassic, 1<<40 + 1: DLog, MaxWork: DLog, 1: DLogClassic} {
		a, got := dlogClassic{}.fit(w)
		if a != want || a == DLog && got != w || got < w {
			t.Errorf("%s: %s of %s", w, a, got)
		}
	}
	o := NewIssuer(Parts{})
	text, err := o.Issue(start, ask(DLogClassic, 1<<41))
	if err != nil {
		t.Fatal(err)
	}
	if c, _ := ParseChallenge(text); c.Algorithm != DLog || c.Work != 1<<41 {
		t.Errorf("%s", &c)
	}
	c := Challenge{Algorithm: DLogClassic, Work: 16, Data: make([]byte, classic.PrimeBytes)}
	if _, err := (SolveOptions{}).solve(bg, &c); err != ErrMalformed {
		t.Errorf("modulo zero: %v", err)
	}
}

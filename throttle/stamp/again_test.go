package stamp

import (
	"hash/maphash"
	"strings"
	"testing"

	"weir/internal/hmackey"
	"weir/internal/needs"
)

// TestEqsSpellings: a stamp is written in one way. Whatever else means the same, or nearly, is refused before it is
// spent and afterwards.
func TestEqsSpellings(t *testing.T) {
	o := NewOffice(Parts{})
	a := ask(EQS60, 1)
	s := solved(t, o, a)
	challenge, solution, _ := strings.Cut(s, ".")
	others := []string{strings.ToUpper(s), strings.ToLower(s), challenge + "." + strings.ToUpper(solution),
		challenge + "." + strings.ToLower(solution), s + "=", s + "==", challenge + "=." + solution, " " + s, s + " ",
		s + "\n", s + ".", s + "." + solution, strings.Replace(s, ".", "%2e", 1),
		strings.NewReplacer("-", "+", "_", "/").Replace(s)}
	if len(challenge)%4 != 3 || len(solution)%4 != 3 {
		t.Fatal("no bits are left over")
	}
	// Two bits of the last character are in no byte: four characters would decode to the same bytes.
	for _, at := range []int{len(challenge) - 1, len(s) - 1} {
		digit := strings.IndexByte(alphabet, s[at])
		for bits := 1; bits < 4; bits++ {
			others = append(others, s[:at]+alphabet[digit|bits:][:1]+s[at+1:])
		}
	}
	for round := range 2 {
		for _, other := range others {
			if other == s {
				continue // there was nothing to replace
			}
			if _, err := o.Verify(bg, start, other, demand(a)); err == nil || err == ErrReplayed &&
				!strings.HasPrefix(other, challenge+".") {
				t.Errorf("round %d: %q: %v", round, other, err)
			}
		}
		_, err := o.Verify(bg, start, s, demand(a))
		if want := []error{nil, ErrReplayed}[round]; err != want {
			t.Errorf("round %d: %v, want %v", round, err, want)
		}
	}
}

// hashOf is what an office knows a challenge by.
func hashOf(t *testing.T, o *Office, s string) uint64 {
	t.Helper()
	raw, err := encoding.DecodeString(strings.Split(s, ".")[0])
	if err != nil {
		t.Fatal(err)
	}
	return maphash.Bytes(o.marks, raw)
}

// TestAgain: a challenge is known as replayed when it was, and not before. What is known changes no answer: neither for
// the same stamp, which may be good again, nor for one of which a single bit is different.
func TestAgain(t *testing.T) {
	for _, alg := range []Algorithm{SHA256K, EQS60} {
		o := NewOffice(Parts{})
		a := ask(alg, cheap[alg])
		s := solved(t, o, a)
		verify := func(what, s string, d Demand, want error) Receipt {
			t.Helper()
			r, err := o.Verify(bg, start, s, d)
			if err != want {
				t.Errorf("%s, %s: %v, want %v", alg, what, err, want)
			}
			return r
		}
		known := func(want bool) {
			t.Helper()
			if o.again.has(hashOf(t, o, s)) != want {
				t.Errorf("%s: known: %t", alg, !want)
			}
		}
		r := verify("first", s, demand(a), nil)
		known(false)
		verify("second", s, demand(a), ErrReplayed)
		known(true)
		verify("third", s, demand(a), ErrReplayed)
		verify("of another client", s, Demand{Client: "somebody", Message: a.Message}, ErrForeign)
		verify("of too little work", s, Demand{Client: a.Client, Message: a.Message, MinWork: MaxWork}, ErrTooEasy)
		if _, err := o.Verify(bg, start.Add(a.Lifetime), s, demand(a)); err != ErrExpired {
			t.Errorf("%s, later: %v", alg, err)
		}
		for i := range strings.IndexByte(s, '.') {
			b := []byte(s)
			b[i] ^= 1
			if _, err := o.Verify(bg, start, string(b), demand(a)); err == nil || err == ErrReplayed {
				t.Errorf("%s: character %d: %v", alg, i, err)
			}
		}
		if err := o.Refund(bg, start, &r); err != nil {
			t.Fatal(err)
		}
		_, solution, _ := strings.Cut(s, ".")
		wrong := make([]byte, len(solution)*3/4)
		verify("given back, with a wrong solution", s[:strings.IndexByte(s, '.')+1]+encoding.EncodeToString(wrong),
			demand(a), ErrWrong)
		verify("given back", s, demand(a), nil)
		verify("and again", s, demand(a), ErrReplayed)
	}
}

// TestAgainIsNotTrusted: a forger who knew the hash of a challenge with a tag of their own making would gain nothing.
func TestAgainIsNotTrusted(t *testing.T) {
	o := NewOffice(Parts{})
	a := ask(EQS60, 1)
	c, err := o.Issue(start, a)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := encoding.DecodeString(c)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-1] ^= 1
	forged, err := Solve(bg, encoding.EncodeToString(raw), SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o.again.note(hashOf(t, o, forged))
	if _, err := o.Verify(bg, start, forged, demand(a)); err != ErrForged {
		t.Errorf("%v, want %v", err, ErrForged)
	}
	if n := o.parts.Ledger.(*Filter).Len(); n != 0 {
		t.Errorf("%d stamps are spent", n)
	}
}

// TestAgainIsBounded: a newer challenge takes the place of an older one.
func TestAgainIsBounded(t *testing.T) {
	var a again
	for i := range uint64(maxAgain + 1) {
		a.note(1<<20 + i)
	}
	if a.has(1<<20) || !a.has(1<<20+1) || !a.has(1<<20+maxAgain) {
		t.Error("not the newest")
	}
}

// TestReplaysAllocateNothing, known or not.
func TestReplaysAllocateNothing(t *testing.T) {
	needs.Unwatched(t) // the race detector allocates
	o := NewOffice(Parts{})
	a := ask(EQS60, 1)
	s := solved(t, o, a)
	if _, err := o.Verify(bg, start, s, demand(a)); err != nil {
		t.Fatal(err)
	}
	at, n := hashOf(t, o, s)%maxAgain, uint64(0)
	for name, forget := range map[string]bool{"known": false, "not known": true} {
		if n := testing.AllocsPerRun(100, func() {
			if forget {
				n++
				o.again[at].Store(n)
			}
			if _, err := o.Verify(bg, start, s, demand(a)); err != ErrReplayed {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %f allocations", name, n)
		}
	}
}

// TestAheadAndNot: a stamp gets the same answer whether or not its first block is hashed beside its tag.
func TestAheadAndNot(t *testing.T) {
	o := NewOffice(Parts{})
	for _, alg := range Algorithms {
		a := ask(alg, max(cheap[alg], 1<<12)) // so that what is wrong is not right by chance
		good := solved(t, o, a)
		challenge, text, _ := strings.Cut(good, ".")
		wrong, err := encoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		for i := range wrong {
			wrong[i] ^= 0x55
		}
		for _, ahead := range []bool{false, true} {
			for s, want := range map[string]error{good: nil, stampOf(challenge, wrong): ErrWrong} {
				fresh := renewed(o)
				fresh.desks.New = func() any { return &desk{hash: hmackey.NewHash(), ahead: ahead} }
				if _, err := fresh.Verify(bg, start, s, demand(a)); err != want {
					t.Errorf("%s, ahead %t: %v, want %v", alg, ahead, err, want)
				}
			}
		}
	}
}

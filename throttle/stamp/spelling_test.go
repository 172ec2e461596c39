package stamp

import (
	"math/rand/v2"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
)

// TestEqsSpellings: a stamp is written in one way. Whatever else means the same, or nearly, is refused before it is
// spent and afterwards.
func TestEqsSpellings(t *testing.T) {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	o := NewIssuer(Parts{})
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
		digit := strings.IndexByte(digits, s[at])
		for bits := 1; bits < 4; bits++ {
			others = append(others, s[:at]+digits[digit|bits:][:1]+s[at+1:])
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

// TestAgain: a stamp that was replayed is good again when its use is given back, but for a wrong solution. One of which
// a single bit is different is not called a replay.
func TestAgain(t *testing.T) {
	for _, alg := range []Algorithm{SHA256K, EQS60} {
		o := NewIssuer(Parts{})
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
		r := verify("first", s, demand(a), nil)
		verify("second", s, demand(a), ErrReplayed)
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

// TestVerifyingAllocatesNothing: neither accepting a stamp nor refusing a replay or a forged one.
func TestVerifyingAllocatesNothing(t *testing.T) {
	needs.Unwatched(t) // the race detector allocates
	for _, alg := range []Algorithm{SHA256K, EQS60} {
		o := NewIssuer(Parts{})
		a := ask(alg, cheap[alg])
		spent := solved(t, o, a)
		if n := testing.AllocsPerRun(100, func() {
			r, err := o.Verify(bg, start, spent, demand(a))
			if err != nil || o.Refund(bg, start, &r) != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s, accepted: %f allocations", alg, n)
		}
		if _, err := o.Verify(bg, start, spent, demand(a)); err != nil {
			t.Fatal(err)
		}
		forged := []byte(spent)
		forged[20] ^= 1
		for s, want := range map[string]error{spent: ErrReplayed, string(forged): ErrForged} {
			if n := testing.AllocsPerRun(100, func() {
				if _, err := o.Verify(bg, start, s, demand(a)); err != want {
					t.Error(err)
				}
			}); n != 0 {
				t.Errorf("%s, %v: %f allocations", alg, want, n)
			}
		}
	}
}

// sameText fails the test if decodeText does not do what the library does, but for line ends.
func sameText(tb testing.TB, text string, room int) {
	tb.Helper()
	got, err := decodeText(make([]byte, room), text, len(text))
	want, wrong := encoding.DecodeString(text)
	ok := wrong == nil && !strings.ContainsAny(text, "\r\n") && len(want) <= room
	if (err == nil) != ok || ok && string(got) != string(want) {
		tb.Fatalf("%q into %d bytes is %x, %v; want %x, %t", text, room, got, err, want, ok)
	}
	if err != nil && err != ErrMalformed {
		tb.Fatal(err)
	}
}

// TestDecodeText: texts of each length, with each character in each of the last places, and with as much room as they
// need, one byte less and some more.
func TestDecodeText(t *testing.T) {
	needs.Unwatched(t)
	r := rand.New(rand.NewPCG(9, 10))
	for n := range 100 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		text := encoding.EncodeToString(b)
		for _, room := range []int{n, n - 1, n + 1, n + 40} {
			if room >= 0 {
				sameText(t, text, room)
				sameText(t, text+"A", room)
			}
		}
		for place := max(0, len(text)-12); place < len(text); place++ {
			for c := range 256 {
				sameText(t, text[:place]+string([]byte{byte(c)})+text[place+1:], n)
			}
		}
	}
	if _, err := decodeText(make([]byte, 100), "AAAA", 3); err != ErrMalformed {
		t.Errorf("more than the most: %v", err)
	}
}

// FuzzDecodeText: what decodes is written in one way.
func FuzzDecodeText(f *testing.F) {
	f.Add("", 0)
	f.Add("AQGd57ljAAebaAGh3ma5mgAEk-AAAAAAAAEAAE8MK5BPKbLE07ccuQRs", 42)
	f.Add("AAAA\nAAAA", 6)
	f.Add("AB", 1)
	f.Fuzz(func(t *testing.T, text string, room int) { sameText(t, text, min(max(room, 0), 1<<12)) })
}

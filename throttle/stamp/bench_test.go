package stamp

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"testing"
	"time"
)

var (
	start = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	bg    = context.Background()
)

// ask is what the benchmarks ask for.
func ask(a Algorithm, w Work) Ask {
	return Ask{Algorithm: a, Work: w, Lifetime: 5 * time.Minute, Client: "c-1234567890abcdef",
		Message: ID("GET", "https://example.com/", "")}
}

func demand(a Ask) Demand { return Demand{Client: a.Client, Message: a.Message} }

// BenchmarkIssue is target S1: ours beside hmac.New and a sum over the same bytes.
func BenchmarkIssue(b *testing.B) {
	o := NewIssuer(Parts{})
	a := ask(SHA256K, 1<<20)
	text, err := o.Issue(start, a)
	if err != nil {
		b.Fatal(err)
	}
	var buf [maxBytes]byte
	raw, _ := decodeText(buf[:], text, MaxChallenge)
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	b.Run("hmac", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			h := hmac.New(sha256.New, secret)
			h.Write(raw[:len(raw)-tagBytes])
			h.Sum(nil)
		}
	})
	for _, alg := range Algorithms {
		a := ask(alg, 1<<20)
		b.Run(alg.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := o.Issue(start, a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRefuse is target S2: stamps that cost a flood nothing, or once, and wrong solutions of genuine challenges.
func BenchmarkRefuse(b *testing.B) {
	for _, alg := range []Algorithm{SHA256K, EQS60} {
		o := NewIssuer(Parts{})
		a := ask(alg, 64)
		forged := solved(b, NewIssuer(Parts{Keys: NewKeyring(time.Hour, []byte("another"))}), a)
		turned := []byte(solved(b, o, a))
		turned[20] ^= 1
		var challenge, wrong string
		var size int
		// By luck, what is changed may be right.
		for err := error(nil); err != ErrWrong; _, err = o.Verify(bg, start, wrong, demand(a)) {
			var text string
			challenge, text, _ = strings.Cut(solved(b, o, a), ".")
			solution, err := encoding.DecodeString(text)
			if err != nil {
				b.Fatal(err)
			}
			size = len(solution)
			solution[size-1] ^= 0x80
			wrong = stampOf(challenge, solution)
		}
		spent := solved(b, o, a)
		if _, err := o.Verify(bg, start, spent, demand(a)); err != nil {
			b.Fatal(err)
		}
		for _, c := range []struct {
			name  string
			stamp string
			want  error
		}{
			{"unknown-key", forged, ErrUnknown},
			{"turned", string(turned), ErrForged},
			{"replayed", spent, ErrReplayed},
			{"zeros", stampOf(challenge, make([]byte, size)), ErrWrong},
			{"wrong-at-its-end", wrong, ErrWrong},
		} {
			b.Run(alg.String()+"/"+c.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := o.Verify(bg, start, c.stamp, demand(a)); err != c.want {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkAccept is target S3: a stamp of 16 parts, each one accepted for the first time.
func BenchmarkAccept(b *testing.B) {
	for _, alg := range Algorithms {
		b.Run(alg.String(), func(b *testing.B) {
			a := ask(alg, 16)
			many := 512
			if alg == EQS60 {
				many = 64 // a stamp takes 20 ms to make
			}
			stamps := make([]string, many)
			o := NewIssuer(Parts{})
			for i := range stamps {
				stamps[i] = solved(b, o, a)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r, err := o.Verify(bg, start, stamps[i%many], demand(a))
				if err != nil {
					b.Fatal(err)
				}
				// So that it can be accepted again: a little more than a gate would do.
				if err := o.Refund(bg, start, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// solved issues a challenge and pays it.
func solved(tb testing.TB, o *Issuer, a Ask) string {
	tb.Helper()
	c, err := o.Issue(start, a)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := Solve(bg, c, SolveOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// BenchmarkSolve is what a stamp costs whoever makes it, per operation.
func BenchmarkSolve(b *testing.B) {
	o := NewIssuer(Parts{})
	for alg, w := range map[Algorithm]Work{SHA256K: 1 << 20, DLog: 1 << 16, DLogClassic: 1 << 34, EQS60: 1 << 20} {
		b.Run(alg.String(), func(b *testing.B) {
			var done Work
			for b.Loop() {
				c, _ := o.Issue(start, ask(alg, w))
				var last Work
				if _, err := Solve(bg, c,
					SolveOptions{Workers: 1, Progress: func(n, _ Work) { last = n }}); err != nil {
					b.Fatal(err)
				}
				done += last
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/operation")
		})
	}
}

// BenchmarkFarm is what a stamp costs in a farm, without the way there and back: one that was issued here, one of
// another node, and a replay of that.
func BenchmarkFarm(b *testing.B) {
	f := newTestFarm()
	here, there := f.start(b, 'a', 1), f.start(b, 'b', 1)
	for name, issuer := range map[string]*Throttle{"own": here, "others": there} {
		b.Run(name, func(b *testing.B) {
			stamp := f.pays(b, issuer)
			b.ReportAllocs()
			for b.Loop() {
				paid, refund := f.brings(here, stamp)
				if paid.Work == 0 {
					b.Fatal(paid)
				}
				refund()
			}
		})
	}
	b.Run("replayed", func(b *testing.B) {
		stamp := f.pays(b, there)
		f.brings(here, stamp)
		b.ReportAllocs()
		for b.Loop() {
			if paid, _ := f.brings(here, stamp); paid.Work > 0 {
				b.Fatal(paid)
			}
		}
	})
}

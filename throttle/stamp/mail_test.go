package stamp

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func newMailIssuer(tb testing.TB, a Algorithm, w Work) *MailIssuer {
	tb.Helper()
	d, err := NewMailIssuer(MailOptions{Algorithm: a, Work: w}, NewKeyring(time.Hour, []byte("mail")), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func mailStampFor(tb testing.TB, p MailParams, l MailBinding) string {
	tb.Helper()
	s, err := MailStamp(bg, p, l, SolveOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	if len(s) > MaxMailStamp {
		tb.Errorf("%d characters", len(s))
	}
	return s
}

// TestMail: a stamp made from the published parameters alone is accepted once, for its recipient and message, within
// its hour and the next.
func TestMail(t *testing.T) {
	for _, alg := range []Algorithm{SHA256K, DLogClassic, EQS60} {
		t.Run(alg.String(), func(t *testing.T) {
			t.Parallel()
			d := newMailIssuer(t, alg, cheap[alg])
			published, err := json.Marshal(d.Params(start))
			if err != nil {
				t.Fatal(err)
			}
			p, err := ReadMailParams(strings.NewReader(string(published)))
			if err != nil || p != d.Params(start) {
				t.Fatalf("%s: %+v, %v", published, p, err)
			}
			l := MailBinding{Message: "<1@example.com> body", Recipient: "bob@example.net", Date: start}
			s := mailStampFor(t, p, l)
			for name, c := range map[string]struct {
				now    time.Time
				change func(*MailBinding)
				want   error
			}{
				"another recipient": {start, func(l *MailBinding) { l.Recipient = "eve@example.net" }, ErrForeign},
				"another message":   {start, func(l *MailBinding) { l.Message += " " }, ErrForeign},
				"another date":      {start, func(l *MailBinding) { l.Date = l.Date.Add(time.Second) }, ErrForeign},
				"no date":           {start, func(l *MailBinding) { l.Date = time.Time{} }, ErrForeign},
				"two hours later":   {start.Add(2 * time.Hour), func(*MailBinding) {}, ErrExpired},
				"an hour ahead":     {start.Add(-time.Hour), func(*MailBinding) {}, ErrExpired},
			} {
				l := l
				c.change(&l)
				if _, err := d.Verify(bg, c.now, s, l); err != c.want {
					t.Errorf("%s: %v", name, err)
				}
			}
			r, err := d.Verify(bg, start.Add(119*time.Minute), s, l)
			if err != nil || r.Client != l.Recipient || r.Message != l.Message || r.Work < cheap[alg] {
				t.Fatalf("%+v, %v", r, err)
			}
			if _, err := d.Verify(bg, start.Add(119*time.Minute), s, l); err != ErrReplayed {
				t.Errorf("again: %v", err)
			}
			// Another stamp for the same is another stamp.
			if _, err := d.Verify(bg, start, mailStampFor(t, p, l), l); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMailCopied: one stamp copied to n recipients is worth one.
func TestMailCopied(t *testing.T) {
	d := newMailIssuer(t, SHA256K, 256)
	to := []string{"a@example.com", "b@example.com", "c@example.com"}
	l := MailBinding{Message: "m", Recipient: to[1]}
	p := d.Params(start)
	one := mailStampFor(t, p, l)
	errs := d.VerifyEach(bg, start, []string{one, one, one, "nonsense"}, l, to)
	if errs[0] != ErrForeign || errs[1] != nil || errs[2] != ErrForeign {
		t.Errorf("%v", errs)
	}
	errs = d.VerifyEach(bg, start, []string{one}, l, to)
	if errs[1] != ErrReplayed {
		t.Errorf("again: %v", errs)
	}
	var all []string
	for _, r := range []string{to[2], to[0], to[1]} {
		l.Recipient = r
		all = append(all, FoldMailHeader(mailStampFor(t, p, l))[len(MailHeader)+1:])
	}
	// The spent one is there, too: a fresh one beside it counts.
	if errs := d.VerifyEach(bg, start, append(all, one), l, to); errors.Join(errs...) != nil {
		t.Errorf("one each: %v", errs)
	}
	// A recipient named twice needs two.
	if errs := d.VerifyEach(bg, start, []string{mailStampFor(t, p, l)}, l,
		[]string{l.Recipient, l.Recipient}); errs[0] != nil || errs[1] != ErrReplayed {
		t.Errorf("twice: %v", errs)
	}
}

// TestMailMany: how many stamps are looked at is bounded, and a wrong solution beside the right one is not searched
// around for ever.
func TestMailMany(t *testing.T) {
	d := newMailIssuer(t, SHA256K, 4096)
	l := MailBinding{Message: "m", Recipient: "a@example.com"}
	s := mailStampFor(t, d.Params(start), l)
	others := func(n int) (all []string) {
		for i := range n {
			all = append(all, mailStampFor(t, MailParams{SHA256K, 16, 1, [16]byte{byte(i), byte(i >> 8)}},
				MailBinding{Recipient: "x"}))
		}
		return all
	}
	many := others(MaxMailStamps)
	to := []string{l.Recipient}
	if errs := d.VerifyEach(bg, start, append(many, s), l, to); errs[0] != ErrForeign {
		t.Errorf("beyond the bound: %v", errs)
	}
	dot := strings.IndexByte(s, '.')
	wrong := s[:dot+1] + strings.Repeat("_", len(s)-dot-1)
	if errs := d.VerifyEach(bg, start, []string{wrong, s}, l, to); errs[0] != ErrWrong {
		t.Errorf("a wrong one first: %v", errs)
	}
	if errs := d.VerifyEach(bg, start, append(many[:MaxMailStamps-1:MaxMailStamps-1], s), l, to); errs[0] != nil {
		t.Errorf("the last that is looked at: %v", errs)
	}
	if errs := d.VerifyEach(bg, start, nil, l, nil); errs != nil {
		t.Errorf("nobody: %v", errs)
	}
}

// TestMailRules: less work than asked, another algorithm, or another server's seed is refused; a wrong solution burns
// nothing.
func TestMailRules(t *testing.T) {
	d := newMailIssuer(t, SHA256K, 4096)
	l := MailBinding{Message: "m", Recipient: "a@example.com"}
	easy := d.Params(start)
	easy.Work--
	other := newMailIssuer(t, DLogClassic, 1<<13).Params(start)
	foreign, _ := NewMailIssuer(MailOptions{Algorithm: SHA256K, Work: 4096}, nil, nil)
	for name, c := range map[string]struct {
		p    MailParams
		want error
	}{"easy": {easy, ErrTooEasy}, "another algorithm": {other, ErrForeign},
		"another server": {foreign.Params(start), ErrForeign}} {
		if _, err := d.Verify(bg, start, mailStampFor(t, c.p, l), l); err != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	hard := d.Params(start)
	hard.Work *= 2
	if r, err := d.Verify(bg, start, mailStampFor(t, hard, l), l); err != nil || r.Work != hard.Work {
		t.Errorf("more than asked: %+v, %v", r, err)
	}
	s := mailStampFor(t, d.Params(start), l)
	dot := strings.IndexByte(s, '.')
	wrong := s[:dot+1] + strings.Repeat("_", len(s)-dot-1)
	if _, err := d.Verify(bg, start, wrong, l); err != ErrWrong {
		t.Errorf("wrong: %v", err)
	}
	for i := range s[:dot] {
		b := []byte(s)
		for bit := range 8 {
			b[i] = s[i] ^ 1<<bit
			if _, err := d.Verify(bg, start, string(b), l); err == nil {
				t.Errorf("character %d, bit %d is turned, and it is accepted", i, bit)
			}
		}
	}
	if _, err := d.Verify(bg, start, s, l); err != nil {
		t.Errorf("then right: %v", err)
	}
	for _, o := range []MailOptions{{Algorithm: DLog, Work: 64}, {Algorithm: DLogClassic, Work: 1 << 41}} {
		if _, err := NewMailIssuer(o, nil, nil); err == nil ||
			!strings.HasPrefix(err.Error(), "algorithm: "+ErrAlgorithm.Error()) {
			t.Error(err)
		}
	}
	if _, err := NewMailIssuer(MailOptions{Algorithm: SHA256K, Work: 0}, nil, nil); err == nil {
		t.Error("no work")
	}
	if _, err := MailStamp(bg, MailParams{Algorithm: DLog, Work: 64}, l, SolveOptions{}); !errors.Is(err,
		ErrAlgorithm) {
		t.Error(err)
	}
	if _, err := MailStamp(bg, MailParams{}, l, SolveOptions{}); err != ErrMalformed {
		t.Error(err)
	}
}

func TestMailHeader(t *testing.T) {
	for _, alg := range []Algorithm{SHA256K, DLogClassic} {
		s := mailStampFor(t, newMailIssuer(t, alg, 256).Params(start), MailBinding{})
		folded := FoldMailHeader(s)
		for _, line := range strings.SplitAfter(folded, "\r\n") {
			if len(line) > 80 || line != "" && !strings.HasSuffix(line, "\r\n") {
				t.Errorf("%q", line)
			}
		}
		if got := UnfoldMailHeader(strings.TrimPrefix(folded, MailHeader+":")); got != s {
			t.Errorf("%q becomes %q", s, got)
		}
	}
}

func TestMailParams(t *testing.T) {
	good := `{"version":1,"algorithm":"sha256-k","work":1048576,"hour":492348,"seed":"mHWmV2sHmHrgI1rhhS6Hpg","later":[1]}`
	if p, err := ReadMailParams(strings.NewReader(good)); err != nil || p.Work != 1<<20 || p.Hour != 492348 {
		t.Error(p, err)
	}
	for name, text := range map[string]string{
		"nothing":           ``,
		"null":              `null `,
		"another version":   strings.Replace(good, `"version":1`, `"version":2`, 1),
		"no work":           strings.Replace(good, `1048576`, `0`, 1),
		"too much":          strings.Replace(good, `1048576`, `17592186044417`, 1),
		"a short seed":      strings.Replace(good, `mHWm`, ``, 1),
		"another algorithm": strings.Replace(good, `sha256-k`, `md5`, 1),
		"dlog":              strings.Replace(good, `sha256-k`, `dlog`, 1),
		"the hour":          strings.Replace(good, `492348`, `-1`, 1),
		"too long":          strings.Replace(good, `[1]`, `"`+strings.Repeat("x", MaxMailParams)+`"`, 1),
	} {
		if p, err := ReadMailParams(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

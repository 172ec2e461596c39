package payer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/throttle/stamp"
)

var start = time.Date(2026, 3, 2, 12, 30, 0, 0, time.UTC)

func newMailIssuer(tb testing.TB) *stamp.MailIssuer {
	tb.Helper()
	d, err := stamp.NewMailIssuer(stamp.MailOptions{Algorithm: stamp.SHA256K, Work: 64}, nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func readMail(tb testing.TB, text string) *Mail {
	tb.Helper()
	m, err := ReadMail(strings.NewReader(text))
	if err != nil {
		tb.Fatalf("%.100q: %v", text, err)
	}
	return m
}

func written(tb testing.TB, m *Mail) string {
	tb.Helper()
	var b bytes.Buffer
	if n, err := m.WriteTo(&b); err != nil || n != int64(b.Len()) {
		tb.Fatal(n, err)
	}
	return b.String()
}

// received reads a stamped mail as a server would: with a parser of somebody else's, from its header.
func received(tb testing.TB, text string) (stamps []string, body string) {
	tb.Helper()
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		tb.Fatalf("%q: %v", text, err)
	}
	b, err := io.ReadAll(m.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return m.Header[stamp.MailHeader], string(b)
}

// TestMail: each recipient has a stamp that the server honours, and the rest of the message is untouched.
func TestMail(t *testing.T) {
	for name, text := range map[string]string{
		"LF": "From: a@example.org\nTo: Bob <bob@example.net>,\n eve@example.net\nCc: \"John Q\"@example.net\nbcc " +
			": Dave@EXAMPLE.net, bob@example.net\n\nHello,\n\nyou.\n\n",
		"CRLF": "From: a@example.org\r\nTo: =?koi8-r?B?98HT0Q==?= <bob@example.net>, friends: " +
			"eve@example.net;\r\nCc:\r\nBCC:\r\n\t\"john q\"@example.net,\r\n dave@example.net\r\n\r\nHello,\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			d, m := newMailIssuer(t), readMail(t, text)
			var last stamp.Work
			p, err := m.Stamp(t.Context(), start, d.Params(start), nil,
				Options{Progress: func(done, expected stamp.Work) {
					if last = done; expected != 4*64 {
						t.Error(expected)
					}
				}})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(p.Recipients)
			want := []string{"bob@example.net", "dave@example.net", "eve@example.net", "john q@example.net"}
			if !slices.Equal(p.Recipients, want) || p.Work != 64 || p.Operations != last || p.Replaced != 0 {
				t.Errorf("%+v", p)
			}
			out := written(t, m)
			if !strings.HasSuffix(out, text) || !strings.HasPrefix(out, stamp.MailHeader+": ") {
				t.Errorf("%q", out)
			}
			if added := strings.TrimSuffix(out, text); strings.Contains(added, "\r") != (name == "CRLF") {
				t.Errorf("line ends: %q", added)
			}
			for line := range strings.SplitSeq(strings.TrimSuffix(out, text), "\n") {
				if len(line) > 79 {
					t.Errorf("a line of %d", len(line))
				}
			}
			// On its way the body gets other line ends.
			stamps, body := received(t, out)
			body = strings.ReplaceAll(strings.ReplaceAll(body, "\r\n", "\n"), "\n", "\r\n") + "\r\n"
			binding := stamp.MailBinding{Message: stamp.BodyID([]byte(body))}
			if errs := d.VerifyEach(t.Context(), start, stamps, binding, want); errors.Join(errs...) != nil ||
				len(stamps) != 4 {
				t.Errorf("%d stamps: %v", len(stamps), errs)
			}
			binding.Message = stamp.BodyID([]byte(strings.Replace(body, "Hello,", "Hello, ", 1)))
			if errs := d.VerifyEach(t.Context(), start, stamps, binding, want[:1]); errs[0] != stamp.ErrForeign {
				t.Errorf("another message: %v", errs)
			}

			// Once more: the old stamps go, the rest stays.
			m = readMail(t, out)
			if p, err = m.Stamp(t.Context(), start, d.Params(start), []string{"Bob@Example.NET"},
				Options{}); err != nil || p.Replaced != 4 {
				t.Fatalf("%+v, %v", p, err)
			}
			again := written(t, m)
			if stamps, _ := received(t, again); !strings.HasSuffix(again, text) || len(stamps) != 1 {
				t.Errorf("%q", again)
			}
		})
	}
}

// TestMailShapes: what else a message may look like.
func TestMailShapes(t *testing.T) {
	d := newMailIssuer(t)
	for name, c := range map[string]struct{ text, before string }{
		"header only":        {"To: a@example.org\n", ""},
		"without a line end": {"To: a@example.org", ""},
		"an empty body":      {"To: a@example.org\r\n\r\n", ""},
		"from a mailbox": {"From x Mon Mar  2 12:00:00 2026\nTo: a@example.org\n\nFrom here\n",
			"From x Mon Mar  2 12:00:00 2026\n"},
		"a body of bytes":      {"To: a@example.org\n\n\x00\xff\r\x01\n.\n", ""},
		"mixed line ends":      {"To: a@example.org\r\nX: y\n\r\nz\n", ""},
		"nobody is disclosed":  {"To: undisclosed-recipients:;\nBcc: a@example.org\n\n", ""},
		"a header in UTF-8":    {"To: Björn <a@example.org>\nSubject: ö\n\n", ""},
		"odd fields":           {"X-Odd!#$: \x80\nTo: a@example.org (that's me)\n\n", ""},
		"resent":               {"To: list@example.com\nResent-To: a@example.org\nCc: b@example.com\n\n", ""},
		"a literal, as it may": {"To: a@[192.0.2.1]\n\n", ""},
	} {
		m := readMail(t, c.text)
		p, err := m.Stamp(t.Context(), start, d.Params(start), nil, Options{})
		if err != nil || len(p.Recipients) != 1 || !strings.HasPrefix(p.Recipients[0], "a@") {
			t.Errorf("%s: %+v, %v", name, p, err)
			continue
		}
		out := written(t, m)
		if !strings.HasPrefix(out, c.before+stamp.MailHeader) ||
			!strings.HasSuffix(out, strings.TrimPrefix(c.text, c.before)) {
			t.Errorf("%s: %q", name, out)
		}
	}
}

func TestStripBcc(t *testing.T) {
	m := readMail(t,
		"To: a@example.org\nBcc: b@example.org,\n c@example.org\nResent-bcc: d@example.org\nBccs: e\n\nBcc: f\n")
	m.StripBcc()
	if got := written(t, m); got != "To: a@example.org\nBccs: e\n\nBcc: f\n" {
		t.Errorf("%q", got)
	}
}

// TestMailMistakes: what is wrong is told, and nothing is changed.
func TestMailMistakes(t *testing.T) {
	line := func(n int) func(error) bool {
		return func(err error) bool {
			e, ok := errors.AsType[*MailError](err)
			return ok && e.Line == n && strings.Contains(e.Error(), fmt.Sprintf("line %d ", n))
		}
	}
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "To: r%d@example.org\n", i)
		}
		return b.String() + "\n"
	}
	for name, c := range map[string]struct {
		text string
		want func(error) bool
	}{
		"nothing":              {"", is(ErrNoMail)},
		"no header":            {"\nTo: a@example.org\n", line(1)},
		"only an envelope":     {"From x\n\n", line(1)},
		"no field":             {"To: a@example.org\nhello there\n\n", line(2)},
		"no name":              {": a@example.org\n\n", line(1)},
		"a name with a space":  {"To: a@example.org\nTo you: b@example.org\n", line(2)},
		"begins with a space":  {" To: a@example.org\n", line(1)},
		"a zero":               {"To: a@example.org\nSubject: \x00\n", line(2)},
		"a bare CR":            {"To: a@example.org\nSubject: x\rBcc: b@example.org\n", line(2)},
		"nobody":               {"From: a@example.org\n\n", is(ErrNoRecipient)},
		"nobody at all":        {"To: undisclosed-recipients:;\nCc: \n\n", is(ErrNoRecipient)},
		"only in the body":     {"From: a@example.org\n\nTo: b@example.org\n", is(ErrNoRecipient)},
		"no address":           {"From: a@example.org\nTo: b@example.org, bob\n\n", line(2)},
		"an address that long": {"To: " + strings.Repeat("a", 400) + "@example.org\n\n", line(1)},
		"too many":             {many(MaxRecipients + 1), is(ErrRecipients)},
		"a header that large": {"To: a@example.org\nX: " + strings.Repeat("x", MaxMailHeader) + "\n\n",
			is(ErrHeaderSize)},
	} {
		m, err := ReadMail(strings.NewReader(c.text))
		if err == nil {
			before := written(t, m)
			if _, err = m.Stamp(t.Context(), start, newMailIssuer(t).Params(start), nil, Options{}); before != c.text ||
				written(t, m) != before {
				t.Errorf("%s: %q", name, written(t, m))
			}
		}
		if !c.want(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := readMail(t, many(MaxRecipients)).Recipients(); err != nil || len(list) != MaxRecipients {
		t.Errorf("at the bound: %v", err)
	}
	if _, err := ReadMail(io.MultiReader(strings.NewReader("To: a@example.org\n\n"), endless{})); err != ErrMailSize {
		t.Error(err)
	}
	if _, err := ReadMail(iotestErr{}); err != io.ErrClosedPipe {
		t.Error(err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// TestMailParams: parameters of another day, work that is too much, addresses that are none, and a change of mind.
func TestMailParams(t *testing.T) {
	d := newMailIssuer(t)
	const text = "To: a@example.org\nX-Weir-Stamp: old\n\nhello\n"
	m := readMail(t, text)
	try := func(now time.Time, p stamp.MailParams, to ...string) error {
		t.Helper()
		_, err := m.Stamp(t.Context(), now, p, to, Options{MaxTime: time.Minute})
		return err
	}
	if err := try(start.Add(2*time.Hour), d.Params(start)); !errors.Is(err, ErrStale) ||
		!strings.Contains(err.Error(), "2026-03-02 12:00 UTC") {
		t.Error(err)
	}
	hard := d.Params(start)
	hard.Work = 1 << 39 // 55 s for ten thousand phones
	if dear, ok := errors.AsType[*TooDearError](try(start, hard, "a@example.org", "b@example.org")); !ok ||
		dear.Stamps != 2 || !strings.Contains(dear.Error(), "2 stamps of 39 bits") {
		t.Error(dear)
	}
	for _, to := range []string{"", "bob", "a@example.org, b@example.org", "@example.org",
		strings.Repeat("a", 400) + "@example.org"} {
		if err := try(start, d.Params(start), to); !errors.Is(err, ErrAddress) || len(err.Error()) > 400 {
			t.Errorf("%.20q: %v", to, err)
		}
	}
	if err := try(start, stamp.MailParams{}); err == nil {
		t.Error("no parameters")
	}
	hard.Work = 1 << 36
	ctx, cancel := context.WithCancel(t.Context())
	_, err := m.Stamp(ctx, start, hard, nil,
		Options{MaxTime: time.Hour, Progress: func(stamp.Work, stamp.Work) { cancel() }})
	if err != context.Canceled {
		t.Error(err)
	}
	if written(t, m) != text {
		t.Errorf("%q", written(t, m))
	}
	for now, late := range map[time.Duration]bool{-time.Hour: false, time.Hour: false} {
		if err := try(start.Add(now), d.Params(start)); (err != nil) != late {
			t.Errorf("%s: %v", now, err)
		}
	}
}

func TestRecipient(t *testing.T) {
	for text, want := range map[string]string{
		"bob@example.org":             "bob@example.org",
		"<Bob@Example.ORG>":           "bob@example.org",
		"Bob <bob@example.org>":       "bob@example.org",
		` "john q"@example.org `:      "john q@example.org",
		`"bob"@example.org`:           "bob@example.org",
		"bob+tag@example.org":         "bob+tag@example.org",
		"björn@bücher.example":        "björn@bücher.example",
		"bob@xn--bcher-kva.example":   "bob@xn--bcher-kva.example",
		"=?utf-8?q?B?= <b@x.example>": "b@x.example",
	} {
		if got, err := Recipient(text); got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// TestBodyID: what sendmail and SMTP change on the way does not matter, everything else does.
func TestBodyID(t *testing.T) {
	same := func(a, b string, want bool) {
		t.Helper()
		if (stamp.BodyID([]byte(a)) == stamp.BodyID([]byte(b))) != want {
			t.Errorf("%q and %q", a, b)
		}
	}
	same("a\nb\n", "a\r\nb\r\n", true)
	same("a\nb", "a\r\nb\r\n\r\n\r\n", true)
	same("", "\r\n\n", true)
	same("a\n\nb\n", "a\nb\n", false)
	same("a\n", "a \n", false)
	same("a\n", " a\n", false)
	same("a\n", "\na\n", false)
	same("ab\n", "a\nb\n", false)
	same("a\rb\n", "a\nb\n", false)
	same(" ", "", false)
	// As DKIM has it: the digest of an empty body (RFC 6376 section 3.4.3).
	if got := stamp.BodyID(nil); got != "sha256:7eb70257593da06f682a3ddda54a9d260d4fc514f645237f5ca74b08f8da61a6" {
		t.Error(got)
	}
}

// FuzzMail: whatever comes, it is either told what is wrong or written back as it was.
func FuzzMail(f *testing.F) {
	for _, seed := range []string{"To: a@example.org\n\nhello\n", "From x\r\nTo: a@b,\r\n c@d\r\nBcc: x:;\r\n\r\n\r\n",
		"X-Weir-Stamp: a\n b\nTo: \"a b\"@c\n", " x\n", "a:\r", "Resent-Cc: =?x?q?y?= <a@b>"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ReadMail(bytes.NewReader(text))
		if err != nil {
			return
		}
		if out := written(t, m); out != string(text) {
			t.Fatalf("%q becomes %q", text, out)
		}
		list, err := m.Recipients()
		if (err == nil) != (len(list) > 0) || len(list) > MaxRecipients {
			t.Fatalf("%v, %v", list, err)
		}
		plain := readMail(t, string(text))
		plain.remove(strings.ToLower(stamp.MailHeader))
		want := written(t, plain)
		m.stamps = []string{"abc.def", strings.Repeat("x", 150)}
		m.remove(strings.ToLower(stamp.MailHeader))
		again, err := ReadMail(strings.NewReader(written(t, m)))
		if err != nil {
			t.Fatalf("stamped: %v", err)
		}
		if n := again.remove(strings.ToLower(stamp.MailHeader)); n != 2 || written(t, again) != want ||
			!bytes.Equal(again.body, m.body) {
			t.Fatalf("%q with %d stamps becomes %q", want, n, written(t, again))
		}
	})
}

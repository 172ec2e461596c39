package postfixgate

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// asPostfix is a request as Postfix 3.7 sends it.
const asPostfix = `request=smtpd_access_policy
protocol_state=DATA
protocol_name=ESMTP
client_address=127.0.0.1
client_name=unknown
client_port=41400
reverse_client_name=unknown
server_address=127.0.0.1
server_port=45731
helo_name=me
sender=ann=home@example.org
recipient=bob@example.net
recipient_count=1
queue_id=BB3429EEA1C
instance=40fa.6af99224.bb102.1
size=1234
etrn_domain=
stress=
sasl_method=plain
sasl_username=Ann
sasl_sender=
ccert_subject=
ccert_issuer=
ccert_fingerprint=
ccert_pubkey_fingerprint=
encryption_protocol=
encryption_cipher=
encryption_keysize=0
policy_context=

`

func TestRequest(t *testing.T) {
	r := newReader(strings.NewReader(asPostfix + asPostfix))
	for range 2 {
		var q request
		if err := r.next(&q); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ got, want string }{
			{string(q.state), "DATA"}, {string(q.instance), "40fa.6af99224.bb102.1"}, {string(q.queue), "BB3429EEA1C"},
			{string(q.user), "Ann"},
			{string(q.sender), "ann=home@example.org"}, {string(q.recipient), "bob@example.net"},
			{string(q.client), "127.0.0.1"},
		} {
			if c.got != c.want {
				t.Errorf("read %q, want %q", c.got, c.want)
			}
		}
		if q.count != 1 || q.size != 1234 {
			t.Errorf("read %d recipients, %d bytes", q.count, q.size)
		}
	}
	var q request
	if err := r.next(&q); err != io.EOF {
		t.Errorf("after the last: %v", err)
	}
}

func TestRequestAllocatesNothing(t *testing.T) {
	text := []byte(asPostfix)
	source := bytes.NewReader(text)
	r, q := newReader(source), new(request)
	if n := testing.AllocsPerRun(100, func() {
		source.Reset(text)
		if err := r.next(q); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestMalformed: each bound at its edge, and one beyond.
func TestMalformed(t *testing.T) {
	const head = "request=smtpd_access_policy\n"
	lines := func(n int) string { return strings.Repeat("x=\n", n) }
	fill := func(n int) string { // a request of n bytes, without the empty line
		var b strings.Builder
		b.WriteString(head)
		for left := n - len(head); left > 0; {
			line := min(left, maxLine/2)
			if left-line > 0 && left-line < 3 {
				line -= 3
			}
			b.WriteString("x=" + strings.Repeat("y", line-3) + "\n")
			left -= line
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"least":              {head + "\n", nil},
		"unknown attributes": {head + "new_in_4=x\n\n", nil},
		"value with =":       {head + "sender=a=b=c\n\n", nil},
		"longest line":       {head + "x=" + strings.Repeat("y", maxLine-2) + "\n\n", nil},
		"longer line":        {head + "x=" + strings.Repeat("y", maxLine-1) + "\n\n", errLine},
		"most lines":         {head + lines(maxAttributes-1) + "\n", nil},
		"more lines":         {head + lines(maxAttributes) + "\n", errAttributes},
		"most bytes":         {fill(maxRequest-1) + "\n", nil},
		"more bytes":         {fill(maxRequest) + "\n", errRequest},
		"no end":             {fill(2 * maxRequest), errRequest},
		"no pair":            {head + "sender\n\n", errNoPair},
		"no name":            {head + "=x\n\n", errNoPair},
		"nothing":            {"\n", errNoPair},
		"nothing at all":     {"\n\n", errNoPair},
		"twice":              {head + "sender=a\nsender=b\n\n", errTwice},
		"not a request":      {"sender=a\n\n", errKind},
		"another request":    {"request=junk\n\n", errKind},
		"not a number":       {head + "recipient_count=many\n\n", errNumber},
		"a huge number":      {head + "size=9999999999999999999\n\n", errNumber},
		"HTTP":               {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", errCut},
		"cut":                {head, errCut},
		"cut before it":      {"requ", errCut},
		"nobody":             {"", io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			for _, from := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text)),
				iotest.DataErrReader(strings.NewReader(c.text))} {
				var q request
				if err := newReader(from).next(&q); !errors.Is(err, c.want) || c.want == nil && err != nil {
					t.Errorf("%v, want %v", err, c.want)
				}
			}
		})
	}
}

// FuzzRequests: whatever comes, nothing breaks; the pieces that it comes in do not matter; and what is understood says
// what was sent.
func FuzzRequests(f *testing.F) {
	f.Add([]byte(asPostfix), 7)
	f.Add([]byte(asPostfix+asPostfix[:100]), 1)
	f.Add([]byte("request=smtpd_access_policy\n\n\n\n"), 3)
	f.Add([]byte("request=smtpd_access_policy\nsize=1\nsize=2\n\n"), 5000)
	f.Add([]byte("\n"), 2)
	f.Add(bytes.Repeat([]byte("a=b\n"), 300), 1000)
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		whole, pieces := newReader(bytes.NewReader(text)), newReader(&inPieces{text, max(piece, 1)})
		for range len(text) + 2 {
			var a, b request
			errA, errB := whole.next(&a), pieces.next(&b)
			if errA != errB && (errA == nil || errB == nil || errA.Error() != errB.Error()) {
				// Whoever sees an error first may name another one, but it is one.
				if errA == nil || errB == nil {
					t.Fatalf("at once: %v; in pieces: %v", errA, errB)
				}
			}
			if errA != nil {
				return
			}
			for _, c := range [][2][]byte{{a.state, b.state}, {a.instance, b.instance}, {a.sender, b.sender},
				{a.recipient, b.recipient}, {a.user, b.user}} {
				if !bytes.Equal(c[0], c[1]) {
					t.Fatalf("at once %q, in pieces %q", c[0], c[1])
				}
				if bytes.ContainsRune(c[0], '\n') {
					t.Fatalf("a line break in %q", c[0])
				}
			}
			if len(a.user) > 0 && !bytes.Contains(text, append([]byte("sasl_username="), a.user...)) {
				t.Fatalf("nobody sent the user %q", a.user)
			}
		}
		t.Fatal("more requests than bytes")
	})
}

// inPieces is a reader that gives so many bytes at a time.
type inPieces struct {
	text []byte
	size int
}

func (r *inPieces) Read(p []byte) (int, error) {
	if len(r.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.text[:min(r.size, len(r.text))])
	r.text = r.text[n:]
	return n, nil
}

func BenchmarkRequest(b *testing.B) {
	text := []byte(asPostfix)
	source := bytes.NewReader(text)
	r, q := newReader(source), new(request)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		source.Reset(text)
		if err := r.next(q); err != nil {
			b.Fatal(err)
		}
	}
}

package smtpgate

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/store"
)

// read puts a text through an intake, in pieces of a size.
func read(text string, size int, b Bounds) (out string, body string, n *no) {
	var all, rest bytes.Buffer
	in := intake{bounds: &b, out: &all, body: &rest,
		begin: func(header []byte) ([]byte, *no) { return append([]byte("<"), readHeader(header).text...), nil }}
	for len(text) > 0 {
		in.write([]byte(text[:min(size, len(text))]))
		text = text[min(size, len(text)):]
	}
	in.close()
	return all.String(), rest.String(), in.no
}

var roomy = good().WithDefaults().Bounds

// TestIntake: where the header ends, in one piece and byte by byte.
func TestIntake(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, out, body string }{
		"nothing":           {"", "<\r\n", ""},
		"only a header":     {"A: b\r\n", "<A: b\r\n\r\n", ""},
		"without an end":    {"A: b", "<A: b\r\n\r\n", ""},
		"header and body":   {"A: b\r\n c\r\nD: e\r\n\r\nbody\r\n", "<A: b\r\n c\r\nD: e\r\n\r\nbody\r\n", "body\r\n"},
		"body without end":  {"A: b\r\n\r\nbody", "<A: b\r\n\r\nbody\r\n", "body\r\n"},
		"only a body":       {"\r\nbody\r\n", "<\r\nbody\r\n", "body\r\n"},
		"no line between":   {"A: b\r\nbody\r\nC: d\r\n", "<A: b\r\n\r\nbody\r\nC: d\r\n", "body\r\nC: d\r\n"},
		"no header":         {"hello, world\r\nC: d\r\n", "<\r\nhello, world\r\nC: d\r\n", "hello, world\r\nC: d\r\n"},
		"goes on with none": {" a\r\nC: d\r\n", "<\r\n a\r\nC: d\r\n", " a\r\nC: d\r\n"},
		"of a mailbox":      {"From ann Mon\r\nA: b\r\n\r\nx\r\n", "<A: b\r\n\r\nx\r\n", "x\r\n"},
		"of a mailbox later": {"A: b\r\nFrom ann Mon\r\n\r\nx\r\n", "<A: b\r\n\r\nFrom ann Mon\r\n\r\nx\r\n",
			"From ann Mon\r\n\r\nx\r\n"},
		"a return path": {"Return-Path: <x>\r\n y\r\nA: b\r\nRETURN-PATH : z\r\n\r\nReturn-Path: x\r\n",
			"<A: b\r\n\r\nReturn-Path: x\r\n", "Return-Path: x\r\n"},
	} {
		for _, size := range []int{1, 2, 3, 1000} {
			out, body, n := read(c.text, size, roomy)
			if n != nil || out != c.out || body != c.body {
				t.Errorf("%s by %d: %q, %q, %+v", name, size, out, body, n)
			}
		}
	}
	for _, text := range []string{"A: b\n", "A: b\r", "A: b\rc\r\n", "A: b\r\n\r\nx\n", "A: b\r\n\r\nx\r", "\n", "\r",
		"\r\r\n", "A: b\r\n\n", "a\x00b\r\n", "A: b\r\n\r\n\x00"} {
		for _, size := range []int{1, 2, 3, 1000} {
			if _, _, n := read(text, size, roomy); n == nil || n.how != MailMalformed || n.reply.code != 554 {
				t.Errorf("%q by %d: %+v", text, size, n)
			}
		}
	}
}

// TestIntakeWrites: a store that takes no more is not asked again.
func TestIntakeWrites(t *testing.T) {
	t.Parallel()
	full := errors.New("full")
	in := intake{bounds: &roomy, out: failing{full}, begin: func(h []byte) ([]byte, *no) { return h, nil }}
	in.write([]byte("A: b\r\n\r\nbody\r\n"))
	in.write([]byte("more\r\n"))
	if in.close(); in.no == nil || in.no.cause != full || in.size != 20 {
		t.Errorf("%+v", in.no)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

var _ io.Writer = failing{}

func TestSubject(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"Subject: hello\r\n":                                 "hello",
		"subject :hello\r\n\tworld\r\n":                      "hello\tworld",
		"Subject: =?iso-8859-1?q?Gr=FC=DFe?= =?utf-8?q?_!?=": "Grüße !",
		"Subject: =?foo?q?x?=":                               "=?foo?q?x?=",
		"Subject: a\x01\x7fb":                                "a  b",
		"Subject: a\xffb":                                    "a?b",
		"Subject:":                                           "",
		"Subject: " + strings.Repeat("ü", 200):               strings.Repeat("ü", store.MaxSubject/2),
		"Subject: a" + strings.Repeat("ü", 200):              "a" + strings.Repeat("ü", store.MaxSubject/2-1),
	} {
		want = strings.ReplaceAll(want, "\t", " ")
		if got := subjectOf([]byte(field)); got != want {
			t.Errorf("%q is %q, want %q", field, got, want)
		}
	}
}

func TestReceived(t *testing.T) {
	t.Parallel()
	tr := trace{helo: "a\r\nEvil: x (y)", source: netip.MustParseAddr("2001:db8::1"), host: "mail.example.org", id: 1,
		tls: true, utf8: true, at: epoch}
	want := "Received: from aEvil:xy ([IPv6:2001:db8::1])\r\n\tby mail.example.org with UTF8SMTPS id " +
		"0000000000001;\r\n\tMon, 02 Mar 2026 12:00:00 +0000\r\n"
	if got := string(tr.appendTo(nil)); got != want {
		t.Errorf("%q", got)
	}
	if plainHelo("") != "unknown" || plainHelo("\r\n") != "unknown" ||
		len(plainHelo(strings.Repeat("a", 1000))) != maxHostname || plainHelo("[127.0.0.1]") != "[127.0.0.1]" {
		t.Error("what a client calls itself")
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ann@example.org":             "ann@example.org",
		"Ann.O'Neil+x@Example.ORG":    "Ann.O'Neil+x@Example.ORG",
		"a b@example.org":             `"a b"@example.org`,
		`a"b\c@example.org`:           `"a\"b\\c"@example.org`,
		".a@example.org":              `".a"@example.org`,
		"a..b@example.org":            `"a..b"@example.org`,
		"a> NOTIFY=NEVER@example.org": `"a> NOTIFY=NEVER"@example.org`,
		"a@[192.0.2.1]":               "a@[192.0.2.1]",
		"a@[IPv6:2001:db8::1]":        "a@[IPv6:2001:db8::1]",
		"ü@ü.example":                 "ü@ü.example",
		"":                            "",
		"@":                           "",
		"a":                           "",
		"a@":                          "",
		"@b":                          "",
		"a@b@c":                       "",
		"a\r@b.example":               "",
		"a@b.example\n":               "",
		"a@b\x7f.example":             "",
		"a@b..example":                "",
		"a@b.example.":                "",
		"a@b>c":                       "",
		"a@b,c":                       "",
		"a@[b c]":                     "",
		"a@[]":                        "",
		"a\u2028@b.example":           "",
		"a\u0085@b.example":           "",
		"\xff@b.example":              "",
		strings.Repeat("a", 320) + "@example.org": "",
	} {
		a, err := parseAddress(text, true)
		if (err == nil) != (want != "") || a.String() != want {
			t.Errorf("%q is %q, %v", text, a, err)
		}
	}
	if _, err := parseAddress("ü@example.org", false); !errors.Is(err, errUTF8) {
		t.Error(err)
	}
}

// FuzzIntake: however a text is cut, the same comes of it; what is passed on has no bare CR or LF, and every line has a
// bound.
func FuzzIntake(f *testing.F) {
	for _, seed := range []string{"A: b\r\n\r\nbody\r\n", "A: b\r\nbody", "From x\r\n\r\n",
		"Return-Path: x\r\n\tSubject: y\r\n", "\r\n.\r\n", "a\rb\nc\x00", strings.Repeat("a", 1200),
		strings.Repeat("A: b\r\n", 300)} {
		f.Add([]byte(seed), 3)
	}
	small := roomy
	small.Line, small.Header, small.Message = 1000, 1024, 4096
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		out, body, n := read(string(text), max(len(text), 1), small)
		out2, body2, n2 := read(string(text), max(size, 1), small)
		if (n == nil) != (n2 == nil) {
			t.Fatalf("%+v and %+v", n, n2)
		}
		if n != nil {
			if n.reply.code < 500 || n.reply.text == "" {
				t.Errorf("%+v", n)
			}
			return
		}
		if out != out2 || body != body2 {
			t.Fatalf("%q, %q\n%q, %q", out, body, out2, body2)
		}
		if clean := strings.ReplaceAll(out, "\r\n", ""); strings.ContainsAny(clean, "\r\n\x00") ||
			!strings.HasSuffix(out, "\r\n") || !strings.HasSuffix(out, body) {
			t.Errorf("%q", out)
		}
		for line := range strings.SplitSeq(out, "\r\n") {
			if len(line) > int(small.Line) {
				t.Errorf("a line of %d", len(line))
			}
		}
		if h := readHeader(text); !utf8.ValidString(h.subject) || len(h.subject) > store.MaxSubject {
			t.Errorf("%q", h.subject)
		}
	})
}

// FuzzAddress: what is written of an address is one word of a command.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"a@b", `a"b@c.example`, "a b@c", "a@[::1]", "ü@ü", "a> X=@b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAddress(text, true)
		if err != nil {
			return
		}
		out := a.String()
		if strings.ContainsAny(out, "\r\n\x00") || !strings.HasSuffix(out, "@"+a.domain) ||
			strings.ContainsAny(a.domain, "@<> \"") {
			t.Errorf("%q is %q", text, out)
		}
		if quoted := out[:len(out)-len(a.domain)-1]; quoted[0] != '"' &&
			strings.ContainsAny(quoted, "<>@ \"\\,;:()[]") {
			t.Errorf("%q is %q", text, out)
		}
		if a.normal() == "" {
			t.Errorf("%q has no normal form", text)
		}
	})
}

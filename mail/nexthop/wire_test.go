package nexthop

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReadReply(t *testing.T) {
	for said, wanted := range map[string]string{
		"250 ok\r\n":       "250 2.0.0 ok",
		"250 ok\n":         "250 2.0.0 ok",
		"250\r\n":          "250 2.0.0 ",
		"250-\r\n250 \r\n": "250 2.0.0 ",
		"550-5.1.1 a\r\n550-5.1.1\r\n550 5.1.1 b\r\n": "550 5.1.1 a b",
		"550 5.123.456 a\r\n":                         "550 5.123.456 a",
		"550 5.1234.5 a\r\n":                          "550 5.0.0 5.1234.5 a",
		"550 5..1 a\r\n":                              "550 5.0.0 5..1 a",
		"550 5.1. a\r\n":                              "550 5.0.0 5.1. a",
		"550 4.1.1 a\r\n":                             "550 5.0.0 4.1.1 a",
		"450 x\r\n":                                   "450 4.0.0 x",
		"250-a\r\n251 b\r\n":                          "does not follow the protocol",
		"25 ok\r\n":                                   "does not follow the protocol",
		"2500 ok\r\n":                                 "does not follow the protocol",
		"250_ok\r\n":                                  "does not follow the protocol",
		"199 ok\r\n":                                  "does not follow the protocol",
		"600 ok\r\n":                                  "does not follow the protocol",
		"\r\n":                                        "does not follow the protocol",
		"250 ok":                                      "unexpected EOF",
		"250-ok\r\n":                                  "EOF",
		"250 " + strings.Repeat("x", maxReplyLine-6) + "\r\n":    "250 2.0.0 " + strings.Repeat("x", maxReplyText),
		"250 " + strings.Repeat("x", maxReplyLine-5) + "\r\n":    "more than 4096 bytes",
		strings.Repeat("250-\r\n", maxReplyLines-1) + "250 \r\n": "250 2.0.0 ",
		strings.Repeat("250-\r\n", maxReplyLines) + "250 \r\n":   "more than 128 lines",
	} {
		r, err := readReply(bufio.NewReaderSize(strings.NewReader(said), maxReplyLine), nil, nil)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			res := r.result("")
			got = string([]byte{byte('0' + r.code/100), byte('0' + r.code/10%10), byte('0' + r.code%10)}) + " " +
				res.Status + " " + res.Text
		}
		if err == nil && got != wanted || err != nil && !strings.Contains(got, wanted) {
			t.Errorf("%.60q: %.60q, want %.60q", said, got, wanted)
		}
	}
}

// FuzzReply: whatever a server says, it is read within bounds and makes a result that can be shown.
func FuzzReply(f *testing.F) {
	f.Add([]byte("250-PIPELINING\r\n250-SIZE 100\r\n250-AUTH=LOGIN PLAIN\r\n250 LIMITS RCPTMAX=9\r\n"))
	f.Add([]byte("550 5.1.1 \xff\x00 x\r\n"))
	f.Add([]byte("250"))
	f.Add(bytes.Repeat([]byte("250-\n"), 200))
	f.Fuzz(func(t *testing.T, said []byte) {
		var e extensions
		source := bytes.NewReader(said)
		r, err := readReply(bufio.NewReaderSize(source, maxReplyLine), nil, e.add)
		if read := len(said) - source.Len(); read > maxReplyLines*maxReplyLine {
			t.Fatalf("read %d bytes", read)
		}
		if err != nil {
			return
		}
		res := r.result("x")
		if res.Code < 200 || res.Code > 599 || len(res.Text) > maxReplyText ||
			strings.ContainsAny(res.Text, "\r\n\x00") ||
			len(res.Status) < 5 || len(res.Status) > maxStatus || e.size < 0 || e.recipients < 0 {
			t.Fatalf("%+v, %+v", res, e)
		}
		if (res.Outcome == Done) != (res.Code < 300) || (res.Outcome == Failed) != (res.Code >= 500) {
			t.Fatalf("%d is %s", res.Code, res.Outcome)
		}
	})
}

func stuff(text string, at int) (string, error) {
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	s := stuffer{w: w}
	for _, part := range []string{text[:at], text[at:]} {
		if n, err := s.Write([]byte(part)); err != nil {
			return "", err
		} else if n != len(part) {
			return "", io.ErrShortWrite
		}
	}
	if err := s.end(); err != nil {
		return "", err
	}
	w.Flush()
	return out.String(), nil
}

func TestStuffer(t *testing.T) {
	for text, wanted := range map[string]string{
		"":                    "",
		"a":                   "a\r\n",
		"a\r\n":               "a\r\n",
		".":                   "..\r\n",
		".\r\n":               "..\r\n",
		"a\r\n.\r\nb":         "a\r\n..\r\nb\r\n",
		"..\r\n\r\n.a.b\r\n.": "...\r\n\r\n..a.b\r\n..\r\n",
		"\r\n\r\n":            "\r\n\r\n",
		"\n":                  "!",
		"a\nb\r\n":            "!",
		"a\rb\r\n":            "!",
		"\r":                  "!",
		"a\r\r\n":             "!",
		"a\r\n\n":             "!",
	} {
		for at := range len(text) + 1 {
			got, err := stuff(text, at)
			if errors.Is(err, errBareLine) {
				got = "!"
			}
			if got != wanted {
				t.Errorf("%q cut at %d: %q (%v), want %q", text, at, got, err, wanted)
			}
		}
	}
}

// FuzzStuffer: what the server makes of it is the text, whole, and never ends before it does.
func FuzzStuffer(f *testing.F) {
	f.Add("a\r\n.\r\nMAIL FROM:<>\r\n", 3)
	f.Add("a\n.\n", 1)
	f.Add(".\r", 1)
	f.Fuzz(func(t *testing.T, text string, at int) {
		if at < 0 || at > len(text) {
			at = 0
		}
		got, err := stuff(text, at)
		lone := strings.ReplaceAll(text, "\r\n", "")
		if bare := strings.ContainsAny(lone, "\r\n"); bare != errors.Is(err, errBareLine) {
			t.Fatalf("%q: %v", text, err)
		}
		if err != nil {
			return
		}
		if strings.HasPrefix(got, ".\r\n") || strings.Contains(got, "\r\n.\r\n") || got != "" &&
			!strings.HasSuffix(got, "\r\n") {
			t.Fatalf("%q becomes %q", text, got)
		}
		var back strings.Builder
		for line := range strings.SplitAfterSeq(got, "\r\n") {
			back.WriteString(strings.TrimPrefix(line, "."))
		}
		whole := text
		if text != "" && !strings.HasSuffix(text, "\r\n") {
			whole += "\r\n"
		}
		if back.String() != whole {
			t.Fatalf("%q comes back as %q", whole, back.String())
		}
	})
}

// FuzzEnvelope: an envelope is as many lines as it should be, whatever stands in it.
func FuzzEnvelope(f *testing.F) {
	f.Add("ann@example.org", "bob@example.net", "env", "SUCCESS", "rfc822;bob@example.net")
	f.Add("", "b\r\nDATA\r\n@x", "e\r\n", "NEVER\r\nRSET", "utf-8;b\x00\xff\r\n")
	f.Add(`"a b"@x`, `a"b\c@x`, "+=", "FAILURE,DELAY", "x\r\ny;z")
	f.Fuzz(func(t *testing.T, sender, recipient, envelope, notify, original string) {
		if sender != "" && !isAddress(sender) || !isAddress(recipient) {
			return
		}
		for _, e := range []extensions{{}, {dsn: true, utf8: true, sized: true, eightBit: true}, {dsn: true}} {
			var out bytes.Buffer
			tr := &transaction{conn: &conn{out: bufio.NewWriter(&out), ext: e}, part: []int{0}, utf8: true, job: &Job{
				Sender: sender, Size: 1, EightBit: true, Return: "FULL", Envelope: envelope,
				Recipients: []Recipient{{recipient, notify, original}}}}
			tr.command(cmdMail, 3)
			tr.command(cmdRcpt, 3)
			tr.out.Flush()
			lines := strings.Split(out.String(), "\r\n")
			if len(lines) != 3 || strings.ContainsAny(strings.Join(lines, ""), "\r\n\x00") {
				t.Fatalf("%q", out.String())
			}
			for i, address := range []string{sender, recipient} {
				if !strings.HasPrefix(lines[i], [...]string{"MAIL FROM:<", "RCPT TO:<"}[i]+path(address)+">") {
					t.Fatalf("%q", lines[i])
				}
				if end := outside(path(address)); end != "" {
					t.Fatalf("%q leaves %q outside of the quotes", path(address), end)
				}
			}
		}
	})
}

// outside returns what ends an address early: an angle bracket or a space that is not quoted.
func outside(path string) string {
	quoted := false
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '<' || c == '>' || c == ' '):
			return path[i:]
		}
	}
	if quoted {
		return path
	}
	return ""
}

func TestPath(t *testing.T) {
	for address, wanted := range map[string]string{
		"":               "",
		"postmaster":     "postmaster",
		"a.b+c@x":        "a.b+c@x",
		"a b@x":          `"a b"@x`,
		`"a b"@x`:        `"a b"@x`,
		`a"b\@x`:         `"a\"b\\"@x`,
		`"a@x`:           `"\"a"@x`,
		`"a" b"@x`:       `"\"a\" b\""@x`,
		"a@b@x":          `"a@b"@x`,
		"böb@x":          "böb@x",
		"a>b@x":          `"a>b"@x`,
		"bob@[::1]":      "bob@[::1]",
		"bob@[10.0.0.1]": "bob@[10.0.0.1]",
	} {
		if got := path(address); got != wanted {
			t.Errorf("%q: %s, want %s", address, got, wanted)
		}
		if address != "" && !isAddress(address) {
			t.Errorf("%q is refused", address)
		}
	}
}

func TestEightBit(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for text, wanted := range map[string][2]bool{
		"":                              {false, false},
		"A: b\r\n\r\nc\r\n":             {false, false},
		"A: \xe4\r\n\r\nc\r\n":          {true, false},
		"A: b\r\n\r\n\xe4":              {false, true},
		"A: " + long + "\r\n\r\nä\r\n":  {false, true},
		"A: " + long + "ä\r\n\r\nx\r\n": {true, false},
		"A: b\r\n\r\nx\r\n\r\nB: ö\r\n": {false, true},
	} {
		header, body, err := eightBit(open(text))
		if err != nil || header != wanted[0] || body != wanted[1] {
			t.Errorf("%.40q: %v %v %v", text, header, body, err)
		}
	}
	if _, _, err := eightBit(func() (io.ReadCloser, error) { return io.NopCloser(errReader{}), nil }); !errors.Is(err,
		errTest) {
		t.Error(err)
	}
}

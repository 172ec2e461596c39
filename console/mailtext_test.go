package console

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMailText(t *testing.T) {
	for name, x := range map[string]struct{ raw, want string }{
		"plain": {"Subject: x\r\n\r\nhello\r\n", "hello\r\n"},
		"encoded": {"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n" +
			"j=C3=B6rg", "jörg"},
		"latin":   {"Content-Type: text/plain; charset=ISO-8859-1\r\n\r\nj\xf6rg", "jörg"},
		"unknown": {"Content-Type: text/plain; charset=koi8-r\r\n\r\na\xf6b", "a\ufffdb"},
		"base64":  {"Content-Transfer-Encoding: base64\r\n\r\naGVsbG8=\r\n", "hello"},
		"plain before html": {"Content-Type: multipart/alternative; boundary=b\r\n\r\n" +
			"--b\r\nContent-Type: text/html\r\n\r\n<p>no\r\n--b\r\nContent-Type: text/plain\r\n\r\nyes\r\n--b--\r\n", "yes"},
		"html alone": {"Content-Type: text/html\r\n\r\n<script>x</script>", "<script>x</script>"},
		"a picture":  {"Content-Type: image/png\r\n\r\nx", ""},
		"cut off": {"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n" +
			"Content-Type: multipart/alternative; boundary=c\r\n\r\n--c\r\n\r\nbegun", "begun"},
		"no message": {"\x00", ""},
	} {
		if got := MailText([]byte(x.raw)); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
	long := "\r\n" + strings.Repeat("a", MaxMailText+1)
	if got := len(MailText([]byte("A: b\r\n" + long))); got != MaxMailText {
		t.Errorf("%d bytes of a long text", got)
	}
	deep := ""
	for i := range maxMailDepth + 1 {
		deep += fmt.Sprintf("Content-Type: multipart/mixed; boundary=b%[1]d\r\n\r\n--b%[1]d\r\n", i)
	}
	if got := MailText([]byte(deep + "\r\ntoo deep")); got != "" {
		t.Errorf("%q", got)
	}
	many := "Content-Type: multipart/mixed; boundary=b\r\n\r\n" +
		strings.Repeat("--b\r\nContent-Type: image/png\r\n\r\nx\r\n", maxMailParts) + "--b\r\n\r\nafter too many"
	if got := MailText([]byte(many)); got != "" {
		t.Errorf("%q", got)
	}
}

// FuzzMailText: whatever a message is, its text is bounded and can be shown.
func FuzzMailText(f *testing.F) {
	f.Add([]byte("Content-Type: multipart/alternative; boundary=b\r\n\r\n" +
		"--b\r\nContent-Type: text/html\r\n\r\n<p>\r\n--b--"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if got := MailText(raw); !utf8.ValidString(got) || len(got) > 3*MaxMailText {
			t.Errorf("%d bytes", len(got))
		}
	})
}

package simulate

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func may(hour, minute, second int) time.Time {
	return time.Date(2026, 5, 18, hour, minute, second, 0, time.UTC)
}

func TestPostfixLog(t *testing.T) {
	text, err := os.ReadFile("testdata/maillog")
	if err != nil {
		t.Fatal(err)
	}
	traditional := string(text)
	var b strings.Builder
	for line := range strings.Lines(traditional) {
		b.WriteString("2026-05-18T" + line[7:15] + ".25+02:00" + line[15:])
	}
	for name, path := range map[string]string{
		"traditional": file(t, "maillog", traditional), "packed": file(t, "maillog.1.gz", traditional),
		"RFC 3339": file(t, "maillog.iso", b.String()),
	} {
		got, info := readLog(t, LogOptions{}, path)
		same(t, got,
			"ann@example.org: bob@example.net eve@example.org late@slow.example.net",
			"bob: nobody@example.net",
			"carol: dan@example.net eve@example.org",
			"ann@example.org: list@lists.example.org") // the other recipient is on the next page of the log
		first := may(8, 0, 2)
		if name == "RFC 3339" {
			first = first.Add(-2*time.Hour + 250*time.Millisecond)
		}
		if !got[0].At.Equal(first) || info.From != got[0].At || info.To != got[3].At || info.Mails != 4 ||
			info.Users != 3 || info.Relative {
			t.Errorf("%s: %v, %+v", name, got[0].At, info)
		}
		if info.Lines != strings.Count(traditional, "\n") {
			t.Errorf("%s: %d lines", name, info.Lines)
		}
		for r, want := range map[reason][2]int{
			otherLine: {11, 1}, unknownMail: {3, 2}, refused: {2, 15}, outside: {21, 16}, ownMail: {8, 20},
			local: {9, 25},
			again: {7, 63}, neverHanded: {1, 39},
		} {
			if lines, first := skippedFor(info, r); lines != want[0] || first != want[1] {
				t.Errorf("%s: %d are %s, the first %d; want %v", name, lines, why[r], first, want)
			}
		}
	}

	path := file(t, "maillog", traditional)
	got, info := readLog(t, LogOptions{Clients: networks("192.0.2.0/24", "127.0.0.0/8"), Local: true}, path)
	same(t, got,
		"ann@example.org: bob@example.net eve@example.org late@slow.example.net",
		"uid 0: root",
		"192.0.2.200: office@example.org",
		"bob: nobody@example.net",
		"carol: dan@example.net eve@example.org",
		"ann@example.org: list@lists.example.org")
	if lines, _ := skippedFor(info, nullSender); lines != 3 {
		t.Errorf("%d lines of mail without a sender", lines)
	}
}

// TestPostfixAgain: mail from outside that a filter hands in again is nobody's, though the filter is a client that is a
// user.
func TestPostfixAgain(t *testing.T) {
	var b strings.Builder
	say := func(daemon, text string) { fmt.Fprintf(&b, "May 18 08:00:00 mx postfix/%s[1]: %s\n", daemon, text) }
	say("smtpd", "AAAAAA1: client=mail.example.com[203.0.113.9]")
	say("qmgr", "AAAAAA1: from=<carl@example.com>, size=1, nrcpt=1 (queue active)")
	say("smtpd", "AAAAAA2: client=localhost[127.0.0.1]")
	say("qmgr", "AAAAAA2: from=<carl@example.com>, size=1, nrcpt=1 (queue active)")
	say("lmtp", "AAAAAA2: to=<ann@example.org>, relay=x, status=sent (ok)")
	say("qmgr", "AAAAAA2: removed")
	say("smtp",
		"AAAAAA1: to=<ann@example.org>, relay=127.0.0.1[127.0.0.1]:10024, status=sent (250 Ok: queued as AAAAAA2)")
	say("qmgr", "AAAAAA1: removed")
	say("smtpd", "AAAAAA2: client=localhost[127.0.0.1]") // the id is used again, for another mail
	say("lmtp", "AAAAAA2: to=<bob@example.org>, relay=x, status=sent (ok)")
	got, _ := readLog(t, LogOptions{Clients: networks("127.0.0.1/32")}, file(t, "maillog", b.String()))
	same(t, got, "127.0.0.1: bob@example.org")
}

// TestPostfixOrder: mails are given in the order in which they were accepted, whatever becomes of them later.
func TestPostfixOrder(t *testing.T) {
	var b strings.Builder
	say := func(at time.Time, daemon, text string) {
		fmt.Fprintf(&b, "%s mx postfix/%s[1]: %s\n", at.Format(time.Stamp), daemon, text)
	}
	begin := func(at time.Time, id, user string) {
		say(at, "smtpd", id+": client=x[192.0.2.1], sasl_method=PLAIN, sasl_username="+user)
	}
	sent := func(at time.Time, id, to string) {
		say(at, "smtp", id+": to=<"+to+">, relay=x, delay=1, status=sent (ok)")
	}
	begin(may(8, 0, 0), "AAAAAA1", "ann")
	sent(may(8, 0, 1), "AAAAAA1", "a@example.org")
	begin(may(8, 1, 0), "AAAAAA2", "bob")
	sent(may(8, 1, 1), "AAAAAA2", "b@example.org")
	say(may(8, 1, 2), "qmgr", "AAAAAA2: removed")
	sent(may(8, 59, 0), "AAAAAA1", "c@example.org") // within the hour
	sent(may(9, 0, 0), "AAAAAA1", "d@example.org")  // after it
	begin(may(9, 10, 0), "AAAAAA2", "eve")          // the id of a mail that was removed
	sent(may(9, 10, 1), "AAAAAA2", "e@example.org")
	begin(may(9, 11, 0), "AAAAAA2", "eve") // and of one of which that was not said
	sent(may(9, 11, 1), "AAAAAA2", "f@example.org")
	got, info := readLog(t, LogOptions{}, file(t, "maillog", b.String()))
	same(t, got, "ann: a@example.org c@example.org", "bob: b@example.org", "eve: e@example.org", "eve: f@example.org")
	if !got[0].At.Equal(may(8, 0, 0)) || !got[1].At.Equal(may(8, 1, 0)) {
		t.Error(got)
	}
	if lines, first := skippedFor(info, unknownMail); lines != 1 || first != 7 {
		t.Errorf("%d, %d", lines, first)
	}
}

// postfixMails is a log of mails of one user that were never removed.
func postfixMails(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "May 18 08:00:00 mx postfix/smtpd[1]: AAAA%04X: client=x[192.0.2.1], sasl_username=ann\n", i)
		fmt.Fprintf(&b,
			"May 18 08:00:00 mx postfix/smtp[1]: AAAA%04X: to=<r%d@example.org>, relay=x, status=sent (ok)\n", i, i)
	}
	return b.String()
}

func TestPostfixBounds(t *testing.T) {
	late := func(id int) string {
		return fmt.Sprintf("May 18 08:00:01 mx postfix/smtp[1]: AAAA%04X: to=<late@example.org>, relay=x, "+
			"status=sent (ok)\n", id)
	}
	for _, test := range []struct{ mails, want int }{{100, 2}, {101, 1}} {
		l, err := OpenLog([]string{file(t, "maillog", postfixMails(test.mails)+late(0))}, LogOptions{})
		if err != nil {
			t.Fatal(err)
		}
		l.limits.open = 100
		got, _ := drain(t, l)
		// with one more the first is given before its last recipient comes
		if len(got) != test.mails || len(got[0].To) != test.want {
			t.Errorf("%d mails, the first to %q", len(got), got[0].To)
		}
	}

	begun := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "May 18 08:00:00 mx postfix/smtpd[1]: AAAA%04X: client=x[192.0.2.1], sasl_username=ann\n",
				i)
		}
		return b.String()
	}
	for n, want := range map[int]int{100: 0, 101: 1} {
		l, err := OpenLog([]string{file(t, "maillog", begun(n)+late(n-1))}, LogOptions{})
		if err != nil {
			t.Fatal(err)
		}
		l.limits.open = 100
		_, info := drain(t, l)
		if lines, _ := skippedFor(info, gaveUp); lines != want {
			t.Errorf("%d of %d mails are given up", lines, n)
		}
	}

	to := func(n int) string {
		var b strings.Builder
		b.WriteString("May 18 08:00:00 mx postfix/smtpd[1]: AAAAAA1: client=x[192.0.2.1], sasl_username=ann\n")
		for i := range 2 * n { // each twice
			fmt.Fprintf(&b,
				"May 18 08:00:00 mx postfix/smtp[1]: AAAAAA1: to=<r%d@example.org>, relay=x, status=deferred (no)\n",
				i%n)
		}
		return b.String()
	}
	got, _ := readLog(t, LogOptions{}, file(t, "maillog", to(MaxMailRecipients)))
	if len(got) != 1 || len(got[0].To) != MaxMailRecipients {
		t.Error("the most recipients are too many")
	}
	_, info := readLog(t, LogOptions{}, file(t, "maillog", to(MaxMailRecipients+1)+postfixMails(1)))
	if lines, _ := skippedFor(info, manyRecipients); lines == 0 || info.Mails != 1 {
		t.Errorf("%+v", info)
	}

	l, err := OpenLog([]string{file(t, "maillog", to(60)+postfixMails(1))}, LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.limits.held = 50 // what is held in all: the mail is given with as many
	got, _ = drain(t, l)
	if len(got) != 2 || len(got[0].To) != 51 {
		t.Errorf("%d mails, the first to %d", len(got), len(got[0].To))
	}
}

func TestPostfixNobody(t *testing.T) {
	err := readError(t, LogOptions{}, file(t, "maillog",
		"May 18 08:00:00 mx postfix/smtpd[1]: AAAAAA1: client=x[192.0.2.1]\n"))
	if !errors.Is(err, ErrNoMail) || !strings.Contains(err.Error(), "from outside") {
		t.Error(err)
	}
}

func TestQueueID(t *testing.T) {
	for text, want := range map[string]bool{
		"4c9tRL0kXvz9sBD": true, "DEC36A847AD": true, "5F2A14011C": true, "warning": false, "NOQUEUE": false,
		"statistics": false, "fatal": false,
		"DEC3": false, "connect": false, "bcdfghjk": false, "0123456789abcdef": false, strings.Repeat("B", 33): false,
		"": false,
	} {
		if isQueueID([]byte(text)) != want {
			t.Error(text)
		}
	}
}

func FuzzPostfixLog(f *testing.F) {
	text, err := os.ReadFile("testdata/maillog")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for line := range strings.Lines(string(text)) {
		f.Add([]byte(line))
	}
	f.Add([]byte("2026-05-18T08:00:00.5Z mx postfix/smtpd[1]: AAAAAA1: client=, " +
		"sasl_username=x\n2026-05-18T09:00:01Z mx a/b: AAAAAA1: to=<a>, status=\n"))
	f.Fuzz(func(t *testing.T, text []byte) { fuzzLog(t, LogPostfix, text) })
}

func BenchmarkPostfixLog(b *testing.B) {
	text, err := os.ReadFile("testdata/maillog")
	if err != nil {
		b.Fatal(err)
	}
	lines := bytes.Count(text, []byte("\n"))
	benchmarkText(b, bytes.Repeat(text, 100_000/lines), 100_000/lines*lines)
}

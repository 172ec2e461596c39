package bounce

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/mail"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/emersion/go-message"
	"weir/internal/shown"
)

var update = flag.Bool("update", false, "write the golden files anew")

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

const letter = "Received: from laptop by mail.example.org; Mon, 02 Mar 2026 08:59:58 +0000\r\n" +
	"X-Weir-User: 1;YW5u;forged\r\n" +
	"X-Weir-Stamp: one\r\n" +
	"From: Ann <ann@example.org>\r\n" +
	"x-weir-stamp : two,\r\n two goes on\r\n" +
	"Subject: Lunch\r\n on Friday\r\n" +
	"X-Weir-Stamp-Not: stays\r\n" +
	"\r\n" +
	"Hello Bob,\r\n\r\nX-Weir-Stamp: stays, as it is text\r\n.\r\n--weir--\r\n"

func report() *Report {
	return &Report{
		Kind: Failure, From: "MAILER-DAEMON@mail.example.org", Host: "mail.example.org", To: "ann@example.org",
		ID:        "0D9S7QK3M0G01",
		MessageID: "1@mail.example.org", Now: start, Arrived: start.Add(-2 * time.Second), Envelope: "QQ314159",
		Return: "FULL",
		Recipients: []Recipient{
			{Address: "bob@example.net", Original: "rfc822;bob@example.com", Status: "5.1.1", Code: 550,
				Text:   "User unknown\r\nin virtual mailbox table",
				Server: "mx.example.net", Last: start},
			{Address: "carol@example.net", Status: "4.4.7", Text: "it could not be delivered for 5 days", Last: start},
		},
		Original: strings.NewReader(letter),
	}
}

func written(t testing.TB, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, r, "weir-BOUNDARY"); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	for name, change := range map[string]func(*Report){
		"failed": func(*Report) {},
		"delayed": func(r *Report) {
			r.Kind, r.Until, r.Return = Delay, start.Add(4*24*time.Hour), "HDRS"
			r.Recipients = []Recipient{{Address: "bob@example.net", Status: "4.2.0", Code: 450,
				Text: "4.2.0 Greylisted, try again " +
					"later, and read the page at https://mx.example.net/greylisting to see why this is so",
				Server: "mx.example.net", Last: start}}
		},
		"relayed": func(r *Report) {
			r.Kind, r.Envelope, r.Return = Relayed, "", ""
			r.Recipients = []Recipient{{Address: "bob@example.net", Status: "2.0.0", Server: "mx.example.net"}}
		},
		"utf8": func(r *Report) {
			r.UTF8, r.To = true, "änn@example.org"
			r.Recipients = []Recipient{{Address: "bøb@example.net", Original: "utf-8;bøb@example.net", Status: "5.6.7",
				Code: 553,
				Text: "Adresse nicht erlaubt: bøb", Server: "mx.example.net"}}
			r.Original = strings.NewReader(strings.Replace(letter, "Ann", "Änn", 1))
		},
		"downgraded": func(r *Report) {
			r.UTF8 = true
			r.Recipients = []Recipient{{Address: "bøb@example.net", Original: "utf-8;bøb@example.net", Status: "5.6.7",
				Text: "the address needs SMTPUTF8, which the server does not know", Server: "mx.example.net"}}
			r.Original = strings.NewReader(strings.Replace(letter, "Ann", "Änn", 1))
		},
	} {
		r := report()
		change(r)
		got := written(t, r)
		parts(t, got)
		path := filepath.Join("testdata", name+".eml")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s\n%v", name, got, want, err)
		}
	}
}

// A part is one of a notification, as a mail program reads it.
type part struct {
	kind string
	body string
}

// parts reads a notification by two libraries, and holds what is true of every one of them.
func parts(t testing.TB, text string) []part {
	t.Helper()
	for i, line := range strings.SplitAfter(text, "\n") {
		if line != "" && !strings.HasSuffix(line, "\r\n") || strings.Contains(strings.TrimSuffix(line, "\r\n"), "\r") {
			t.Fatalf("line %d does not end in CRLF: %q", i+1, line)
		}
	}
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	for _, name := range []string{"From", "To"} {
		if list, err := m.Header.AddressList(name); (err != nil || len(list) != 1) &&
			!strings.Contains(m.Header.Get(name), "[IPv6:") {
			t.Fatalf("%s: %q: %v", name, m.Header.Get(name), err)
		}
	}
	if _, err := m.Header.Date(); err != nil {
		t.Fatal(err)
	}
	if len(m.Header) != 9 || m.Header.Get("Auto-Submitted") != "auto-replied" {
		t.Fatalf("header is %q", m.Header)
	}
	e, err := message.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if kind, params, err := e.Header.ContentType(); err != nil || kind != "multipart/report" ||
		params["report-type"] != "delivery-status" {
		t.Fatalf("%s %v: %v", kind, params, err)
	}
	var all []part
	for mr := e.MultipartReader(); ; {
		p, err := mr.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		kind, _, err := p.Header.ContentType()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(p.Body)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, part{kind, string(body)})
	}
	if len(all) != 3 {
		t.Fatalf("%d parts in\n%s", len(all), text)
	}
	return all
}

// groups reads the fields of the part for machines.
func groups(t testing.TB, p part) []textproto.MIMEHeader {
	t.Helper()
	var all []textproto.MIMEHeader
	for text := range strings.SplitSeq(strings.TrimRight(p.body, "\r\n"), "\r\n\r\n") {
		m, err := mail.ReadMessage(strings.NewReader(text + "\r\n\r\n"))
		if err != nil {
			t.Fatalf("%v in\n%s", err, p.body)
		}
		all = append(all, textproto.MIMEHeader(m.Header))
	}
	return all
}

func TestStatusIsForMachines(t *testing.T) {
	all := parts(t, written(t, report()))
	g := groups(t, all[1])
	if len(g) != 3 {
		t.Fatalf("%d groups of fields", len(g))
	}
	for i, fields := range []map[string]string{
		{"Reporting-MTA": "dns; mail.example.org", "Original-Envelope-Id": "QQ314159",
			"Arrival-Date": "Mon, 02 Mar 2026 08:59:58 +0000"},
		{"Original-Recipient": "rfc822; bob@example.com", "Final-Recipient": "rfc822; bob@example.net",
			"Action": "failed", "Status": "5.1.1",
			"Remote-MTA":        "dns; mx.example.net",
			"Diagnostic-Code":   "smtp; 550 5.1.1 User unknown in virtual mailbox table",
			"Last-Attempt-Date": "Mon, 02 Mar 2026 09:00:00 +0000", "Will-Retry-Until": ""},
		{"Original-Recipient": "", "Status": "4.4.7", "Remote-MTA": "",
			"Diagnostic-Code": "x-weir; it could not be delivered for 5 days"},
	} {
		for name, want := range fields {
			if got := g[i].Get(name); got != want {
				t.Errorf("group %d: %s: %q, want %q", i, name, got, want)
			}
		}
	}
}

// A notification to an address in ASCII is in ASCII, whatever the mail was, so that every server takes it; and nothing
// is lost by that. A mail that came without SMTPUTF8 is returned in full as it was.
func TestNotificationsInASCII(t *testing.T) {
	const wide = "Subject: Grüße\r\nFrom: Änn\r\n\r\nschöne Grüße\r\n"
	header, _, _ := strings.Cut(wide, "\r\n\r\n")
	for _, c := range []struct {
		utf8       bool
		ret        string
		size       int64
		kind, want string
		eight      bool
	}{
		{true, "FULL", 0, "message/global", wide, false},
		{true, "FULL", int64(len(wide)), "message/global", wide, false},
		{true, "HDRS", 0, "message/global-headers", header, false},
		{false, "HDRS", 0, "text/rfc822-headers", header, false},
		{false, "FULL", 0, "message/rfc822", wide, true},
	} {
		r := report()
		r.UTF8, r.Return, r.Size, r.Original = c.utf8, c.ret, c.size, strings.NewReader(wide)
		r.Recipients = []Recipient{{Address: "bøb@example.net", Original: "utf-8;bøb@example.net", Status: "5.6.7",
			Text: "schöne Grüße"}}
		text := written(t, r)
		all := parts(t, text)
		if !shown.ASCII([]byte(text)) != c.eight {
			t.Errorf("%+v:\n%s", c, text)
		}
		if all[2].kind != c.kind || strings.TrimSpace(all[2].body) != strings.TrimSpace(c.want) {
			t.Errorf("%+v: %s\n%s", c, all[2].kind, all[2].body)
		}
		if !strings.Contains(all[0].body, "<bøb@example.net>") || !strings.Contains(all[0].body, "schöne Grüße") {
			t.Errorf("people read\n%s", all[0].body)
		}
		if g := groups(t, all[1]); all[1].kind != "message/delivery-status" ||
			g[1].Get("Final-Recipient") != `utf-8; b\x{F8}b@example.net` {
			t.Errorf("%s: %v", all[1].kind, g)
		}
	}
}

func TestWhatIsReturned(t *testing.T) {
	header, body, _ := strings.Cut(letter, "\r\n\r\n")
	whole := "Received: from laptop by mail.example.org; Mon, 02 Mar 2026 08:59:58 +0000\r\nFrom: Ann " +
		"<ann@example.org>\r\n" +
		"Subject: Lunch\r\n on Friday\r\nX-Weir-Stamp-Not: stays\r\n"
	long := letter + strings.Repeat("x", MaxOriginal-len(letter))
	for name, c := range map[string]struct {
		original, ret string
		size          int64
		kind, want    string
	}{
		"full":          {letter, "FULL", 0, "message/rfc822", whole + "\r\n" + body},
		"full, by size": {letter, "full", int64(len(letter)), "message/rfc822", whole + "\r\n" + body},
		"header":        {letter, "HDRS", 0, "text/rfc822-headers", whole},
		"nothing said":  {letter, "", 0, "text/rfc822-headers", whole},
		"header only":   {header + "\r\n", "FULL", 0, "message/rfc822", whole},
		"at the bound": {long, "FULL", 0, "message/rfc822",
			whole + "\r\n" + body + strings.Repeat("x", MaxOriginal-len(letter))},
		"bound+1":          {long + "x", "FULL", 0, "text/rfc822-headers", whole},
		"bound+1, by size": {long + "x", "FULL", MaxOriginal + 1, "text/rfc822-headers", whole},
		"nothing":          {"", "FULL", 0, "message/rfc822", ""},
		"bare line ends": {"A: 1\nB: 2\rX-Weir-Stamp: 3\r\r\r\nx\n\ny", "FULL", 0, "message/rfc822",
			"A: 1\r\nB: 2\r\n\r\n\r\nx\r\n\r\ny"},
		"long stamp": {"X-Weir-Stamp: " + strings.Repeat("x", 10000) + "\r\n y\r\nA: 1\r\n\r\nx", "FULL", 0,
			"message/rfc822", "A: 1\r\n\r\nx"},
	} {
		for _, slow := range []bool{false, true} {
			r := report()
			r.Original, r.Return, r.Size = strings.NewReader(c.original), c.ret, c.size
			if slow {
				r.Original = iotest.HalfReader(iotest.DataErrReader(r.Original))
			}
			got := parts(t, written(t, r))[2]
			if got.kind != c.kind || got.body != c.want && got.body != c.want+"\r\n" {
				t.Errorf("%s: %s, %d bytes:\n%.300q\nwant\n%.300q", name, got.kind, len(got.body), got.body, c.want)
			}
		}
	}
	r := report()
	r.Original = nil
	if got := parts(t, written(t, r))[2]; strings.TrimSpace(got.body) != "" {
		t.Errorf("no original: %q", got.body)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	var b strings.Builder
	for i := 0; b.Len() < MaxHeader; i++ {
		fmt.Fprintf(&b, "X-Field-%d: value\r\n and more\r\n", i)
	}
	r := report()
	r.Return, r.Original = "HDRS", strings.NewReader(b.String())
	got := parts(t, written(t, r))[2]
	if len(got.body) > MaxHeader || len(got.body) < MaxHeader-100 ||
		!strings.HasSuffix(strings.TrimSpace(got.body), "and more") {
		t.Errorf("%d bytes, ends in %q", len(got.body), got.body[len(got.body)-50:])
	}
}

func TestOriginalThatCannotBeRead(t *testing.T) {
	for _, size := range []int64{0, 100} {
		for _, ret := range []string{"FULL", "HDRS"} {
			r := report()
			r.Original, r.Return, r.Size = iotest.ErrReader(io.ErrClosedPipe), ret, size
			if err := Write(io.Discard, r); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("%s, size %d: %v", ret, size, err)
			}
		}
	}
	r := report()
	r.Size, r.Original = 10, io.LimitReader(endless{}, 4*MaxOriginal) // the size was a lie
	if got := parts(t, written(t, r))[2]; len(got.body) > 2*MaxOriginal {
		t.Errorf("%d bytes are returned", len(got.body))
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, strings.Repeat("x", len(b))), nil }

func TestNobodyIsTold(t *testing.T) {
	for _, to := range []string{"", "<>"} {
		r := report()
		r.To = to
		if err := Write(io.Discard, r); !errors.Is(err, ErrNobody) {
			t.Errorf("to %q: %v", to, err)
		}
	}
	for _, change := range []func(*Report){func(r *Report) { r.Recipients = nil },
		func(r *Report) { r.Kind = Relayed + 1 }} {
		r := report()
		change(r)
		if err := Write(io.Discard, r); !errors.Is(err, ErrNothing) {
			t.Error(err)
		}
	}
}

func TestBoundaryAndMessageIDAreByChance(t *testing.T) {
	seen := map[string]bool{}
	for range 4 {
		r := report()
		r.MessageID = ""
		var b bytes.Buffer
		if err := Write(&b, r); err != nil {
			t.Fatal(err)
		}
		m, err := mail.ReadMessage(&b)
		if err != nil {
			t.Fatal(err)
		}
		seen[m.Header.Get("Content-Type")] = true
		seen[m.Header.Get("Message-ID")] = true
	}
	if len(seen) != 8 {
		t.Errorf("%v", seen)
	}
}

func TestManyRecipients(t *testing.T) {
	r := report()
	r.Recipients = nil
	for i := range maxListed + 1 {
		r.Recipients = append(r.Recipients, Recipient{Address: fmt.Sprintf("user%d@example.net", i), Status: "5.1.1"})
	}
	all := parts(t, written(t, r))
	if strings.Count(all[0].body, "<user") != maxListed || !strings.Contains(all[0].body, "and 1 more") {
		t.Errorf("%s", all[0].body)
	}
	if n := len(groups(t, all[1])); n != maxListed+2 {
		t.Errorf("%d groups of fields", n)
	}
}

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"ann@example.org":                    "<ann@example.org>",
		"<ann@example.org>":                  "<ann@example.org>",
		"ann":                                "<ann@host>",
		`"ann lee"@example.org`:              `<"ann lee"@example.org>`,
		`"ann \" \\lee"@example.org`:         `<"ann \" \\lee"@example.org>`,
		`ann"x@example.org`:                  `<"ann\"x"@example.org>`,
		"ann@[192.0.2.1]":                    "<ann@[192.0.2.1]>",
		"ann@[IPv6:2001:db8::1]":             "<ann@[IPv6:2001:db8::1]>",
		"ann@[fe80::1%eth0]":                 "<ann@fe801eth0>",
		"ann\r\nBcc: x@example.org":          `<"ann Bcc: x"@example.org>`,
		"ann@example.org>, <eve@example.net": `<"ann@example.org>, <eve"@example.net>`,
		"ann@exa(mple).org, b":               "<ann@example.orgb>",
		"ann@..":                             "<ann@invalid>",
		"a..b@example.org":                   `<"a..b"@example.org>`,
		"\u202eann@example.org":              "<ann@example.org>",
		"änn@example.org":                    "<?nn@example.org>",
	} {
		p := &printer{}
		if got := p.mailbox(address, "host"); got != want {
			t.Errorf("%q: %s, want %s", address, got, want)
		}
	}
	if got := (&printer{utf8: true}).mailbox("änn@bücher.example", "host"); got != "<änn@bücher.example>" {
		t.Error(got)
	}
	if got := (&printer{}).typed("rfc822", "b\\ø=b@example.net"); got != `utf-8; b\x{5C}\x{F8}\x{3D}b@example.net` {
		t.Error(got)
	}
}

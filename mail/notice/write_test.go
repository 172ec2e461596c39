package notice

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/emersion/go-message"

	"weir/internal/words"
	"weir/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

const ticket = "abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnop"

func sample(kind Kind) *Notice {
	n := &Notice{
		Kind: kind, From: "weir@mail.example.org", ReplyTo: "weir+" + ticket + "@mail.example.org",
		To: "ann@example.com", Host: "mail.example.org",
		MessageID: "1@mail.example.org", Now: start, User: "ann", Link: "https://mail.example.org/held?t=" + ticket,
		Until:   start.AddDate(0, 0, 7),
		Waiting: 26, Limit: 20,
		Held: []Line{
			{ID: 1 << 60, At: start.Add(-3 * time.Minute), To: many(40), Subject: "Minutes of the meeting",
				Size: 12_345},
			{ID: 1<<60 + 1, At: start.Add(-2 * time.Minute), To: many(1),
				Subject: "Grüße aus Überlingen, und ein langer Betreff, der nicht auf eine Zeile passt", Size: 3},
			{ID: 1<<60 + 2, At: start.Add(-time.Minute), To: many(3), Size: 5_000_000},
		},
		More: 2,
	}
	return n
}

func many(n int) (to []string) {
	for i := range n {
		to = append(to, fmt.Sprintf("user%d@example.net", i+1))
	}
	return to
}

func TestGolden(t *testing.T) {
	for name, n := range map[string]*Notice{
		"stopped":      sample(Stopped),
		"delayed":      sample(Delayed),
		"admin":        sample(Admin),
		"answer":       sample(Answer),
		"short":        sample(Stopped), // no page, no commands, nothing but ASCII
		"single":       sample(Stopped),
		"review":       sample(Review),
		"barred":       sample(Barred),
		"flagged":      sample(Flagged),
		"adminflagged": sample(AdminFlagged),
		"reminder":     sample(Reminder),
		"adminremind":  sample(AdminReminder),
		"de-reminder":  sample(Reminder),
		"link":         sample(Link),
		"de-link":      sample(Link),
		"de-stopped":   sample(Stopped),
		"de-delayed":   sample(Delayed),
		"de-review":    sample(Review),
		"de-barred":    sample(Barred),
		"de-flagged":   sample(Flagged),
		"de-answer":    sample(Answer),
	} {
		kind, german := strings.CutPrefix(name, "de-")
		if german {
			n.Language = words.Find("de")
		}
		switch kind {
		case "admin":
			n.To, n.ReplyTo, n.Link, n.From = "admin@example.org", "", "", "postmaster@mail.example.org"
		case "answer":
			n.Subject, n.InReplyTo, n.Text = "Re: Grüße", "<42@laptop>",
				"Released: mails 1 and 3.\nDeleted: mail 2.\n\nYour account sends again."
			n.Held, n.More, n.ReplyTo, n.Link = nil, 0, "", ""
		case "short":
			n.ReplyTo, n.Link, n.Held, n.More, n.Limit = "", "", n.Held[:1], 0, 0
		case "review":
			n.Held, n.More, n.Waiting = n.Held[:1], 0, 40
		case "reminder", "adminremind":
			n.Since, n.Expire = start.AddDate(0, 0, -3), 30*24*time.Hour
		case "barred":
			n.Held, n.More, n.ReplyTo, n.Link, n.Text = nil, 0, "", "", "your computer sends spam, call us"
		case "single":
			n.Held, n.More, n.Waiting = n.Held[1:2], 0, 1
		}
		got := written(t, n)
		read(t, got)
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

func written(t testing.TB, n *Notice) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, n); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// read reads a notice as a mail program does, and holds what is true of every one of them.
func read(t testing.TB, text string) (h mail.Header, body string) {
	t.Helper()
	for i, line := range strings.SplitAfter(text, "\n") {
		if line != "" && !strings.HasSuffix(line, "\r\n") || strings.Contains(strings.TrimSuffix(line, "\r\n"), "\r") ||
			len(line) > 998 {
			t.Fatalf("line %d: %q", i+1, line)
		}
	}
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	for name, values := range m.Header {
		if len(values) != 1 ||
			!strings.Contains("From To Reply-To Subject Date Message-Id In-Reply-To References Auto-Submitted "+
				"X-Auto-Response-Suppress Mime-Version Content-Type Content-Transfer-Encoding Content-Language ", name+" ") {
			t.Fatalf("%s: %q", name, values)
		}
	}
	for _, name := range []string{"From", "To"} {
		if list, err := m.Header.AddressList(name); err != nil || len(list) != 1 {
			t.Fatalf("%s: %v", m.Header.Get(name), err)
		}
	}
	if _, err := m.Header.Date(); err != nil || !strings.HasPrefix(m.Header.Get("Auto-Submitted"), "auto-") {
		t.Fatalf("%v in\n%s", err, text)
	}
	e, err := message.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(e.Body)
	if err != nil {
		t.Fatal(err)
	}
	subject, err := e.Header.Text("Subject")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range subject + strings.ReplaceAll(string(b), "\r\n", "") {
		if !unicode.IsPrint(c) {
			t.Fatalf("%U in\n%s", c, text)
		}
	}
	return m.Header, string(b)
}

func TestNothingFromMailsGetsOut(t *testing.T) {
	evil := "Hi\r\nBcc: eve@example.net\r\n\r\n<b>\u202etxt.exe\u2066\u200b \x1b[2J\x00\u2028release " +
		"all\n=?utf-8?q?=0D=0ABcc:_eve?= \xff" + strings.Repeat("ø", 5000)
	n := sample(Answer)
	n.User, n.Host, n.Subject, n.InReplyTo, n.Text = evil, evil, evil, evil, evil
	n.Held = []Line{{To: []string{evil, evil, evil, evil}, Subject: evil, Size: -1}}
	for n.Kind = Stopped; n.Kind <= Answer; n.Kind++ {
		text := written(t, n)
		h, body := read(t, text)
		if h.Get("Bcc") != "" || h.Get("In-Reply-To") != "" {
			t.Errorf("header is %v", h)
		}
		if len(text) > 30_000 {
			t.Errorf("%d bytes", len(text))
		}
		if n.Kind != Answer { // whose text has lines
			for line := range strings.SplitSeq(body, "\r\n") {
				if strings.HasPrefix(strings.TrimSpace(line), "release all") && !strings.Contains(line, "(sends") {
					t.Errorf("a line of its own: %q", line)
				}
			}
		}
	}
}

func TestWhatCannotBeWritten(t *testing.T) {
	for name, change := range map[string]func(*Notice){
		"kind":         func(n *Notice) { n.Kind = Link + 1 },
		"nobody":       func(n *Notice) { n.To = "" },
		"to two":       func(n *Notice) { n.To = "a@example.org, b@example.org" },
		"injected":     func(n *Notice) { n.To = "a@example.org\r\nBcc: b@example.org" },
		"with a name":  func(n *Notice) { n.To = "Ann <a@example.org>" },
		"from nobody":  func(n *Notice) { n.From = "" },
		"from nowhere": func(n *Notice) { n.From = "weir" },
		"reply":        func(n *Notice) { n.ReplyTo = "weir+@" },
		"long":         func(n *Notice) { n.To = strings.Repeat("a", 400) + "@example.org" },
		"id":           func(n *Notice) { n.MessageID = "a b" },
		"link":         func(n *Notice) { n.Link = "javascript:alert(1)" },
		"broken link":  func(n *Notice) { n.Link = "https://example.org/\r\nrelease all" },
		"long link":    func(n *Notice) { n.Link = "https://example.org/" + strings.Repeat("x", maxLink) },
	} {
		n := sample(Stopped)
		change(n)
		if err := Write(io.Discard, n); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestListIsBounded(t *testing.T) {
	n := sample(Stopped)
	n.Held, n.More = nil, 5
	for i := range MaxLines + 1 {
		n.Held = append(n.Held, Line{ID: store.MailID(i), At: start, To: []string{"bob@example.net"},
			Subject: "x"})
	}
	_, body := read(t, written(t, n))
	if strings.Count(body, "To: bob") != MaxLines || !strings.Contains(body, "\r\n100. ") ||
		!strings.Contains(body, "and 6 messages more") {
		t.Errorf("%s", body)
	}
}

func TestCommandsFitTheList(t *testing.T) {
	for _, c := range []struct {
		listed, more int
		want         string
	}{
		{0, 0, "resume"},
		{0, 7, "release all, delete all, resume"},
		{1, 0, "release 1, delete 1, resume"},
		{1, 1, "release all, release 1, delete 1, delete all, resume"},
		{2, 0, "release all, release 1, delete 2, delete all, resume"},
		{3, 0, "release all, release 1 3, delete 2, delete all, resume"},
	} {
		n := Notice{Held: sample(Stopped).Held[:c.listed], More: c.more}
		var got []string
		for _, command := range n.commands() {
			got = append(got, command[0])
			if read, err := readCommands(command[0]); err != nil || len(read.Release) > 0 &&
				read.Release[len(read.Release)-1] > c.listed {
				t.Errorf("%q: %+v, %v", command[0], read, err)
			}
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%d and %d more: %q, want %q", c.listed, c.more, got, c.want)
		}
	}
}

func TestIDsByChance(t *testing.T) {
	n := sample(Stopped)
	n.MessageID = ""
	one, _ := read(t, written(t, n))
	two, _ := read(t, written(t, n))
	if one.Get("Message-ID") == two.Get("Message-ID") ||
		!strings.HasSuffix(one.Get("Message-ID"), "@mail.example.org>") {
		t.Errorf("%s and %s", one.Get("Message-ID"), two.Get("Message-ID"))
	}
}

// FuzzWrite: whatever a notice says, it is a mail or an error.
func FuzzWrite(f *testing.F) {
	f.Add(uint8(0), "ann@example.org", "ann", "mail.example.org", "Lunch", "", "https://example.org/", 1)
	f.Add(uint8(3), "ä@ö.example", "\u202e", "", "=?utf-8?q?x?=", "<a@b>", "", -1)
	f.Add(uint8(2), "\"a b\"@[192.0.2.1]", "a\r\nb", "\xff", strings.Repeat("ø ", 300), "<a@b\r\n>", "", 1<<40)
	f.Fuzz(func(t *testing.T, kind uint8, to, user, host, text, id, link string, size int) {
		n := sample(Kind(kind % 4))
		n.To, n.User, n.Host, n.Subject, n.Text, n.InReplyTo, n.Link = to, user, host, text, text, id, link
		n.Waiting, n.Limit, n.More = size, size, size
		n.Held = append(n.Held, Line{To: []string{to, user, text}, Subject: text, Size: int64(size)})
		var b bytes.Buffer
		if err := Write(&b, n); err != nil {
			if !errors.Is(err, ErrInvalid) || b.Len() > 0 {
				t.Fatal(err)
			}
			return
		}
		read(t, b.String())
	})
}

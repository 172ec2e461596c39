package notice

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"mime"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
		Until:      start.AddDate(0, 0, 7),
		Recipients: Recipients{Held: 44}, Limit: 20, CanResume: kind == Stopped, Password: true,
		List: []Line{
			{ID: 1 << 60, At: start.Add(-3 * time.Minute), Held: many(40), Subject: "Minutes of the meeting", Size: 12_345},
			{ID: 1<<60 + 1, At: start.Add(-2 * time.Minute), Held: many(1),
				Subject: "Grüße aus Überlingen, und ein langer Betreff, der nicht auf eine Zeile passt", Size: 3},
			{ID: 1<<60 + 2, At: start.Add(-time.Minute), Held: many(3), Size: 5_000_000},
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

// TestGolden compares whole messages, with their headers.
func TestGolden(t *testing.T) {
	for name, n := range map[string]*Notice{
		"stopped":    sample(Stopped),
		"admin":      sample(Admin),
		"answer":     sample(Answer),
		"short":      sample(Stopped), // no page, no commands, nothing but ASCII
		"de-stopped": sample(Stopped),
		"de-answer":  sample(Answer),
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
			n.Recipients, n.List, n.More, n.ReplyTo, n.Link = Recipients{}, nil, 0, "", ""
		case "short":
			n.ReplyTo, n.Link, n.List, n.More, n.Limit, n.Held = "", "", n.List[:1], 0, 0, 40
		}
		got := written(t, n)
		read(t, got)
		golden(t, name+".eml", got)
	}
}

// golden compares a text with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s\n%v", name, got, want, err)
	}
}

// A situation is what a user may be told about.
type situation struct {
	name string
	kind Kind
	Recipients
	only []Elsewhere // the gates at which it happens; nil: all of them
	set  func(*Notice)
}

var kept = []Elsewhere{Here}

var situations = []situation{
	{"stopped", Stopped, Recipients{Held: 25}, kept, nil},
	{"stopped, and sends again by itself", Stopped, Recipients{Held: 25}, kept,
		func(n *Notice) { n.Resume = start.AddDate(0, 0, 1) }},
	{"stopped by one message to one", Stopped, Recipients{Held: 1}, kept, nil},
	{"stopped, and some mail was to new people", Stopped, Recipients{Held: 21, New: 8}, kept, nil},
	{"stopped, nothing waits in weir", Stopped, Recipients{}, []Elsewhere{OnHold, PutOff, Declined}, nil},
	{"stopped, and mail of another gate waits", Stopped, Recipients{Held: 3, Delayed: 2},
		[]Elsewhere{OnHold, PutOff, Declined}, nil},
	{"delayed", Delayed, Recipients{Delayed: 6}, kept, nil},
	{"one is delayed, no limit", Delayed, Recipients{Delayed: 1}, kept, func(n *Notice) { n.Limit = 0 }},
	{"delayed, and some mail was to new people", Delayed, Recipients{Delayed: 7, New: 8}, kept, nil},
	{"held for review", Review, Recipients{Held: 40}, kept, nil},
	{"stopped by an operator", Barred, Recipients{Held: 2}, kept,
		func(n *Notice) { n.Text = "your computer sends spam, call us" }},
	{"stopped by an operator, nothing waits", Barred, Recipients{}, nil, nil},
	{"flagged, new people are withheld", Flagged, Recipients{New: 8}, kept, nil},
	{"flagged, some withheld, others delayed", Flagged, Recipients{New: 1, Delayed: 7}, kept, nil},
	{"flagged, withheld, and stopped before", Flagged, Recipients{New: 8, Held: 25}, kept,
		func(n *Notice) { n.CanResume = true }},
	{"flagged, new people, kept elsewhere", Flagged, Recipients{}, []Elsewhere{OnHold, PutOff, Declined}, nil},
	{"flagged, known people only", Flagged, Recipients{}, nil, func(n *Notice) { n.Over = NewRefused }},
	{"flagged, so many messages", Flagged, Recipients{}, nil, func(n *Notice) { n.Over, n.Rate = Rationed, "10/h" }},
	{"flagged, everything is refused", Flagged, Recipients{}, nil, func(n *Notice) { n.Over = Blocked }},
	{"flagged by an operator", Flagged, Recipients{New: 2}, kept, func(n *Notice) { n.Forever = true }},
	{"still on hold", Reminder, Recipients{Held: 2, New: 3}, nil,
		func(n *Notice) { n.Since, n.Expire = start.AddDate(0, 0, -3), 30*24*time.Hour }},
	{"still on hold, and stopped", Reminder, Recipients{Held: 25}, kept,
		func(n *Notice) { n.Since, n.CanResume = start.AddDate(0, 0, -3), true }},
	{"asked for a link", Link, Recipients{Held: 25}, kept, func(n *Notice) { n.CanResume = true }},
	{"the contact has changed", Moved, Recipients{}, kept, func(n *Notice) { n.Link, n.ReplyTo = "", "" }},
	{"what an answer leaves to decide", Answer, Recipients{Held: 25}, kept,
		func(n *Notice) { n.Text, n.CanResume = "Mail was deleted for 1 recipient.", true }},
	{"tells the admin of a stop", Admin, Recipients{Held: 25, New: 1}, kept, nil},
	{"tells the admin of a stop, the user has no contact", Admin, Recipients{Held: 25}, kept,
		func(n *Notice) { n.Untold = true }},
	{"tells the admin of a stop, the password is not weir's", Admin, Recipients{Held: 25}, kept,
		func(n *Notice) { n.Password = false }},
	{"tells the admin of a stop, nothing waits in weir", Admin, Recipients{},
		[]Elsewhere{OnHold, PutOff, Declined}, nil},
	{"tells the admin of an operator's stop", Admin, Recipients{}, kept,
		func(n *Notice) { n.Text = "stopped by root" }},
	{"tells the admin of a flag", AdminFlagged, Recipients{New: 8}, kept,
		func(n *Notice) { n.Text = "51 new recipients within an hour" }},
	{"tells the admin of a flag, nothing waits in weir", AdminFlagged, Recipients{},
		[]Elsewhere{OnHold, PutOff, Declined}, func(n *Notice) { n.Text = "51 new recipients within an hour" }},
	{"tells the admin what is still held", AdminReminder, Recipients{Held: 2}, kept,
		func(n *Notice) { n.Since = start.AddDate(0, 0, -3) }},
}

// TestEveryText compares what is told in every situation, at gates that keep messages and at those that do not, with a
// page, commands by mail, both and none: each state has its own count and its own sentence, and what is offered works.
func TestEveryText(t *testing.T) {
	gates := map[Elsewhere]string{Here: "weir keeps mail", OnHold: "Postfix, over: hold", PutOff: "Postfix, over: defer",
		Declined: "Postfix, over: reject"}
	ways := []struct {
		name       string
		page, mail bool
	}{{"page and commands", true, true}, {"page", true, false}, {"commands", false, true}, {"neither", false, false}}
	for _, l := range []*words.Language{words.English, words.Find("de")} {
		var b strings.Builder
		for _, s := range situations {
			forAdmin := s.kind == Admin || s.kind == AdminFlagged || s.kind == AdminReminder
			if forAdmin && l != words.English {
				continue
			}
			for gate := Here; gate <= Declined; gate++ {
				if s.only != nil && !slices.Contains(s.only, gate) {
					continue
				}
				for _, way := range ways {
					if forAdmin && way.page || s.kind == Link && !way.page ||
						!forAdmin && l != words.English && way.page != way.mail {
						continue
					}
					n := sample(s.kind)
					n.Language, n.Recipients, n.Elsewhere, n.More = l, s.Recipients, gate, 0
					n.List = nil
					if s.All() > 0 {
						n.List = []Line{{ID: 1 << 60, At: start, Subject: "Minutes", Size: 12_345, Delayed: many(s.Delayed),
							Held: many(s.Held), New: many(s.New)}}
					}
					if !way.page {
						n.Link = ""
					}
					if !way.mail {
						n.ReplyTo = ""
					}
					if s.set != nil {
						s.set(n)
					}
					if forAdmin {
						n.Link, n.ReplyTo = "", ""
						if way.mail {
							continue
						}
					}
					h, body := read(t, written(t, n))
					subject, err := new(mime.WordDecoder).DecodeHeader(h.Get("Subject"))
					if err != nil {
						t.Fatal(err)
					}
					fmt.Fprintf(&b, "===== %s; %s; %s\nSubject: %s\n\n%s\n", s.name, gates[gate], way.name, subject,
						strings.ReplaceAll(body, "\r\n", "\n"))
					check(t, n, body)
				}
			}
		}
		golden(t, "texts."+l.Tag()+".txt", b.String())
	}
}

var heldText = regexp.MustCompile(`recipients? is on hold`)

// check holds what is true of every text: it offers nothing that does not work, and promises nothing that nobody has.
func check(t *testing.T, n *Notice, body string) {
	t.Helper()
	if n.Language != words.English {
		return
	}
	for what, c := range map[string]struct{ is, may bool }{
		"a page":     {strings.Contains(body, "https://"), n.Link != ""},
		"commands":   {strings.Contains(body, "By mail, once"), n.ReplyTo != "" && (n.All() > 0 || n.CanResume)},
		"a release":  {strings.Contains(body, "  release"), n.ReplyTo != "" && n.All() > 0},
		"to resume":  {strings.Contains(body, "\r\n    resume"), n.ReplyTo != "" && n.CanResume},
		"held mail":  {heldText.MatchString(body), n.Recipients.Held+n.New > 0},
		"slow mail":  {strings.Contains(body, "is delayed. It leaves"), n.Delayed > 0},
		"that it is": {strings.Contains(body, "is lost"), n.All() > 0},
	} {
		if c.is && !c.may {
			t.Errorf("it speaks of %s:\n%s", what, body)
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
	n.List = []Line{{Held: []string{evil, evil, evil, evil}, Subject: evil, Size: -1}}
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
		"kind":         func(n *Notice) { n.Kind = Moved + 1 },
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
	n.List, n.More = nil, 5
	for i := range MaxLines + 1 {
		n.List = append(n.List, Line{ID: store.MailID(i), At: start, Held: []string{"bob@example.net"},
			Subject: "x"})
	}
	_, body := read(t, written(t, n))
	if strings.Count(body, "to: bob") != MaxLines || !strings.Contains(body, "\r\n100. ") ||
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
		{0, 7, "release all; delete all; resume"},
		{1, 0, "release 1; delete 1; resume; release 1, resume"},
		{1, 1, "release all; release 1; delete 1; delete all; resume; release all, resume"},
		{2, 0, "release all; release 1; delete 2; delete all; resume; release all, resume"},
		{3, 0, "release all; release 1 3; delete 2; delete all; resume; release all, resume"},
	} {
		n := Notice{List: sample(Stopped).List[:c.listed], More: c.more, CanResume: true}
		var got []string
		for _, command := range n.commands() {
			got = append(got, command[0])
			if read, err := readCommands(command[0]); err != nil || len(read.Release) > 0 &&
				read.Release[len(read.Release)-1] > c.listed {
				t.Errorf("%q: %+v, %v", command[0], read, err)
			}
		}
		if strings.Join(got, "; ") != c.want {
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
		n.Recipients.Held, n.Limit, n.More = size, size, size
		n.List = append(n.List, Line{Held: []string{to, user, text}, Subject: text, Size: int64(size)})
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

package demo

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"weir/console"
	"weir/mail/notice"
)

func orderAll(user string) console.MailOrder { return console.MailOrder{User: user, All: true} }

// aNotice is one as weir writes it.
func aNotice(t *testing.T, kind notice.Kind, subjects ...string) *mail.Message {
	t.Helper()
	n := notice.Notice{Kind: kind, From: mailCommand, To: "gina@home.example", ReplyTo: "weir+ticket@" + mailHost,
		Host: mailHost, Now: time.Unix(1_000_000_000, 0), User: "gina",
		Link: "http://127.0.0.1:9001/t/ticket", Recipients: notice.Recipients{Held: len(subjects)}, Limit: 20, Text: "Done."}
	for _, subject := range subjects {
		n.List = append(n.List, notice.Line{At: n.Now, Held: []string{"a@there.example"}, Subject: subject,
			Size: 300})
	}
	var b bytes.Buffer
	if err := notice.Write(&b, &n); err != nil {
		t.Fatal(err)
	}
	m, err := mail.ReadMessage(&b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestReadNotification: the owner understands what weir writes.
func TestReadNotification(t *testing.T) {
	for _, odd := range []string{"You have won", "Größe"} { // the text is encoded then
		n := readNotification(aNotice(t, notice.Stopped, odd, subjects[0], odd, odd, subjects[1]))
		if n == nil || n.answer || n.replyTo != "weir+ticket@"+mailHost || n.link != "http://127.0.0.1:9001/t/ticket" {
			t.Fatalf("%+v", n)
		}
		if want := []string{odd, subjects[0], odd, odd, subjects[1]}; !slices.Equal(n.held, want) {
			t.Errorf("held: %q", n.held)
		}
		if got := strings.Join(n.commands(map[string]bool{subjects[0]: true, subjects[1]: true}),
			"; "); got != "release 2 5; delete 1 3-4; resume" {
			t.Errorf("commands: %s", got)
		}
	}
	if n := readNotification(aNotice(t, notice.Stopped, subjects[0])); strings.Join(n.commands(nil),
		"; ") != "delete 1; resume" {
		t.Errorf("commands: %s", n.commands(nil))
	}
	if n := readNotification(aNotice(t, notice.Answer)); n == nil || !n.answer {
		t.Errorf("an answer: %+v", n)
	}
	if n := readNotification(aNotice(t, notice.Delayed, "a")); n != nil {
		t.Errorf("delayed: %+v", n)
	}
}

// TestSink: a mail has arrived when it has come to all of its recipients, in however many deliveries; once more is
// noticed.
func TestSink(t *testing.T) {
	k := &sink{awaited: map[string]*awaited{}}
	var others []string
	k.read = func(to string, _ *mail.Message) { others = append(others, to) }
	done := 0
	l := &message{id: "1@here.example", to: []string{"a@there.example", "b@there.example"}}
	k.await(l, &awaited{stay: true, theft: new(theft), tell: func(r Result, _ time.Duration, _ time.Time) { done++ }})
	deliver := func(text string, to ...string) error { return k.arrived(to, []byte(text), time.Now()) }
	for i, to := range []string{"a@there.example", "a@there.example", "b@there.example", "b@there.example"} {
		if err := deliver(l.String(), to); err != nil {
			t.Fatal(err)
		}
		if arrived, again := k.copies(l.id); arrived != 1+i/2 || again != (i+1)/2 || done != i/2 {
			t.Errorf("after %d: %d arrived, %d again, %d times done", i+1, arrived, again, done)
		}
	}
	if err := deliver("Subject: hello\r\n\r\n", "c@home.example"); err != nil ||
		!slices.Equal(others, []string{"c@home.example"}) {
		t.Errorf("what nobody awaits: %v, %v", others, err)
	}
	if err := deliver("no mail", "c@home.example"); err == nil {
		t.Error("what is no mail is taken")
	}
	k.await(&message{id: "2@here.example", to: l.to}, &awaited{tell: func(Result, time.Duration, time.Time) {}})
	if lost := k.drop(nil); len(lost) != 1 || len(k.awaited) != 1 {
		t.Errorf("%d lost, %d left", len(lost), len(k.awaited))
	}
}

// TestTaken: what the answers of a gate mean.
func TestTaken(t *testing.T) {
	for want, err := range map[Result]error{
		Held:    nil,
		Refused: fmt.Errorf("recipient: %w", &smtp.SMTPError{Code: 550}),
		Failed:  &smtp.SMTPError{Code: 451},
	} {
		if got := taken(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
	if taken(&net.OpError{Op: "dial", Err: errors.New("refused")}) != Failed {
		t.Error("nobody there: not failed")
	}
}

// TestTallyLater: what is held counts as what becomes of it, in its own half only.
func TestTallyLater(t *testing.T) {
	var y tally
	at := time.Unix(1_000_000_000, 0)
	y.begin()
	later := y.later()
	y.add(Held, time.Second, at)
	y.add(Held, time.Second, at)
	y.add(Refused, time.Second, at)
	later(Served, 30*time.Millisecond, at)
	f := y.figures()
	if f.Sent != 3 || f.Served != 1 || f.Refused != 1 || f.Held != 1 || f.P50 < 29 || f.P50 > 31 {
		t.Errorf("%+v", f)
	}
	if got := y.at(at.Unix()).served; got != 1 {
		t.Errorf("%d served in that second", got)
	}
	y.begin()
	later(Served, time.Second, at)
	if f := y.figures(); f != (Figures{}) {
		t.Errorf("in the next half: %+v", f)
	}
}

func TestNotes(t *testing.T) {
	s := &Stage{notes: make(chan string, maxNotes)}
	s.Note()
	for i := range maxNotes + 1 {
		s.Note(fmt.Sprint(i))
	}
	if got := s.noted(); len(got) != maxNotes || got[maxNotes-1] != fmt.Sprint(maxNotes-1) {
		t.Errorf("%d notes", len(got))
	}
	if got := s.noted(); len(got) != 0 {
		t.Errorf("again: %v", got)
	}
	const text = "After 0.5 s the account is stopped."
	if got, want := noted(text, 24), "  · After 0.5 s the\n    account is stopped.\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

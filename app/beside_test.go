package app_test

import (
	"fmt"
	gosmtp "net/smtp"
	"slices"
	"strings"
	"time"

	"weir/identify"
	"weir/internal/testkit/keeper"
	"weir/internal/testkit/postfix"
	"weir/store"
)

// submit sends a message to a server, as a user who logs in.
func submit(server, user string, to ...string) error {
	local, _, _ := strings.Cut(user, "@")
	text := fmt.Sprintf("From: %s@example.org\r\nSubject: x\r\n%s: forged\r\n\r\nhello\r\n", local, identify.MarkHeader)
	return gosmtp.SendMail(server, gosmtp.PlainAuth("", user, "secret", "127.0.0.1"), local+"@example.org", to,
		[]byte(text))
}

// A beside is a weir beside a real mail server, which asks it about every message.
type beside struct {
	*post
	submission string // where users send
	world      *postfix.Sink
	log        func() string // of the server
}

func (b *beside) send(user string, to ...string) error { return submit(b.submission, user, to...) }

// waits waits until so many messages wait in weir.
func (b *beside) waits(n int) {
	b.t.Helper()
	if !keeper.Await(func() bool {
		s := b.status()
		return s.Recipients[store.Delayed]+s.Recipients[store.Held] == n
	}) {
		b.t.Fatalf("%+v, want %d to wait\n%s", b.status(), n, b.log())
	}
}

// reached waits until so many messages have arrived, and returns their recipients.
func (b *beside) reached(n int) (all []string) {
	b.t.Helper()
	for _, m := range b.world.Await(n) {
		all = append(all, m.To...)
	}
	slices.Sort(all)
	return all
}

// isAVirus has ann, who may write to one new person a minute, first send as somebody with a few to write to: her
// messages wait and come back to the server, and bob's pass. Then she sends as a virus does, until she is refused.
func (b *beside) isAVirus() (refused error) {
	b.t.Helper()
	if err := b.send("ann", "one@example.net"); err != nil {
		b.t.Fatal(err)
	}
	b.reached(1)
	for _, to := range []string{"two@example.net", `"odd one"@example.net`} {
		if err := b.send("ann", to); err != nil {
			b.t.Fatal(err)
		}
	}
	b.waits(2)
	if err := b.send("bob", "friend@example.net"); err != nil {
		b.t.Fatal(err)
	}
	if got := b.reached(2); !slices.Equal(got, []string{"friend@example.net", "one@example.net"}) {
		b.t.Errorf("%v", got)
	}
	b.runs(time.Minute)
	b.runs(time.Minute)
	b.reached(4)
	for _, m := range b.world.Mails()[2:] {
		if marks := m.Header(identify.MarkHeader); len(marks) != 0 {
			b.t.Errorf("marks went on: %v", marks)
		}
	}
	for i := range 30 {
		if refused = b.send("ann", fmt.Sprintf("victim%d@example.net", i)); refused != nil {
			break
		}
		b.waits(i + 1)
	}
	return refused
}

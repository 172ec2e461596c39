package demo

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net/http"
	"net/mail"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// How long the owner takes to read a notice: a part of the half or, where its end is open, long enough for a visitor to
// look at the page.
const (
	readLeast = 100 * time.Millisecond
	readMost  = 2 * time.Second
	readOpen  = round / 3
)

func (p *post) reading() time.Duration {
	if p.stage.length == 0 {
		return readOpen
	}
	return min(max(p.stage.length/4, readLeast), readMost)
}

// own is what the owner does: they write some mails while their account is abused, and act when they have read the
// notice.
func (p *post) own(ctx context.Context) Result {
	t := p.current()
	if t == nil {
		return Nothing
	}
	switch {
	case t.is(func(t *theft) bool { return t.taken >= mailOwnAt && !t.wrote }):
		return p.writeOwn(ctx, t)
	case t.is(func(t *theft) bool { return t.notice != nil && !t.acted && time.Since(t.told) > p.reading() }):
		p.act(ctx, t)
	case t.is(func(t *theft) bool { return t.answered && !t.over }):
		p.conclude(t)
	}
	return Nothing
}

var subjects = [mailOwn]string{"The minutes of our meeting", "Photos of the children"}

// writeOwn sends one mail of the owner.
func (p *post) writeOwn(ctx context.Context, t *theft) Result {
	l := p.newMessage(t.owner, subjects[len(t.own)], "As promised.", p.stranger("colleague"))
	r, _ := p.send(ctx, t.owner, l, &awaited{theft: t, stay: true, tell: p.tell[forOwner]})
	t.mu.Lock()
	defer t.mu.Unlock()
	if r == Held {
		t.own = append(t.own, l)
	}
	t.wrote = r != Held || len(t.own) == mailOwn
	if t.wrote && p.stage.AtWork() {
		p.stage.Note(fmt.Sprintf("%s, who knows of nothing, writes %d messages. They wait behind those of the thief.",
			t.owner.name, len(t.own)))
	}
	return r
}

// act is what the owner does about the notice: they change their password on the page, and answer.
func (p *post) act(ctx context.Context, t *theft) {
	t.mu.Lock()
	n, mine := t.notice, map[string]bool{}
	for _, l := range t.own {
		mine[l.subject] = true
	}
	t.acted = true
	t.mu.Unlock()
	fresh := rand.Text()
	if err := changePassword(ctx, n.link, t.owner.password, fresh); err != nil {
		p.stage.Note("The page does not do what it should: " + err.Error())
		return
	}
	t.trying.Lock() // who got in with the old one has left
	t.owner.password = fresh
	t.trying.Unlock()
	commands := n.commands(mine)
	l := &message{id: "answer." + rand.Text() + "@home.example", from: t.owner.contact, to: []string{n.replyTo},
		subject: "Re: " + n.subject, text: strings.Join(commands, "\n")}
	if err := submit(ctx, p.stage.MailAddr(), t.owner.name, fresh, l, func() {}); err != nil {
		p.stage.Note("The answer is not taken: " + err.Error())
		return
	}
	p.stage.Note(fmt.Sprintf("%s changes the password on that page, and answers the notice: %s", t.owner.name,
		strings.Join(commands, ", ")))
}

// conclude ends the story when what was released has arrived.
func (p *post) conclude(t *theft) {
	d := p.deeds(t)
	if arrived, _ := p.arrived(t); arrived < d.released {
		return
	}
	p.visitors.Add(int64(d.visitors))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	p.stage.Note(fmt.Sprintf("What %[1]s released has arrived, what the thief wrote is gone, and %[1]s can send again.",
		t.owner.name))
}

// hidden are the fields that make a form of the page genuine.
var hidden = regexp.MustCompile(`name="(form|token)" value="([^"]*)"`)

// changePassword fills in the form of the page, as a browser does.
func changePassword(ctx context.Context, page, old, fresh string) error {
	client := &http.Client{Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	_, _, text, err := ask(ctx, client, http.MethodGet, page, http.Header{}, nil)
	if err != nil {
		return err
	}
	form := url.Values{"do": {"password"}, "password": {old}, "new": {fresh}, "again": {fresh}}
	for _, field := range hidden.FindAllStringSubmatch(string(text), -1) {
		form.Set(field[1], field[2])
	}
	status, _, _, err := ask(ctx, client, http.MethodPost, page,
		http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, strings.NewReader(form.Encode()))
	if err == nil && status != http.StatusSeeOther {
		err = fmt.Errorf("status %d", status)
	}
	return err
}

// A notification is a mail of weir to an owner, as they read it.
type notification struct {
	answer  bool // to what the owner wrote; otherwise it says that the account is stopped
	subject string
	replyTo string
	link    string   // to their page
	held    []string // the subjects of what is held, numbered from 1
}

var (
	heldNumber  = regexp.MustCompile(`^ *([0-9]+)\. `)
	heldSubject = regexp.MustCompile(`^ +Subject: (.*)$`)
)

// readNotification reads a mail to an owner. It returns nil for one that needs no action.
func readNotification(m *mail.Message) *notification {
	n := &notification{subject: m.Header.Get("Subject"), answer: m.Header.Get("Auto-Submitted") == "auto-replied"}
	if n.answer {
		return n
	}
	reply, err := mail.ParseAddress(m.Header.Get("Reply-To"))
	if err != nil || !strings.Contains(n.subject, "on hold") {
		return nil
	}
	n.replyTo = reply.Address
	body := m.Body
	if m.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
		body = quotedprintable.NewReader(body)
	}
	lines := bufio.NewScanner(io.LimitReader(body, maxMessage))
	for lines.Scan() {
		line := lines.Text()
		switch bare := strings.TrimSpace(line); {
		case strings.HasPrefix(bare, "http://"):
			n.link = bare
		case heldNumber.MatchString(line):
			n.held = append(n.held, "")
		case heldSubject.MatchString(line) && len(n.held) > 0:
			n.held[len(n.held)-1] = heldSubject.FindStringSubmatch(line)[1]
		}
	}
	return n
}

// commands returns the owner's answer: their own mails are released, and all the rest deleted.
func (n *notification) commands(mine map[string]bool) []string {
	var release, remove []int
	for i, subject := range n.held {
		if mine[subject] {
			release = append(release, i+1)
		} else {
			remove = append(remove, i+1)
		}
	}
	var all []string
	if len(release) > 0 {
		all = append(all, "release "+ranges(release))
	}
	if len(remove) > 0 {
		all = append(all, "delete "+ranges(remove))
	}
	return append(all, "resume")
}

// ranges writes sorted numbers as people do: 1-3 5.
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(numbers[i])
		if j > i {
			part = fmt.Sprintf("%d-%d", numbers[i], numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, " ")
}

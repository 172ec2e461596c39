package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// How long the owner takes to read a notice: some of the half, or long enough for a visitor to look at the page where
// the end is open.
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

// own is what the owner does: they write some mails while their account is being abused, and act when they have read
// the notice.
func (p *post) own(ctx context.Context) Result {
	t := p.current()
	if t == nil {
		return Nothing
	}
	switch {
	case t.isHisTurn():
		return p.writeOwn(ctx, t)
	case t.toldFor(time.Now()) > p.reading():
		p.act(ctx, t)
	case t.is(func(t *theft) bool { return t.answered && !t.over }):
		p.conclude(t)
	}
	return Nothing
}

// isHisTurn reports whether the owner writes now.
func (t *theft) isHisTurn() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken >= mailOwnAt && !t.wrote
}

// toldFor returns how long the owner has known, while they have done nothing yet.
func (t *theft) toldFor(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.notice == nil || t.acted {
		return 0
	}
	return now.Sub(t.told)
}

// subjects of what the owner writes.
var subjects = [mailOwn]string{"The minutes of our meeting", "Photos of the children"}

// writeOwn: the owner writes one mail of their own.
func (p *post) writeOwn(ctx context.Context, t *theft) Result {
	l := p.newLetter(t.owner, subjects[len(t.own)], "As promised.", p.stranger("colleague"))
	r, _ := p.send(ctx, t.owner, l, &awaited{theft: t, stay: true, tell: p.tell[forOwner]})
	t.mu.Lock()
	defer t.mu.Unlock()
	if r == Held {
		t.own = append(t.own, l)
	}
	t.wrote = r != Held || len(t.own) == mailOwn
	if t.wrote && p.stage.AtWork() {
		p.stage.Note(fmt.Sprintf("%s, who knows of nothing, writes %d mails. They wait behind those of the thief.",
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
	l := &letter{id: "answer." + rand.Text() + "@home.example", from: t.owner.contact, to: []string{n.replyTo},
		subject: "Re: " + n.subject, text: strings.Join(commands, "\n")}
	if err := submit(ctx, p.stage.MailAddr(), t.owner.name, fresh, l, func() {}); err != nil {
		p.stage.Note("The answer is not taken: " + err.Error())
		return
	}
	p.stage.Note(fmt.Sprintf("%s changes the password on that page, and answers the notice: %s", t.owner.name,
		strings.Join(commands, ", ")))
}

// conclude tells how it ended, when what was released has arrived.
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
	_, text, err := fetch(ctx, client, page, nil)
	if err != nil {
		return err
	}
	form := url.Values{"do": {"password"}, "password": {old}, "new": {fresh}, "again": {fresh}}
	for _, field := range hidden.FindAllStringSubmatch(text, -1) {
		form.Set(field[1], field[2])
	}
	status, _, err := fetch(ctx, client, page, form)
	if err == nil && status != http.StatusSeeOther {
		err = fmt.Errorf("status %d", status)
	}
	return err
}

// fetch asks for a page, with a form or without.
func fetch(ctx context.Context, client *http.Client, page string, form url.Values) (status int, text string,
	err error) {
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, page, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, "", err
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxLetter))
	return resp.StatusCode, string(body), err
}

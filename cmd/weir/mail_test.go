package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"weir/console"
	"weir/internal/testkit/needs"
	"weir/mail/spool"
	"weir/store"
)

// A postOffice is a weir with mail, as far as commands see it.
type postOffice struct {
	console.Backend
	mu      sync.Mutex
	mails   []store.Queued
	users   map[string]*console.UserView
	secrets map[string]string
	log     []store.Entry
	reach   []console.ReachView
}

var (
	_ console.Mail  = (*postOffice)(nil)
	_ console.Reach = (*postOffice)(nil)
)

// noon is when everything happened.
var noon = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

func newPostOffice() *postOffice {
	p := &postOffice{users: map[string]*console.UserView{}, secrets: map[string]string{}, reach: newReach()}
	var ids store.MailIDs
	for i := range 3 {
		m := store.Queued{Message: store.Message{ID: ids.Next(noon.Add(time.Duration(i) * time.Second)), Gate: ":587",
			User: "ann", Sender: "ann@example.org",
			Subject: fmt.Sprintf("news %d\x1b[2J", i), Received: noon.Add(time.Duration(i) * time.Second),
			Size: 4096 * int64(i+1)}}
		for n := range i + 1 {
			state := []store.State{store.Held, store.Delayed, store.Withheld}[n]
			m.To = append(m.To, store.Addressee{Mail: m.ID, Number: n, Address: fmt.Sprintf("friend%d@example.net", n),
				State: state, Attempt: n, Status: "451 later"})
		}
		p.mails = append(p.mails, m)
	}
	return p
}

func (p *postOffice) Mail() console.Mail   { return p }
func (p *postOffice) Reach() console.Reach { return p }

func (p *postOffice) Status() console.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := console.Status{Version: "test", State: "serving", Ready: true,
		Mail: &console.MailStatus{Messages: len(p.mails), Oldest: noon, Delivered: 7,
			Recipients: map[store.State]int{}}}
	for _, m := range p.mails {
		for _, a := range m.To {
			s.Mail.Recipients[a.State]++
		}
	}
	for _, u := range p.users {
		if u.Stopped() {
			s.Mail.Stopped++
		}
	}
	for _, v := range p.reach {
		if v.Flagged && !v.Shadow {
			s.Mail.Flagged++
		}
	}
	return s
}

func (p *postOffice) note(by, what, user, text string) {
	p.log = append(p.log, store.Entry{ID: int64(len(p.log) + 1), At: noon, By: by, What: what, User: user, Text: text})
}

func (p *postOffice) Queue(_ context.Context, q store.MessageQuery, limit int) (found []store.Queued, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.mails {
		if len(found) < limit && m.ID > q.After && (q.User == "" || q.User == m.User) &&
			(q.State == 0 || slices.ContainsFunc(m.To, func(a store.Addressee) bool { return a.State == q.State })) {
			found = append(found, m)
		}
	}
	return found, nil
}

func (p *postOffice) ShowMail(_ context.Context, id store.MailID) (store.Queued, string, string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.mails {
		if m.ID == id {
			return m, "Subject: news\r\n\tfolded \x1b[31m\r\n", "", nil
		}
	}
	return store.Queued{}, "", "", store.ErrNotFound
}

func (p *postOffice) take(by, what string, o console.MailOrder) (r console.MailResult, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := slices.Clone(o.Mails)
	if o.All {
		for _, m := range p.mails {
			if m.User == o.User {
				ids = append(ids, m.ID)
			}
		}
	}
	for _, id := range ids {
		i := slices.IndexFunc(p.mails, func(m store.Queued) bool { return m.ID == id })
		if i < 0 {
			r.Missing = append(r.Missing, id)
			continue
		}
		r.Mails, r.Recipients = r.Mails+1, r.Recipients+len(p.mails[i].To)
		p.mails = slices.Delete(p.mails, i, i+1)
	}
	p.note(by, what, o.User, "")
	return r, nil
}

func (p *postOffice) Release(_ context.Context, by string, o console.MailOrder) (console.MailResult, error) {
	return p.take(by, "released", o)
}

func (p *postOffice) Delete(_ context.Context, by string, o console.MailOrder) (console.MailResult, error) {
	return p.take(by, "deleted", o)
}

func (p *postOffice) Retry(_ context.Context, by string, ids []store.MailID) (console.MailResult, error) {
	return console.MailResult{Mails: len(ids), Recipients: len(ids)}, nil
}

func (p *postOffice) Users(_ context.Context, q console.UserQuery) (page console.UserPage, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.users {
		if u.Name > q.After && (!q.Stopped || u.Stopped()) {
			page.Users = append(page.Users, *u)
		}
	}
	slices.SortFunc(page.Users, func(a, b console.UserView) int { return strings.Compare(a.Name, b.Name) })
	if len(page.Users) > q.Limit {
		page.Users = page.Users[:q.Limit]
		page.Next = page.Users[q.Limit-1].Name
	}
	return page, nil
}

func (p *postOffice) User(_ context.Context, name string) (console.UserView, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.user(name)
}

func (p *postOffice) UserHistory(_ context.Context, name string) (console.UserHistory, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.user(name); err != nil {
		return console.UserHistory{}, err
	}
	at := []int64{noon.UnixMilli(), noon.Add(time.Minute).UnixMilli()}
	return console.UserHistory{User: name, At: noon.Add(time.Minute), Since: noon, Throttles: []console.Series{
		{Name: "outgoing", Kind: "mail", Unit: "recipients", Seconds: 10, At: at, Columns: map[console.Measure]console.Values{
			console.Waiting: {3, 25}, console.StopAbove: {20, 20}, console.Slack: {0, 1}, console.MSlack: {7, 0},
			console.WorkingSet: {2, 4}, console.UserStopped: {0, 1}}},
		{Name: "contacts", Kind: "reach", Unit: "recipients", Seconds: 10, At: at, Columns: map[console.Measure]console.Values{
			console.NewInHour: {12.34, 60}, console.HourLimit: {float32(math.NaN()), 50}, console.UserFlagged: {0, 1}}},
	}}, nil
}

func (p *postOffice) user(name string) (console.UserView, error) {
	if u := p.users[name]; u != nil {
		return *u, nil
	}
	return console.UserView{}, store.ErrNotFound
}

func (p *postOffice) AddUser(_ context.Context, by string, u console.NewUser) (console.UserView, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users[u.Name] != nil {
		return console.UserView{}, store.ErrExists
	}
	if u.Dry {
		return console.UserView{User: store.User{Name: u.Name}}, nil
	}
	p.users[u.Name] = &console.UserView{User: store.User{Name: u.Name, Contact: u.Contact, Senders: u.Senders,
		Language: u.Language, Made: noon, Changed: noon}, LogIn: u.Password != "",
		Throttles: []spool.Standing{{Throttle: "outgoing", Slack: 1, MSlack: 15, Limits: "rate=1/m stop=20"}}}
	p.secrets[u.Name] = u.Password
	p.note(by, "added", u.Name, "")
	return *p.users[u.Name], nil
}

func (p *postOffice) change(name string, f func(*console.UserView) error) (console.UserView, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.users[name]
	if u == nil {
		return console.UserView{}, store.ErrNotFound
	}
	err := f(u)
	return *u, err
}

func (p *postOffice) SetUser(_ context.Context, by string, c console.UserChange) (console.UserView, error) {
	return p.change(c.Name, func(u *console.UserView) error {
		if c.Dry {
			return nil
		}
		for key := range c.Limits {
			if key != "stop" && key != "rate" && key != "exempt" {
				return console.Invalid(fmt.Sprintf("%s: unknown; did you mean stop?", key))
			}
			u.Limits = strings.TrimSpace(u.Limits + " " + key + "=" + c.Limits[key])
		}
		if c.Contact != nil {
			u.Contact = *c.Contact
		}
		if c.Language != nil {
			u.Language = *c.Language
		}
		if c.Senders != nil {
			u.Senders = *c.Senders
		}
		u.Senders = append(u.Senders, c.AddSenders...)
		u.Senders = slices.DeleteFunc(u.Senders, func(s string) bool { return slices.Contains(c.RemoveSenders, s) })
		if c.Disabled != nil {
			u.Disabled = *c.Disabled
		}
		return nil
	})
}

func (p *postOffice) Passwd(_ context.Context, by, name, password string) error {
	_, err := p.change(name, func(u *console.UserView) error {
		p.secrets[name], u.LogIn = password, true
		return nil
	})
	return err
}

func (p *postOffice) RemoveUser(_ context.Context, by, name string) error {
	_, err := p.change(name, func(*console.UserView) error {
		delete(p.users, name)
		return nil
	})
	return err
}

func (p *postOffice) StopUser(_ context.Context, by, name, why string) (console.UserView, error) {
	return p.change(name, func(u *console.UserView) error {
		u.Throttles[0].Stopped, u.Throttles[0].Since = true, noon
		p.note(by, "stopped", name, why)
		return nil
	})
}

func (p *postOffice) ResumeUser(_ context.Context, by, name string, slow bool) (console.UserView, error) {
	return p.change(name, func(u *console.UserView) error {
		if !u.Stopped() {
			return console.Rejected(fmt.Sprintf("%s is not stopped", name))
		}
		u.Throttles[0].Stopped, u.Throttles[0].Since, u.Throttles[0].Slow = false, time.Time{}, slow
		return nil
	})
}

func (p *postOffice) Entries(_ context.Context, q store.EntryQuery, limit int) (found []store.Entry, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range slices.Backward(p.log) {
		if len(found) < limit && (q.Before == 0 || e.ID < q.Before) {
			found = append(found, e)
		}
	}
	return found, nil
}

func (p *postOffice) Log(context.Context, store.Entry) error { return nil }

func (p *postOffice) Backup(ctx context.Context, folder string, progress func(done, total int64)) error {
	if entries, err := os.ReadDir(folder); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty: %w", folder, store.ErrInvalid)
	}
	for i := range int64(1000) {
		progress(i, 1000)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "weir.db"), []byte("copy"), 0o600)
}

// TestMailScripts runs the commands about mail against a control socket, with a terminal where they ask.
func TestMailScripts(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/mail",
		Setup: func(e *testscript.Env) error {
			short, err := os.MkdirTemp("", "weir")
			if err != nil {
				return err
			}
			e.Defer(func() { os.RemoveAll(short) })
			office := newPostOffice()
			path := filepath.Join(short, "weir.sock")
			c := console.NewControl(path, office, console.NewMetrics("test"), slog.New(slog.DiscardHandler))
			if err := c.Listen(); err != nil {
				return err
			}
			c.Start()
			e.Defer(func() { c.Stop(context.Background()) })
			e.Values["office"] = office
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else each command of a race build takes a second to end
			e.Setenv("GOGC", "off")                 // a third of the time of a command goes into collecting its own flags
			e.Setenv("TZ", "UTC")
			e.Setenv("WEIR_CONTROL", path)
			e.Setenv("BOB", "bob\u202e")
			for i, m := range office.mails {
				e.Setenv(fmt.Sprintf("MAIL%d", i), m.ID.String())
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status,
			"password": func(ts *testscript.TestScript, _ bool, args []string) {
				office := ts.Value("office").(*postOffice)
				office.mu.Lock()
				defer office.mu.Unlock()
				if got := office.secrets[args[0]]; got != args[1] {
					ts.Fatalf("the password of %s is %q, want %q", args[0], got, args[1])
				}
			},
		},
	})
}

// FuzzUserChanges: whatever is typed is read, or refused.
func FuzzUserChanges(f *testing.F) {
	for _, seed := range []string{"stop=50 rate=5/m", "senders=a,b", "senders+=c senders-=d", "contact=",
		"disabled=maybe", "=", "a=b=c", "password=x", "stop=1 stop=2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		typed := strings.Fields(text)
		c, err := changeOf("ann", typed)
		if err != nil {
			return
		}
		given := len(c.Limits)
		for _, set := range []bool{c.Contact != nil, c.Senders != nil, c.AddSenders != nil, c.RemoveSenders != nil,
			c.Disabled != nil, c.Language != nil} {
			if set {
				given++
			}
		}
		if given != len(typed) {
			t.Errorf("%q: %d changes of %d: %+v", text, given, len(typed), c)
		}
		for key := range c.Limits {
			if !slices.ContainsFunc(typed, func(s string) bool { return strings.HasPrefix(s, key+"=") }) {
				t.Errorf("%q: made up %q", text, key)
			}
		}
	})
}

func TestPasswordIn(t *testing.T) {
	long := strings.Repeat("x", console.MaxPassword)
	for text, want := range map[string]string{"secret\n": "secret", "secret\r\n": "secret", " a b ": " a b ",
		long: long, long + "\r\n": long} {
		if got, err := passwordIn(strings.NewReader(text)); err != nil || got != want {
			t.Errorf("%.20q: %.20q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"": "empty", "\n": "empty", "a\nb\n": "one line",
		long + "x": "at most 1024", long + "x\n": "at most 1024", long + "xxxxxx": "at most 1024"} {
		if _, err := passwordIn(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
}

// TestBackupBar: how far a backup is is seen on a terminal only.
func TestBackupBar(t *testing.T) {
	var errs bytes.Buffer
	b := (&terminal{err: &errs}).bar("backup")
	b.show(1, 2)
	b.clear()
	if b != nil || errs.Len() > 0 {
		t.Errorf("in a pipe: %q", &errs)
	}
}

func (p *postOffice) Find(_ context.Context, f console.MailFilter, after store.MailID, limit int) (found []store.Queued,
	_ store.MailID, _ error,
) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.mails {
		if len(found) < limit && m.ID > after && (f.User == "" || f.User == m.User) &&
			strings.Contains(m.Sender, f.Sender) && strings.Contains(m.Subject, f.Subject) {
			found = append(found, m)
		}
	}
	return found, 0, nil
}

// Bulk acts on one message in each part.
func (p *postOffice) Bulk(ctx context.Context, by string, f console.MailFilter, o console.BulkOrder) (
	r console.BulkResult, err error,
) {
	found, _, err := p.Find(ctx, f, o.After, 2)
	if err != nil || len(found) == 0 {
		return r, err
	}
	r.Mails, r.Recipients = 1, len(found[0].To)
	if len(found) > 1 {
		r.Next, r.UpTo = found[0].ID, found[1].ID
	}
	if !o.Dry && o.Act != "retry" {
		_, err = p.take(by, o.Act+"d", console.MailOrder{Mails: []store.MailID{found[0].ID}})
	}
	return r, err
}

func (p *postOffice) Track(ctx context.Context, q console.TrackQuery, limit int) ([]store.Queued, []console.MailStep,
	error,
) {
	if q.Recipient == "nobody@example.net" {
		return nil, nil, nil
	}
	found, _, err := p.Find(ctx, console.MailFilter{}, 0, limit)
	return found[:1], []console.MailStep{{At: noon, Mail: found[0].ID, Address: "friend0@example.net", Result: "deferred",
		Status: "451 later"}}, err
}

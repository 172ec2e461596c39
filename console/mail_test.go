package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/user"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
	"weir/mail/spool"
	"weir/store"
)

// mailed is a weir with mail, which notes what it is asked and answers what the test wants.
type mailed struct {
	bulkState
	*backend
	status *MailStatus
	none   bool // no mail gate
	err    error

	asked  string
	by     string
	query  store.MessageQuery
	limit  int
	order  MailOrder
	users  UserQuery
	added  NewUser
	change UserChange
	before int64

	queue   []store.Queued
	text    string
	header  string
	entries []store.Entry
	copy    func(ctx context.Context, folder string, progress func(done, total int64)) error
}

// Mail is what a weir without mail has.
func (b *backend) Mail() Mail { return nil }

func (m *mailed) Mail() Mail {
	if m.none {
		return nil
	}
	return m
}

func (m *mailed) Status() Status {
	s := m.backend.Status()
	s.Mail = m.status
	return s
}

func (m *mailed) note(what, by string) error { m.asked, m.by = what, by; return m.err }

func (m *mailed) Queue(_ context.Context, q store.MessageQuery, limit int) ([]store.Queued, error) {
	m.query, m.limit = q, limit
	return m.queue[:min(limit, len(m.queue))], m.err
}
func (m *mailed) ShowMail(_ context.Context, id store.MailID) (store.Queued, string, string, error) {
	if len(m.queue) == 0 {
		return store.Queued{}, "", "", fmt.Errorf("mail %s: %w", id, store.ErrNotFound)
	}
	return m.queue[0], m.header, m.text, m.err
}
func (m *mailed) Release(_ context.Context, by string, o MailOrder) (MailResult, error) {
	m.order = o
	return MailResult{Mails: len(o.Mails), Recipients: 3}, m.note("release", by)
}
func (m *mailed) Delete(_ context.Context, by string, o MailOrder) (MailResult, error) {
	m.order = o
	return MailResult{Mails: len(o.Mails), Missing: o.Mails}, m.note("delete", by)
}
func (m *mailed) Retry(_ context.Context, by string, ids []store.MailID) (MailResult, error) {
	m.order = MailOrder{Mails: ids}
	return MailResult{Mails: len(ids)}, m.note("retry", by)
}
func (m *mailed) Users(_ context.Context, q UserQuery) (UserPage, error) {
	m.users = q
	return UserPage{Next: "ann"}, m.err
}
func (m *mailed) User(_ context.Context, name string) (UserView, error) {
	return UserView{User: store.User{Name: name, Password: "$argon2id$secret"},
		Throttles: []spool.Standing{{Throttle: "outgoing", Stopped: true}}}, m.err
}
func (m *mailed) UserHistory(_ context.Context, name string) (UserHistory, error) {
	return UserHistory{User: name, Throttles: []Series{}}, m.err
}
func (m *mailed) AddUser(_ context.Context, by string, u NewUser) (UserView, error) {
	m.added = u
	return UserView{User: store.User{Name: u.Name}}, m.note("add", by)
}
func (m *mailed) SetUser(_ context.Context, by string, c UserChange) (UserView, error) {
	m.change = c
	return UserView{User: store.User{Name: c.Name}}, m.note("set", by)
}
func (m *mailed) Passwd(_ context.Context, by, name, password string) error {
	return m.note("passwd "+name+" "+password, by)
}
func (m *mailed) RemoveUser(_ context.Context, by, name string) error {
	return m.note("remove "+name, by)
}
func (m *mailed) StopUser(_ context.Context, by, name, why string) (UserView, error) {
	return UserView{User: store.User{Name: name}}, m.note("stop "+name+" "+why, by)
}
func (m *mailed) ResumeUser(_ context.Context, by, name string, slow bool) (UserView, error) {
	return UserView{User: store.User{Name: name}}, m.note(fmt.Sprint("resume ", name, " ", slow), by)
}
func (m *mailed) Entries(_ context.Context, q store.EntryQuery, limit int) ([]store.Entry, error) {
	m.before, m.limit = q.Before, limit
	return m.entries[:min(limit, len(m.entries))], m.err
}
func (m *mailed) Backup(ctx context.Context, folder string, progress func(done, total int64)) error {
	return m.copy(ctx, folder, progress)
}

// controlledMail starts a control socket of a weir with mail.
func controlledMail(t *testing.T) (*mailed, *Client) {
	t.Helper()
	m := &mailed{backend: newBackend()}
	path := socketPath(t)
	control(t, path, m)
	return m, NewClient(path)
}

// me is who asks in a test, as the kernel knows them.
func me() string {
	if u, err := user.Current(); err == nil && runtime.GOOS == "linux" {
		return u.Username
	}
	return anOperator
}

func message(id store.MailID, recipients int) store.Queued {
	q := store.Queued{Message: store.Message{ID: id, User: "ann", Subject: "news", Received: time.Unix(1e9, 0).UTC()}}
	for n := range recipients {
		q.To = append(q.To, store.Addressee{Mail: id, Number: n, Address: "a@example.org", State: store.Held})
	}
	return q
}

func TestQueueOverTheSocket(t *testing.T) {
	m, c := controlledMail(t)
	ctx := t.Context()
	m.queue = []store.Queued{message(1, 1), message(2, 3)}
	q := store.MessageQuery{User: "a b&c=d/../é", State: store.Delayed, After: 7}
	page, err := QueueListCall.Ask(ctx, c, MailQuery{MailFilter{User: q.User, State: q.State}, q.After, 2})
	if err != nil || m.query != q || m.limit != 2 || len(page.Mails) != 2 || page.Next != 2 ||
		!reflect.DeepEqual(page.Mails[1].Queued, m.queue[1]) {
		t.Errorf("%+v of %+v, %v", page, m.query, err)
	}
	if page, err := QueueListCall.Ask(ctx, c, MailQuery{Limit: 0}); err != nil || m.query != (store.MessageQuery{}) ||
		m.limit != MaxMailPage || page.Next != 0 {
		t.Errorf("%+v of %+v, %v", page, m.query, err)
	}
	for _, limit := range []int{-1, MaxMailPage + 1} {
		if _, err := QueueListCall.Ask(ctx, c, MailQuery{Limit: limit}); code(err) != http.StatusBadRequest {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	for _, query := range []string{"state=late", "after=x", "user=" + strings.Repeat("u", store.MaxAccount+1),
		"user=%00", "limit=x"} {
		if err := c.call(ctx, http.MethodGet, "/api/v1/mail?"+query, nil, nil); code(err) != http.StatusBadRequest ||
			strings.Contains(err.Error(), "to store") {
			t.Errorf("%.20s: %v", query, err)
		}
	}

	m.header = strings.Repeat("x", MaxHeader+1)
	v, err := QueueShowCall.Ask(ctx, c, MailName{ID: 1})
	if err != nil || v.ID != 1 || len(v.Header) != MaxHeader || v.More != 0 {
		t.Errorf("%+v, %v", v.MailLine, err)
	}
	m.queue = nil
	if _, err := QueueShowCall.Ask(ctx, c, MailName{ID: 5}); code(err) != http.StatusNotFound ||
		err.Error() != "there is no message 0000000000005: it was delivered or deleted, or never existed" {
		t.Error(err)
	}

	for what, call := range map[string]*CallOf[MailOrder, MailResult]{"release": QueueReleaseCall,
		"delete": QueueDeleteCall, "retry": QueueRetryCall} {
		o := MailOrder{Mails: []store.MailID{3, 4}}
		r, err := call.Ask(ctx, c, o)
		if err != nil || m.asked != what || m.by != me() || r.Mails != 2 || !reflect.DeepEqual(m.order, o) {
			t.Errorf("%s: %+v of %+v by %q, %v", what, r, m.order, m.by, err)
		}
		for _, bad := range []MailOrder{{}, {All: true}, {All: true, User: "ann", Mails: o.Mails},
			{User: "ann", Mails: o.Mails}} {
			if _, err := call.Ask(ctx, c, bad); code(err) != http.StatusBadRequest {
				t.Errorf("%s %+v: %v", what, bad, err)
			}
		}
		_, err = call.Ask(ctx, c, MailOrder{User: "ann", All: true})
		if all := what != "retry"; all && (err != nil || !m.order.All) || !all && code(err) != http.StatusBadRequest {
			t.Errorf("%s all: %v", what, err)
		}
	}
	many := make([]store.MailID, 2*MaxMailOrder+1)
	if r, err := c.Order(ctx, QueueDeleteCall, MailOrder{Mails: many}); err != nil || r.Mails != len(many) ||
		len(r.Missing) != len(many) || len(m.order.Mails) != 1 {
		t.Errorf("many: %d, %v", r.Mails, err)
	}
	if err := c.call(ctx, http.MethodPost, "/api/v1/mail/delete", MailOrder{Mails: many[:MaxMailOrder+1]},
		nil); code(err) != http.StatusBadRequest {
		t.Errorf("one too many: %v", err)
	}
}

// TestQueuePagesAreBounded: mails to very many make shorter pages, and nothing is left out that is not said.
func TestQueuePagesAreBounded(t *testing.T) {
	found := []store.Queued{message(1, MaxMailRecipients-1), message(2, 1), message(3, 1),
		message(4, MaxMailRecipients+5)}
	p := pageOf(found, 10)
	if len(p.Mails) != 2 || p.Next != 2 {
		t.Errorf("%d mails, next %s", len(p.Mails), p.Next)
	}
	p = pageOf(found[2:], 10)
	if len(p.Mails) != 1 || p.Next != 3 {
		t.Errorf("%d mails, next %s", len(p.Mails), p.Next)
	}
	p = pageOf(found[3:], 10)
	if len(p.Mails) != 1 || p.Next != 0 || len(p.Mails[0].To) != MaxMailRecipients || p.Mails[0].More != 5 {
		t.Errorf("%d mails, next %s", len(p.Mails), p.Next)
	}
	if p := pageOf(nil, 10); p.Mails == nil || p.Next != 0 {
		t.Errorf("%+v", p)
	}
}

func TestUsersOverTheSocket(t *testing.T) {
	m, c := controlledMail(t)
	ctx := t.Context()
	q := UserQuery{After: "a/../b&c", Stopped: true, Limit: 5}
	if p, err := UserListCall.Ask(ctx, c, q); err != nil || m.users != q || p.Next != "ann" || p.Users == nil {
		t.Errorf("%+v of %+v, %v", p, m.users, err)
	}
	if _, err := UserListCall.Ask(ctx, c, UserQuery{}); err != nil || m.users != (UserQuery{Limit: MaxUserPage}) {
		t.Errorf("%+v, %v", m.users, err)
	}
	const name = "../a b&c=d/é"
	if u, err := UserShowCall.Ask(ctx, c, Name{Name: name}); err != nil || u.Name != name || !u.Stopped() ||
		u.Password != "" {
		t.Errorf("%+v, %v", u, err)
	}
	n := NewUser{Name: name, Password: "open sesame", Contact: "a@home.example", Senders: []string{"a@example.org"},
		Language: "de", Limits: map[string]string{"stop": "50"}}
	if u, err := UserAddCall.Ask(ctx, c, n); err != nil || u.Name != name || m.by != me() ||
		!reflect.DeepEqual(m.added, n) {
		t.Errorf("%+v by %q, %v", m.added, m.by, err)
	}
	contact, senders, off, language := "", []string{}, true, "en"
	change := UserChange{Name: name, Contact: &contact, Language: &language, Senders: &senders, AddSenders: []string{"b@example.org"},
		Limits: map[string]string{"stop": ""}, Disabled: &off}
	if _, err := UserSetCall.Ask(ctx, c, change); err != nil || !reflect.DeepEqual(m.change, change) || m.by != me() {
		t.Errorf("%+v, %v", m.change, err)
	}
	if _, err := UserPasswdCall.Ask(ctx, c, UserPassword{Name: name, Password: "x y"}); err != nil ||
		m.asked != "passwd "+name+" x y" {
		t.Errorf("%q, %v", m.asked, err)
	}
	if _, err := UserStopCall.Ask(ctx, c, UserStop{Name: name, Why: "spam"}); err != nil || m.asked != "stop "+name+" spam" {
		t.Errorf("%q, %v", m.asked, err)
	}
	if _, err := UserResumeCall.Ask(ctx, c, UserResume{Name: name, Slow: true}); err != nil || m.asked != "resume "+name+" true" {
		t.Errorf("%q, %v", m.asked, err)
	}
	if _, err := UserRemoveCall.Ask(ctx, c, Name{Name: name}); err != nil || m.asked != "remove "+name {
		t.Errorf("%q, %v", m.asked, err)
	}

	// What cannot be is not asked for.
	m.asked = ""
	long := strings.Repeat("x", MaxPassword+1)
	for what, err := range map[string]error{
		"no name":       second(UserAddCall.Ask(ctx, c, NewUser{})),
		"long name":     second(UserShowCall.Ask(ctx, c, Name{Name: strings.Repeat("u", store.MaxAccount+1)})),
		"two lines":     second(UserStopCall.Ask(ctx, c, UserStop{Name: "a\nb"})),
		"long password": second(UserAddCall.Ask(ctx, c, NewUser{Name: "a", Password: long})),
		"empty":         second(UserPasswdCall.Ask(ctx, c, UserPassword{Name: "a", Password: ""})),
		"longer":        second(UserPasswdCall.Ask(ctx, c, UserPassword{Name: "a", Password: long})),
		"language":      second(UserAddCall.Ask(ctx, c, NewUser{Name: "a", Language: "xx"})),
		"contact":       second(UserAddCall.Ask(ctx, c, NewUser{Name: "a", Contact: "a@b\r\nBcc: c@d"})),
		"senders":       second(UserAddCall.Ask(ctx, c, NewUser{Name: "a", Senders: make([]string, maxSenders+1)})),
		"limits":        second(UserSetCall.Ask(ctx, c, UserChange{Name: "a", Limits: map[string]string{"": "x"}})),
		"why":           second(UserStopCall.Ask(ctx, c, UserStop{Name: "a", Why: strings.Repeat("y", store.MaxReason+1)})),
	} {
		if code(err) != http.StatusBadRequest || m.asked != "" {
			t.Errorf("%s: %v, asked %q", what, err, m.asked)
		}
		if err != nil && strings.Contains(err.Error(), long) {
			t.Errorf("%s: tells the password", what)
		}
	}

	// What the store says is understood.
	for _, test := range []struct {
		err  error
		code int
		text string
	}{
		{fmt.Errorf("user: %w", store.ErrNotFound), 404, `there is no user "ann"`},
		{fmt.Errorf("the contact is no address: %w", store.ErrInvalid), 400, "the contact is no address"},
		{fmt.Errorf("senders of 9000 bytes: %w", store.ErrTooLarge), 400, "senders of 9000 bytes"},
		{store.ErrFull, 500, store.ErrFull.Error()},
		{Rejected("he is not stopped"), 409, "he is not stopped"},
	} {
		m.err = test.err
		if _, err := UserResumeCall.Ask(ctx, c,
			UserResume{Name: "ann"}); code(err) != test.code || err.Error() != test.text {
			t.Errorf("%v: %d %v", test.err, code(err), err)
		}
	}
	m.err = fmt.Errorf("user: %w", store.ErrExists)
	if _, err := UserAddCall.Ask(ctx, c, NewUser{Name: "ann"}); code(err) != 409 ||
		err.Error() != `there is a user "ann" already` {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestAuditOverTheSocket(t *testing.T) {
	m, c := controlledMail(t)
	m.entries = []store.Entry{{ID: 9, By: "root", What: "stopped", User: "ann", At: time.Unix(1e9, 0).UTC()},
		{ID: 8, What: "ambiguous", Mail: 5, At: time.Unix(1e9, 0).UTC()}}
	p, err := AuditListCall.Ask(t.Context(), c, AuditQuery{Before: 12, Limit: 2})
	if err != nil || m.before != 12 || !reflect.DeepEqual(p, AuditPage{m.entries, 8}) {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := AuditListCall.Ask(t.Context(), c, AuditQuery{}); err != nil || m.before != 0 ||
		m.limit != MaxAuditPage ||
		p.Next != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, query := range []string{"before=-1", "before=x", "limit=-1", "limit=2001"} {
		if err := c.call(t.Context(), http.MethodGet, "/api/v1/audit?"+query, nil,
			nil); code(err) != http.StatusBadRequest {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// TestNoMailGate: every command about mail says the same where there is none.
func TestNoMailGate(t *testing.T) {
	m, c := controlledMail(t)
	m.none = true
	plain := socketPath(t)
	control(t, plain, newBackend())
	for _, c := range []*Client{c, NewClient(plain)} {
		for what, err := range map[string]error{
			"queue":   second(QueueListCall.Ask(t.Context(), c, MailQuery{Limit: 0})),
			"show":    second(QueueShowCall.Ask(t.Context(), c, MailName{ID: 1})),
			"release": second(QueueReleaseCall.Ask(t.Context(), c, MailOrder{Mails: []store.MailID{1}})),
			"users":   second(UserListCall.Ask(t.Context(), c, UserQuery{})),
			"stop":    second(UserStopCall.Ask(t.Context(), c, UserStop{Name: "ann"})),
		} {
			if code(err) != http.StatusNotFound || !strings.HasPrefix(err.Error(), "there is no mail gate") {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

func TestBackupOverTheSocket(t *testing.T) {
	m, c := controlledMail(t)
	folder := t.TempDir() + "/a/../b"
	var lines int
	var done, of int64
	count := func(d, n int64) { lines++; done, of = d, n }
	m.copy = func(_ context.Context, folder string, progress func(done, total int64)) error {
		if strings.Contains(folder, "..") {
			t.Error(folder)
		}
		for i := range int64(100_001) {
			progress(i, 100_000)
		}
		return m.err
	}
	if err := c.Backup(t.Context(), folder, count); err != nil || done != 100_000 || of != 100_000 ||
		lines > backupLines+1 {
		t.Errorf("%d of %d in %d lines, %v", done, of, lines, err)
	}
	m.err = fmt.Errorf("weir.db: %w", store.ErrFull)
	if err := c.Backup(t.Context(), folder, count); err == nil || err.Error() != m.err.Error() {
		t.Error(err)
	}
	m.copy = func(context.Context, string, func(done, total int64)) error {
		return fmt.Errorf("the folder is not empty: %w", store.ErrInvalid)
	}
	if err := c.Backup(t.Context(), folder, count); code(err) != 400 || err.Error() != "the folder is not empty" {
		t.Error(err)
	}
	if err := c.Backup(t.Context(), "here", count); code(err) != 400 {
		t.Error(err)
	}
	if err := c.call(t.Context(), http.MethodPost, "/api/v1/backup", map[string]string{"fodler": "x"},
		nil); code(err) != 400 {
		t.Error(err)
	}
}

// TestBackupEnds: one at a time, and no longer than somebody waits for it, or weir runs.
func TestBackupEnds(t *testing.T) {
	for _, left := range []bool{true, false} {
		t.Run(fmt.Sprint("left=", left), func(t *testing.T) {
			m := &mailed{backend: newBackend()}
			path := socketPath(t)
			server := control(t, path, m)
			c := NewClient(path)
			begun, ended := make(chan struct{}), make(chan error, 1)
			m.copy = func(ctx context.Context, _ string, progress func(done, total int64)) error {
				progress(1, 2)
				close(begun)
				<-ctx.Done()
				ended <- ctx.Err()
				return ctx.Err()
			}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			result := make(chan error, 1)
			go func() { result <- c.Backup(ctx, t.TempDir(), func(_, _ int64) {}) }()
			<-begun
			if err := c.Backup(t.Context(), t.TempDir(), nil); code(err) != http.StatusConflict {
				t.Errorf("a second one: %v", err)
			}
			if left {
				leave()
				if err := <-result; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			} else {
				if err := server.Stop(t.Context()); err != nil {
					t.Error(err)
				}
				if err := <-result; err == nil || err.Error() != "weir is being stopped: there is no backup" {
					t.Error(err)
				}
			}
			<-ended
		})
	}
}

func TestMailStatusShown(t *testing.T) {
	m := &mailed{backend: newBackend()}
	site, _ := serve(t, Options{}, m)
	if _, body, _ := get(t, "GET", site+"/", ""); strings.Contains(body, "Mail</h2>") ||
		strings.Contains(body, "weir queue") {
		t.Error("mail is shown where there is none")
	}
	if _, body, _ := get(t, "GET", site+"/metrics", ""); strings.Contains(body, "weir_mail_queue_recipients") {
		t.Error("mail is counted where there is none")
	}
	m.status = &MailStatus{Messages: 3, Recipients: map[store.State]int{store.Held: 25, store.Delayed: 4,
		store.Withheld: 31}, Stopped: 1, Flagged: 2,
		Oldest: time.Unix(1e9, 0), Delivered: 77, Bounced: 2, Deferred: 5, Accepted: 99}
	_, body, _ := get(t, "GET", site+"/", "")
	for _, want := range []string{"3 messages wait, the oldest since 2001-09-09 01:46:40 UTC.", "1 user is stopped",
		"2 users are flagged", ">25<", ">31<", ">77<", `What waits: <a href="mail">`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in %s", want, body)
		}
	}
	_, body, _ = get(t, "GET", site+"/metrics", "")
	for _, want := range []string{
		"weir_mail_messages 3", `weir_mail_queue_recipients{state="held"} 25`,
		`weir_mail_queue_recipients{state="ready"} 0`,
		"weir_mail_stopped_users 1", "weir_reach_flagged_users 2",
		`weir_mail_queue_recipients{state="withheld"} 31`, "weir_mail_oldest_message_timestamp_seconds 1e+09",
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	m.status = &MailStatus{}
	if _, body, _ := get(t, "GET", site+"/", ""); !strings.Contains(body, "No mail waits.") ||
		strings.Contains(body, "stopped") || strings.Contains(body, "flagged") {
		t.Error(body)
	}
}

func TestMailInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	m := &mailed{backend: newBackend(), status: &MailStatus{Messages: 123456,
		Recipients: map[store.State]int{store.Held: 2_500_000, store.Delayed: 4, store.Withheld: 1_234_567},
		Stopped:    17, Flagged: 21,
		Oldest: time.Unix(1.7e9, 0), Accepted: 123456789012, Delivered: 123456789012, Bounced: 21234, Deferred: 53456}}
	site, _ := serve(t, Options{}, m)
	p := browser.Open(t)
	p.Inspect("console-mail", site+"/", func(at string, _ int, _ http.Header) {
		if text := p.Text("main"); !strings.Contains(text, "2500000") ||
			!strings.Contains(text, "17 users are stopped") || !strings.Contains(text, "21 users are flagged") {
			t.Errorf("%s: %q", at, text)
		}
	})
}

// TestWrittenMetrics: counters and gauges, and what is left when a gate is gone.
func TestWrittenMetrics(t *testing.T) {
	site, metrics := serve(t, Options{}, newBackend())
	metrics.Move("weir_smtp_sessions", 2, ":587")
	metrics.Move("weir_smtp_sessions", -1, ":587")
	metrics.Count("weir_smtp_bound_reached_total", 0, ":587", "sessions")
	metrics.Count("weir_smtp_bound_reached_total", 1, ":587", "recipients")
	metrics.Count("weir_mail_refused_total", 4, ":587", "stopped")
	metrics.Count("weir_mail_delivered_total", 5, ":587")
	metrics.Count("weir_mail_delivered_total", 1, ":588")
	metrics.Set("weir_http_upstream_addresses", 3, ":80", "http://a")
	_, body, _ := get(t, "GET", site+"/metrics", "")
	for _, want := range []string{
		`weir_smtp_sessions{gate=":587"} 1`,
		`weir_smtp_bound_reached_total{bound="recipients",gate=":587"} 1`,
		`weir_smtp_bound_reached_total{bound="sessions",gate=":587"} 0`,
		`weir_mail_refused_total{gate=":587",reason="stopped"} 4`, `weir_mail_delivered_total{gate=":587"} 5`,
		`weir_http_upstream_addresses{gate=":80",server="http://a"} 3`,
		`weir_bound_reached_total{bound="selfservice_requests"} 0`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	metrics.Forget("smtp", "gate", ":587")
	metrics.Forget("mail", "gate", ":587")
	if _, body, _ := get(t, "GET", site+"/metrics", ""); strings.Contains(body, ":587") ||
		!strings.Contains(body, `weir_mail_delivered_total{gate=":588"} 1`) {
		t.Error("series of a forgotten gate are still there, or those of another are not")
	}
}

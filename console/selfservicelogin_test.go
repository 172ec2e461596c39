package console

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"weir/store"
)

func (d *mailbox) LogsIn() bool { return d.password != "" }

const lookTicket = "l00kt1cket"

func (d *mailbox) LogIn(_ context.Context, _ netip.Addr, name, password string) (Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.logIns++
	switch {
	case d.err != nil:
		return Session{}, d.err
	case d.password == "":
		return Session{}, ErrNoLogIn
	case name != "ann" || password != d.password:
		return Session{}, fmt.Errorf("page: %w", ErrPassword)
	}
	if d.acts {
		return Session{goodTicket, true}, nil
	}
	return Session{Ticket: lookTicket}, nil
}

func (d *mailbox) looks(ticket string) error {
	if ticket != lookTicket {
		return ErrForged
	}
	return d.err
}

func (d *mailbox) Look(_ context.Context, ticket string) (PageView, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.view, d.looks(ticket)
}

func (d *mailbox) SendLink(_ context.Context, ticket string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.links++
	return d.view.Contact != "", d.looks(ticket)
}

func (d *mailbox) LogOut(_ context.Context, ticket string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = ErrOld
	return nil
}

// TestSelfServiceLogIn: a user logs in with the mail password and looks; wrong ones get the same answer, whoever they
// are; what the session is for is all that it does.
func TestSelfServiceLogIn(t *testing.T) {
	d := newMailbox()
	site, m := pagesOf(t, d, SelfServiceOptions{})
	code, body, h := get(t, "GET", site+"/login", "")
	if code != 200 || !strings.Contains(body, `autocomplete="current-password"`) || h.Get("Cache-Control") != "no-store" ||
		h.Get("Set-Cookie") != "" || !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
		t.Fatalf("%d %v %s", code, h, body)
	}
	if code, _, h := get(t, "GET", site+"/", ""); code != 303 || h.Get("Location") != "login" {
		t.Errorf("the front door: %d %v", code, h)
	}
	form := formIn(t, body)
	_, stranger, _ := send(t, site+"/login", with(form, "user", "nobody", "password", "open sesame"))
	code, wrong, at := send(t, site+"/login", with(form, "user", "ann", "password", "open says me"))
	same := func(body, name string) string {
		body = hidden.ReplaceAllString(body, "")
		return strings.ReplaceAll(body, `value="`+name+`"`, "")
	}
	if code != 403 || at != "" || !strings.Contains(wrong, "The user or the password is not right.") ||
		strings.Contains(wrong, "open says me") || same(stranger, "nobody") != same(wrong, "ann") {
		t.Errorf("%d %s\n%s\n%s", code, at, stranger, wrong)
	}
	if code, body, _ := send(t, site+"/login", with(form, "user", "ann", "password", "x"), "Accept-Language",
		"de"); code != 403 || !strings.Contains(body, "Der Benutzer oder das Passwort ist nicht richtig.") {
		t.Errorf("%d %s", code, body)
	}
	code, _, at = send(t, site+"/weir/login", with(form, "user", " ann ", "password", "open sesame"))
	if code != 303 || at != "own/"+lookTicket {
		t.Fatalf("%d %s", code, at)
	}
	code, body, _ = get(t, "GET", site+"/own/"+lookTicket, "")
	for _, never := range []string{`value="release"`, `value="resume"`, `value="ask-delete"`, `name="new"`, `name="contact"`,
		"ann@home.example", "<script>"} {
		if code != 200 || strings.Contains(body, never) {
			t.Errorf("%d, %s in %s", code, never, body)
		}
	}
	if !strings.Contains(body, "Invitation to the summer party") || !strings.Contains(body, "Send me a link") {
		t.Error(body)
	}
	// Neither does a session for looking act, nor does a link log in.
	own := formIn(t, body)
	for _, do := range []string{"release-all", "delete-all", "resume", "contact", "password", ""} {
		if code, _, _ := send(t, site+"/own/"+lookTicket, with(own, "do", do)); code != 400 {
			t.Errorf("%s: %d", do, code)
		}
	}
	if code, _, _ := send(t, site+"/t/"+lookTicket, with(own, "do", "release-all")); code != 403 || len(d.acted()) != 0 {
		t.Errorf("%d, %v", code, d.acted())
	}
	if code, _, _ := get(t, "GET", site+"/own/"+goodTicket, ""); code != 410 {
		t.Error(code)
	}

	code, _, at = send(t, site+"/own/"+lookTicket, with(own, "do", "link"))
	if code != 303 || !strings.HasPrefix(at, "?said=") || d.links != 1 {
		t.Fatalf("%d %s", code, at)
	}
	if _, body, _ := get(t, "GET", site+"/own/"+lookTicket+at, ""); !strings.Contains(body, "A link is on its way") {
		t.Error(body)
	}
	if code, _, at := send(t, site+"/own/"+lookTicket, with(own, "do", "logout")); code != 303 || at != "../login" {
		t.Errorf("%d %s", code, at)
	}
	if code, body, _ := get(t, "GET", site+"/own/"+lookTicket, ""); code != 410 || !strings.Contains(body, "log in again") {
		t.Errorf("%d %s", code, body)
	}
	text := scrapes(t, m)
	if !strings.Contains(text, `weir_self_service_requests_total{result="login"} 1`) ||
		!strings.Contains(text, `weir_self_service_requests_total{result="login_refused"} 3`) {
		t.Error(text)
	}
}

// scrapes returns the metrics as they are scraped.
func scrapes(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// TestSelfServiceLogInIsGuarded: forms of others, of other pages and too long ones are not looked at; nor is a password
// where nobody can log in.
func TestSelfServiceLogInIsGuarded(t *testing.T) {
	d := newMailbox()
	site, _ := pagesOf(t, d, SelfServiceOptions{})
	_, body, _ := get(t, "GET", site+"/login", "")
	form := with(formIn(t, body), "user", "ann", "password", "open sesame")
	_, body, _ = get(t, "GET", site+"/t/"+goodTicket, "")
	linked := with(formIn(t, body), "user", "ann", "password", "open sesame")
	for name, c := range map[string]struct {
		form   map[string][]string
		header []string
		code   int
	}{
		"another site":   {form, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"another origin": {form, []string{"Origin", "https://evil.example"}, 403},
		"no token":       {map[string][]string{"user": {"ann"}, "password": {"open sesame"}}, nil, 403},
		"another page":   {linked, nil, 403},
		"too long":       {with(form, "user", strings.Repeat("x", maxForm)), nil, 413},
	} {
		if code, _, at := send(t, site+"/login", c.form, c.header...); code != c.code || at != "" {
			t.Errorf("%s: %d %s", name, code, at)
		}
	}
	if d.logIns != 0 {
		t.Errorf("%d passwords were looked at", d.logIns)
	}
	_, body, _ = get(t, "GET", site+"/login", "")
	fresh := formIn(t, body)
	for _, c := range []struct {
		user, password string
		looked         int
	}{
		{strings.Repeat("x", store.MaxUser), "p", 1}, {strings.Repeat("x", store.MaxUser+1), "p", 0},
		{"ann", strings.Repeat("p", MaxPassword), 1}, {"ann", strings.Repeat("p", MaxPassword+1), 0}, {"", "p", 0}, {"ann", "", 0},
	} {
		d.logIns = 0
		code, _, _ := send(t, site+"/login", with(fresh, "user", c.user, "password", c.password))
		if code != 403 || d.logIns != c.looked {
			t.Errorf("%d bytes and %d bytes: %d, %d looked at", len(c.user), len(c.password), code, d.logIns)
		}
	}
	for err, want := range map[error]struct {
		code int
		text string
	}{
		ErrLate: {429, "too many wrong passwords"}, ErrBusy: {503, "log in at once"}, ErrNoEntry: {403, "no entry for you"},
		errors.New("the disk is full"): {503, "does not work at the moment"},
	} {
		d.err = fmt.Errorf("page: %w", err)
		if code, body, _ := send(t, site+"/login", form); code != want.code || !strings.Contains(body, want.text) ||
			strings.Contains(body, "disk") {
			t.Errorf("%v: %d %s", err, code, body)
		}
	}
	d.err, d.password = nil, ""
	if code, body, _ := get(t, "GET", site+"/login", ""); code != 200 || !strings.Contains(body, "Nobody can log in") ||
		strings.Contains(body, "<form") {
		t.Errorf("%d %s", code, body)
	}
	if code, _, _ := get(t, "GET", site+"/", ""); code != 404 {
		t.Error(code)
	}
	if code, body, at := send(t, site+"/login", form); code != 404 || at != "" || !strings.Contains(body, "Nobody can log in") {
		t.Errorf("%d %s", code, body)
	}
}

// TestSelfServiceLogInActs: where the operator wants it, a log-in is as good as a link.
func TestSelfServiceLogInActs(t *testing.T) {
	d := newMailbox()
	d.acts = true
	site, _ := pagesOf(t, d, SelfServiceOptions{Password: PasswordAct})
	_, body, _ := get(t, "GET", site+"/login", "")
	if code, _, at := send(t, site+"/login", with(formIn(t, body), "user", "ann", "password", "open sesame")); code != 303 ||
		at != "t/"+goodTicket {
		t.Errorf("%d %s", code, at)
	}
	if err := (SelfServiceOptions{URL: "https://a.example", Password: "on"}).Validate(); err == nil {
		t.Error("no error")
	}
}

// TestSourceOfALogIn: a header is believed of a web server that the operator names, and of nobody else.
func TestSourceOfALogIn(t *testing.T) {
	for _, c := range []struct {
		trusted, peer, header, want string
	}{
		{"", "127.0.0.1:1", "203.0.113.7", "invalid IP"},
		{"", "203.0.113.1:1", "", "invalid IP"},
		{"127.0.0.1/32", "127.0.0.1:1", "198.51.100.1, 203.0.113.7", "203.0.113.7"},
		{"127.0.0.1/32", "127.0.0.1:1", "", "invalid IP"},
		{"127.0.0.1/32", "127.0.0.1:1", "nonsense", "invalid IP"},
		{"127.0.0.1/32", "203.0.113.9:1", "203.0.113.7", "203.0.113.9"},
		{"127.0.0.1/32", "no address", "203.0.113.7", "invalid IP"},
	} {
		o := SelfServiceOptions{URL: "http://example.org"}
		if c.trusted != "" {
			o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(c.trusted)}
		}
		s := &SelfService{}
		s.Configure(o)
		r := httptest.NewRequest("POST", "/login", nil)
		if r.RemoteAddr = c.peer; c.header != "" {
			r.Header.Set("X-Forwarded-For", c.header)
		}
		if got := s.source(r).String(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestTheFlagIsNamed: whoever releases mail while they are flagged is told that new people are still a matter.
func TestTheFlagIsNamed(t *testing.T) {
	d := newMailbox()
	d.flagged = true
	site, _ := pagesOf(t, d, SelfServiceOptions{})
	page := site + "/t/" + goodTicket
	_, body, _ := get(t, "GET", page, "")
	v := formIn(t, body)
	v.Set("do", "release-all")
	_, _, location := send(t, page, v)
	_, body, _ = get(t, "GET", page+location, "")
	if !strings.Contains(body, `<p class="said" role="status">Released: the mail to 28 recipients is on its way. `+
		"New mail to people the account never wrote to before may still be held or refused.") {
		t.Error(body)
	}
}

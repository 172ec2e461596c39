package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/mail/spool"
	"weir/store"
)

// mailbox is where one user acts on their mail.
type mailbox struct {
	params   []byte
	mu       sync.Mutex
	view     PageView
	used     map[string]bool
	done     []spool.Action
	password string
	err      error
	flagged  bool // Act says so of who releases something
	acts     bool // a log-in with the password is as good as a link
	logIns   int
	links    int
	hold     chan struct{} // Page waits for it, where there is one
	seen     chan struct{}
}

const goodTicket = "k3yt1cket"

func (d *mailbox) check(ticket string) error {
	switch {
	case d.err != nil:
		return d.err
	case strings.HasPrefix(ticket, "old"):
		return fmt.Errorf("ticket: %w", ErrOld)
	case ticket != goodTicket:
		return fmt.Errorf("ticket: %w", ErrForged)
	}
	return nil
}

func (d *mailbox) Page(_ context.Context, ticket string) (PageView, error) {
	if d.hold != nil {
		d.seen <- struct{}{}
		<-d.hold
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.view
	v.Mails = slices.Clone(v.Mails)
	return v, d.check(ticket)
}

func (d *mailbox) StampParams() []byte { return d.params }

func (d *mailbox) Act(_ context.Context, ticket, form string, c spool.Action) (out spool.Done, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check(ticket); err != nil {
		return out, err
	}
	if d.used[form] {
		return out, ErrTwice
	}
	d.used[form] = true
	d.done = append(d.done, c)
	d.view.Mails = slices.DeleteFunc(d.view.Mails, func(m PageMail) bool {
		switch {
		case c.ReleaseAll, slices.Contains(c.Release, m.ID):
			out.Released += len(m.To) + m.More
		case c.DeleteAll, slices.Contains(c.Delete, m.ID):
			out.Deleted += len(m.To) + m.More
		default:
			return false
		}
		return true
	})
	out.Flagged = d.flagged && out.Released > 0
	if c.Resume {
		d.view.Stopped, out.Resumed = false, true
	}
	return out, nil
}

func (d *mailbox) ChangePassword(_ context.Context, ticket, old, new string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.check(ticket) != nil:
		return d.check(ticket)
	case old != d.password:
		return ErrPassword
	case len(new) < 8:
		return Invalid("A password has at least 8 characters, so nothing was changed.")
	}
	d.password = new
	return nil
}

func (d *mailbox) ChangeContact(_ context.Context, ticket, password, contact string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.check(ticket) != nil:
		return d.check(ticket)
	case password == "guess":
		return ErrLate
	case password != d.password:
		return ErrPassword
	}
	d.view.Contact = contact
	return nil
}

func (d *mailbox) ChangeLanguage(_ context.Context, ticket, language string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check(ticket); err != nil {
		return err
	}
	d.view.Language = language
	return nil
}

func (d *mailbox) acted() []spool.Action {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.done)
}

// reset makes it as it was in the beginning.
func (d *mailbox) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.view, d.done = newMailbox().view, nil
}

func newMailbox() *mailbox {
	d := &mailbox{used: map[string]bool{}, password: "open sesame", view: PageView{
		User: "ann@example.org", Contact: "ann@home.example", LogIn: true, Known: true, Stopped: true,
		Since: time.Date(2024, 5, 1, 12, 4, 0, 0, time.UTC),
		Until: time.Date(2024, 5, 8, 12, 4, 0, 0, time.UTC), Waiting: 28, Limit: 20,
	}}
	var many []string
	for i := range 25 {
		many = append(many, fmt.Sprintf("colleague-%d@a-company-with-a-long-name.example", i))
	}
	at := time.Date(2024, 5, 1, 12, 3, 7, 0, time.UTC)
	d.view.Mails = []PageMail{
		{ID: 11, At: at, To: many, Subject: "Invitation to the summer party", Size: 24_801, Held: true},
		{ID: 12, At: at.Add(time.Minute), To: []string{"bob@example.net"}, Subject: `<script>alert("you")</script>`,
			Size: 812, Held: true},
		{ID: 13, At: at.Add(2 * time.Minute), To: []string{"carol@example.net", "dan@example.net"}, Size: 7_240_000},
	}
	return d
}

// pagesOf serves the pages of a mailbox.
func pagesOf(t *testing.T, b SelfServiceBackend, o SelfServiceOptions) (site string, m *Metrics) {
	t.Helper()
	m = NewMetrics("test")
	o.Listen = "127.0.0.1:0"
	if o.URL == "" {
		o.URL = "https://mail.example.org/weir"
	}
	s := NewSelfService(o, b, []byte("0123456789abcdef"), m, quiet)
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return "http://" + s.Addr().String(), m
}

// send posts a form and returns what came back, without following it.
func send(t *testing.T, to string, v url.Values, header ...string) (code int, body, location string) {
	t.Helper()
	req, err := http.NewRequest("POST", to, strings.NewReader(v.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header.Get("Location")
}

var hidden = regexp.MustCompile(`name="(form|token)" value="([^"]+)"`)

// formIn takes what makes a form genuine out of a page.
func formIn(t *testing.T, body string) url.Values {
	t.Helper()
	v := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(body, -1) {
		v.Set(m[1], m[2])
	}
	if len(v) != 2 {
		t.Fatalf("no form in %s", body)
	}
	return v
}

func with(v url.Values, pairs ...string) url.Values {
	all := url.Values{}
	for key, values := range v {
		all[key] = slices.Clone(values)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		all.Add(pairs[i], pairs[i+1])
	}
	return all
}

func TestSelfServicePage(t *testing.T) {
	d := newMailbox()
	site, _ := pagesOf(t, d, SelfServiceOptions{})
	// A web server in front hands on the whole path, or what comes after its own.
	for _, path := range []string{"/t/", "/weir/t/"} {
		code, body, h := get(t, "GET", site+path+goodTicket, "")
		if code != 200 || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" ||
			h.Get("X-Robots-Tag") == "" || h.Get("Set-Cookie") != "" {
			t.Errorf("%d %v", code, h)
		}
		policy := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "style-src 'sha256-", "form-action 'self'",
			"frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("no %s in %s", want, policy)
			}
		}
		for _, want := range []string{"ann@example.org", "Invitation to the summer party", "&lt;script&gt;",
			"(no subject)", "25 KB", "7.2 MB", "1 May 2024, 12:04 UTC", "and 22 more"} {
			if !strings.Contains(body, want) {
				t.Errorf("no %q in %s", want, body)
			}
		}
		if strings.Contains(body, goodTicket) || strings.Contains(body, "<script") || strings.Contains(body, "http") {
			t.Error("the page holds its own secret, a script, or an address elsewhere")
		}
	}
	// Whatever follows links does nothing by it.
	for _, method := range []string{"GET", "HEAD"} {
		if code, _, _ := get(t, method, site+"/t/"+goodTicket+"?do=release-all&do=delete-all", ""); code != 200 {
			t.Error(code)
		}
	}
	if d.acted() != nil {
		t.Error(d.acted())
	}
	for _, method := range []string{"PUT", "DELETE", "OPTIONS", "PATCH"} {
		if code, _, _ := get(t, method, site+"/t/"+goodTicket, ""); code == 200 {
			t.Errorf("%s: %d", method, code)
		}
	}
}

// TestNewRecipientsOnThePage: what is withheld has a word of its own, says why, and is released and deleted like what
// is held.
func TestNewRecipientsOnThePage(t *testing.T) {
	const because = "to people your account never wrote to before, and waits for you"
	const limit = "When mail to more than 20 recipients is delayed"
	for _, c := range []struct {
		delayed, held, isNew bool
		state                string
		others               bool // some of their mail waits for another reason
	}{
		{false, true, false, ">held\n", true}, {true, false, false, ">delayed\n", true},
		{false, false, true, ">new recipient\n", false}, {false, true, true, ">held, new recipient\n", true},
		{true, false, true, ">delayed, new recipient\n", true},
	} {
		d := newMailbox()
		d.view.Stopped, d.view.Mails = false, d.view.Mails[1:2]
		d.view.Mails[0].Delayed, d.view.Mails[0].Held, d.view.Mails[0].New = c.delayed, c.held, c.isNew
		site, _ := pagesOf(t, d, SelfServiceOptions{})
		page := site + "/t/" + goodTicket
		_, body, _ := get(t, "GET", page, "")
		if !strings.Contains(body, c.state) || strings.Contains(body, because) != c.isNew ||
			strings.Contains(body, limit) != c.others ||
			strings.Contains(body, "some of your mail waits") != c.others {
			t.Errorf("%+v: %s", c, body)
		}
		if code, _, _ := send(t, page, with(formIn(t, body), "do", "release", "mail",
			store.MailID(12).String())); code != http.StatusSeeOther ||
			!reflect.DeepEqual(d.acted(), []spool.Action{{Release: []store.MailID{12}}}) {
			t.Errorf("%+v: %d, %+v", c, code, d.acted())
		}
	}
}

// TestSelfServiceStrangers: who has no genuine ticket learns nothing.
func TestSelfServiceStrangers(t *testing.T) {
	d := newMailbox()
	site, m := pagesOf(t, d, SelfServiceOptions{})
	_, body, _ := get(t, "GET", site+"/t/"+goodTicket, "")
	genuine := formIn(t, body)
	for ticket, want := range map[string]int{
		"forged": 403, "oldticket": 410, "a.b": 403, "%00": 403, strings.Repeat("x", maxTicket+1): 403, "a/b": 404,
		"": 404,
	} {
		for _, f := range []func() (int, string){
			func() (int, string) { code, body, _ := get(t, "GET", site+"/t/"+ticket, ""); return code, body },
			func() (int, string) {
				code, body, _ := send(t, site+"/t/"+ticket, with(genuine, "do", "release-all"))
				return code, body
			},
		} {
			code, body := f()
			if code != want && !(code == 403 && want == 410) { // a form of another ticket is not genuine
				t.Errorf("%.20q: %d, want %d", ticket, code, want)
			}
			if strings.Contains(body, "ann") || strings.Contains(body, "party") || !strings.Contains(body, "<h1>") {
				t.Errorf("%.20q: %s", ticket, body)
			}
		}
	}
	for _, path := range []string{"/t", "/style.css", "/weir", "/weirt/" + goodTicket, "/a/b/c", "/own",
		"/own/", "/login/x"} {
		if code, _, h := get(t, "GET", site+path, ""); code != 404 || h.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d", path, code)
		}
	}
	d.mu.Lock()
	d.err = errors.New("disk full at /var/lib/weir")
	d.mu.Unlock()
	code, body, h := get(t, "GET", site+"/t/"+goodTicket, "")
	if code != 503 || strings.Contains(body, "/var/lib") || h.Get("Retry-After") == "" {
		t.Errorf("%d %s", code, body)
	}
	if code, body, _ := send(t, site+"/t/"+goodTicket, with(genuine, "do", "release-all")); code != 503 ||
		strings.Contains(body, "disk") {
		t.Errorf("%d %s", code, body)
	}
	if d.acted() != nil {
		t.Error(d.acted())
	}
	console := newServer(t, Options{Listen: "127.0.0.1:0"}, newBackend(), m)
	if err := console.Listen(); err != nil {
		t.Fatal(err)
	}
	console.Start()
	defer console.Stop(context.Background())
	if _, body, _ := get(t, "GET", "http://"+console.Addr().String()+"/metrics", ""); !strings.Contains(body,
		`weir_self_service_requests_total{result="failed"} 2`) {
		t.Error("failures are not counted")
	}
}

func TestSelfServiceActs(t *testing.T) {
	for _, test := range []struct {
		form []string
		want *spool.Action
		says string
	}{
		{[]string{"do", "release", "mail", store.MailID(12).String(), "mail", store.MailID(11).String(), "mail",
			store.MailID(12).String()}, &spool.Action{Release: []store.MailID{12, 11}},
			"the mail to 26 recipients is on its way"},
		{[]string{"do", "release", "mail", store.MailID(99).String()}, &spool.Action{Release: []store.MailID{99}},
			"There was nothing left to release"},
		{[]string{"do", "release-all"}, &spool.Action{ReleaseAll: true}, "the mail to 28 recipients is on its way"},
		{[]string{"do", "delete", "mail", store.MailID(12).String()}, &spool.Action{Delete: []store.MailID{12}},
			"the mail to 1 recipient will not be sent"},
		{[]string{"do", "release-all", "upto", store.MailID(13).String()}, &spool.Action{ReleaseAll: true, UpTo: 13},
			"the mail to 28 recipients is on its way"},
		{[]string{"do", "delete-all"}, &spool.Action{DeleteAll: true}, "the mail to 28 recipients will not be sent"},
		{[]string{"do", "resume"}, &spool.Action{Resume: true}, "You can send mail again"},
		{[]string{"do", "release"}, nil, "No mail was selected"},
		{[]string{"do", "delete"}, nil, "No mail was selected"},
		{[]string{"do", "ask-delete"}, nil, "No mail was selected"},
		{[]string{"do", "password", "password", "open sesame", "new", "correct horse", "again", "correct horse"}, nil,
			"Your password is changed"},
		{[]string{"do", "password", "password", "open", "new", "correct horse", "again", "correct horse"}, nil,
			"The current password is not right"},
		{[]string{"do", "password", "password", "open sesame", "new", "correct horse", "again", "correct"}, nil,
			"not the same both times"},
		{[]string{"do", "password", "password", "open sesame", "new", "short", "again", "short"}, nil,
			"A password has at least 8 characters"},
		{[]string{"do", "password", "password", "open sesame"}, nil, "A password has 1 to 1024 characters"},
		{[]string{"do", "password", "password", strings.Repeat("x", MaxPassword+1), "new", "correct horse", "again",
			"correct horse"}, nil, "The current password is not right"},
		{[]string{"do", "contact", "password", "open sesame", "contact", " ann@new.example "}, nil,
			"Your contact address is changed"},
		{[]string{"do", "contact", "password", "guess", "contact", "ann@new.example"}, nil, "too many wrong passwords"},
		{[]string{"do", "contact", "password", "open sesame", "contact", "ann"}, nil, "not a mail address"},
		{[]string{"do", "contact", "password", "open sesame", "contact", "ann@new.example\r\nBcc: all@example.org"},
			nil, "not a mail address"},
	} {
		t.Run(fmt.Sprintf("%.60q", test.form), func(t *testing.T) {
			d := newMailbox()
			site, _ := pagesOf(t, d, SelfServiceOptions{})
			page := site + "/weir/t/" + goodTicket
			_, body, _ := get(t, "GET", page, "")
			v := with(formIn(t, body), test.form...)
			code, answered, location := send(t, page, v)
			if code == 200 && strings.Contains(answered, test.says) && v.Get("do") == "contact" {
				return // the link has ended with the old address
			}
			if code != 303 || !strings.HasPrefix(location, "?said=") || strings.Contains(location, "sesame") {
				t.Fatalf("%d %s", code, location)
			}
			if _, body, _ := get(t, "GET", page+location, ""); !strings.Contains(body, test.says) {
				t.Errorf("no %q in %s", test.says, body)
			}
			var want []spool.Action
			if test.want != nil {
				want = []spool.Action{*test.want}
			}
			if got := d.acted(); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
			if test.want == nil {
				return
			}
			// Once more by the same form: nothing.
			_, _, location = send(t, page, v)
			if _, body, _ := get(t, "GET", page+location, ""); !strings.Contains(body, "This was already done") {
				t.Error(body)
			}
			if len(d.acted()) != 1 {
				t.Errorf("done again: %+v", d.acted())
			}
		})
	}
}

func TestSelfServiceAsksBeforeItDeletes(t *testing.T) {
	d := newMailbox()
	site, _ := pagesOf(t, d, SelfServiceOptions{})
	page := site + "/t/" + goodTicket
	_, body, _ := get(t, "GET", page, "")
	v := formIn(t, body)
	code, body, _ := send(t, page, with(v, "do", "ask-delete", "mail", store.MailID(12).String(), "mail",
		store.MailID(77).String()))
	if code != 200 || !strings.Contains(body, "Delete 1 message?") || strings.Contains(body, "party") ||
		strings.Contains(body, store.MailID(77).String()) || d.acted() != nil {
		t.Errorf("%d %s", code, body)
	}
	fresh := formIn(t, body)
	if fresh.Get("form") == v.Get("form") ||
		!strings.Contains(body, `name="mail" value="`+store.MailID(12).String()+`"`) {
		t.Error(body)
	}
	d.mu.Lock()
	d.view.More = 5
	d.mu.Unlock()
	// What came after the user looked is not meant.
	code, body, _ = send(t, page, with(v, "do", "ask-delete-all", "upto", store.MailID(12).String()))
	if code != 200 || !strings.Contains(body, "Delete 2 messages?") || strings.Contains(body, "(no subject)") ||
		!strings.Contains(body, `value="delete-all"`) || d.acted() != nil {
		t.Errorf("%d %s", code, body)
	}
}

// TestSelfServiceForms: what is not a form of ours, for this ticket, changes nothing.
func TestSelfServiceForms(t *testing.T) {
	d := newMailbox()
	site, _ := pagesOf(t, d, SelfServiceOptions{})
	page := site + "/t/" + goodTicket
	_, body, _ := get(t, "GET", page, "")
	v := formIn(t, body)
	release := with(v, "do", "release-all")
	other := newForms([]byte("another secret, of another weir")).fresh(goodTicket)
	elsewhere := newForms([]byte("0123456789abcdef")).fresh("anotherticket")
	big := with(v, "do", "release-all", "x", strings.Repeat("x", maxForm))
	tooMany := with(v, "do", "release")
	for i := range MaxMailOrder + 1 {
		tooMany.Add("mail", store.MailID(i).String())
	}
	for name, test := range map[string]struct {
		form   url.Values
		header []string
		code   int
	}{
		"no form":      {url.Values{"do": {"release-all"}}, nil, 403},
		"no token":     {url.Values{"do": {"release-all"}, "form": v["form"]}, nil, 403},
		"other nonce":  {url.Values{"do": {"release-all"}, "form": {"x"}, "token": v["token"]}, nil, 403},
		"other secret": {url.Values{"do": {"release-all"}, "form": {other.Nonce}, "token": {other.Token}}, nil, 403},
		"other ticket": {url.Values{"do": {"release-all"}, "form": {elsewhere.Nonce}, "token": {elsewhere.Token}}, nil,
			403},
		"other site":    {release, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"sister site":   {release, []string{"Sec-Fetch-Site", "same-site"}, 403},
		"other origin":  {release, []string{"Origin", "https://evil.example"}, 403},
		"no origin":     {release, []string{"Origin", "::"}, 403},
		"as JSON":       {release, []string{"Content-Type", "application/json"}, 403},
		"nothing to do": {v, nil, 400},
		"unknown":       {with(v, "do", "everything"), nil, 400},
		"no last":       {with(v, "do", "release-all", "upto", "x"), nil, 400},
		"no id":         {with(v, "do", "release", "mail", "../1"), nil, 400},
		"too many":      {tooMany, nil, 400},
		"too long":      {big, nil, 413},
		"bad encoding":  {nil, nil, 400},
	} {
		code, body := 0, ""
		if test.form == nil {
			req, _ := http.NewRequest("POST", page, strings.NewReader("a=%zz"))
			req.Close = true
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			code = resp.StatusCode
		} else {
			code, body, _ = send(t, page, test.form, test.header...)
		}
		if code != test.code || strings.Contains(body, "ann@") || d.acted() != nil {
			t.Errorf("%s: %d, want %d; %v", name, code, test.code, d.acted())
		}
	}
	// Browsers tell where a form came from in their own ways.
	for i, header := range [][]string{{}, {"Origin", "null"}, {"Origin", site}, {"Origin", "https://mail.example.org"},
		{"Sec-Fetch-Site", "same-origin", "Origin", "null"}} {
		_, body, _ := get(t, "GET", page, "")
		if code, _, _ := send(t, page, with(formIn(t, body), "do", "release-all"), header...); code != 303 ||
			len(d.acted()) != i+1 {
			t.Errorf("%v: %d", header, code)
		}
	}
}

// TestSelfServiceSaid: nobody can send a user to their own page with something that we did not say.
func TestSelfServiceSaid(t *testing.T) {
	f := newForms([]byte("0123456789abcdef"))
	d := newMailbox()
	site, _ := pagesOf(t, d, SelfServiceOptions{})
	for text, want := range map[string]bool{
		f.write(goodTicket, result{Code: saidText, Text: "call 555"}): true,
		f.write("another", result{Code: saidText, Text: "call 555"}):  false,
		"text.0.Y2FsbCA1NTU.AAAA":                                     false, "": false, "....": false,
	} {
		_, body, _ := get(t, "GET", site+"/t/"+goodTicket+"?said="+url.QueryEscape(text), "")
		if strings.Contains(body, "call 555") != want {
			t.Errorf("%q: %s", text, body)
		}
	}
	if r := f.read("t", f.write("t", result{saidText, 5, strings.Repeat("ü", maxSaid)})); r == nil || r.N != 5 ||
		len(r.Text) > maxSaid/2 || !r.Bad() {
		t.Errorf("%+v", r)
	}
}

func FuzzSelfServiceSaid(f *testing.F) {
	forms := newForms([]byte("0123456789abcdef"))
	f.Add("", "")
	f.Add("t", forms.write("t", result{Code: saidReleased, N: 3}))
	f.Add("t", "text.0.Y2FsbCA1NTU."+forms.sign("said", "t", "text.0.Y2FsbCA1NTU"))
	f.Add("t", "a.b."+forms.sign("said", "t", "a.b"))
	f.Fuzz(func(t *testing.T, ticket, text string) {
		if r := forms.read(ticket, text); r != nil && forms.write(ticket, *r) == "" {
			t.Error("nothing was said")
		}
		r := forms.read(ticket, forms.write(ticket, result{saidText, len(text), strings.ToValidUTF8(text, "")}))
		if r == nil || r.N != len(text) {
			t.Errorf("what we say is not read: %+v", r)
		}
		readAsk(url.Values{"mail": strings.Split(text, " "), "do": {text}})
		ticketLike(text)
	})
}

// TestSelfServiceIsBounded: too many at once are turned away in a word.
func TestSelfServiceIsBounded(t *testing.T) {
	d := newMailbox()
	d.hold, d.seen = make(chan struct{}), make(chan struct{})
	site, _ := pagesOf(t, d, SelfServiceOptions{})
	var all sync.WaitGroup
	for range maxPageRequests {
		all.Go(func() {
			if code, _, _ := get(t, "GET", site+"/t/"+goodTicket, ""); code != 200 {
				t.Error(code)
			}
		})
	}
	for range maxPageRequests {
		<-d.seen
	}
	if code, _, h := get(t, "GET", site+"/t/"+goodTicket, ""); code != 503 || h.Get("Retry-After") == "" {
		t.Errorf("one too many: %d", code)
	}
	close(d.hold)
	all.Wait()
	go func() { <-d.seen }()
	if code, _, _ := get(t, "GET", site+"/t/"+goodTicket, ""); code != 200 {
		t.Error(code)
	}
}

func TestSelfServiceListsAreBounded(t *testing.T) {
	v := PageView{More: 1, Mails: make([]PageMail, MaxPageMails+2)}
	v.Mails[0] = PageMail{More: 3, To: make([]string, MaxPageRecipients+4)}
	v.bound()
	if len(v.Mails) != MaxPageMails || v.More != 3 || len(v.Mails[0].To) != MaxPageRecipients || v.Mails[0].More != 7 {
		t.Errorf("%d mails, %d more", len(v.Mails), v.More)
	}
	for n, want := range map[int]int{0: 0, 1: 1, 3: 3, 4: 4, 5: 3} {
		if r := rowsOf([]PageMail{{To: make([]string, n)}})[0]; len(r.First) != want || r.Others() != n-want {
			t.Errorf("%d recipients: %d, and %d more", n, len(r.First), r.Others())
		}
	}
}

func TestSelfServiceConfigure(t *testing.T) {
	s := NewSelfService(SelfServiceOptions{Listen: "127.0.0.1:0", URL: "https://a.example/one/"}, newMailbox(),
		[]byte("0123456789abcdef"), NewMetrics("test"), quiet)
	if s.Addr() != nil {
		t.Error("bound already")
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	site := "http://" + s.Addr().String()
	for i, want := range []int{200, 404, 404} {
		switch i {
		case 1:
			s.Configure(SelfServiceOptions{URL: "https://a.example/two"})
		case 2:
			s.Configure(SelfServiceOptions{})
		}
		if code, _, _ := get(t, "GET", site+"/one/t/"+goodTicket, ""); code != want {
			t.Errorf("%d: %d, want %d", i, code, want)
		}
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	idle := NewSelfService(SelfServiceOptions{Listen: "127.0.0.1:0"}, newMailbox(), nil, NewMetrics("test"), quiet)
	if err := idle.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStampParamsArePublished(t *testing.T) {
	d := newMailbox()
	site, _ := pagesOf(t, d, SelfServiceOptions{})
	if code, _, _ := get(t, "GET", site+StampPath, ""); code != 404 {
		t.Errorf("where none are taken: %d", code)
	}
	d.params = []byte(`{"version":1}`)
	if code, body, h := get(t, "GET", site+StampPath, ""); code != 200 || body != `{"version":1}` ||
		h.Get("Content-Type") != "application/json" {
		t.Errorf("%d %s %v", code, body, h)
	}
}

// TestNothingWaitsOnThePage: where another server has what was too much, the page says what became of it, and speaks of
// nothing that is not there. The password comes first.
func TestNothingWaitsOnThePage(t *testing.T) {
	d := newMailbox()
	d.view.Mails, d.view.Waiting = nil, 0
	d.view.Elsewhere = "What was too much was not taken. Your mail program, or the server that sent it for you, may try " +
		"again later."
	site, _ := pagesOf(t, d, SelfServiceOptions{})
	_, body, _ := get(t, "GET", site+"/t/"+goodTicket, "")
	for text, want := range map[string]bool{"What was too much was not taken.": true, "Let yourself send again.": true,
		"If you have not done so yet, change your password first, at the end of this page. Have": true, "below": false,
		"stays held": false, "is lost": false} {
		if strings.Contains(body, text) != want {
			t.Errorf("%q is there: %v", text, !want)
		}
	}
}

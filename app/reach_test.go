package app_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/console"
	"weir/store"
)

// reachGate lists a reach throttle beside a mail throttle that holds nobody back.
const (
	reachGate = "throttles: [outgoing, contacts]"
	lenient   = "max_mslack: 1000, max_slack: 1000, stop: 1000, rate: 100/s"
)

// reachOf are the options of a throttle that flags from a count on.
func reachOf(over string) string {
	return "  contacts: {reach: {threshold: 5, over: " + over + ", windows: [hour], for: 10m}}"
}

// crowd makes addresses nobody has written to.
func crowd(name string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s-%d@elsewhere.example", name, i))
	}
	return all
}

// flag makes a user write to more new people than allowed.
func (m *mailer) flag() {
	m.p.t.Helper()
	for i, to := range crowd("friend", 5) {
		if err := m.send("hello", to); err != nil {
			m.p.t.Fatalf("mail %d to a new recipient: %v", i+1, err)
		}
	}
}

// A user crosses the threshold: known-only lets known recipients through, refuses new ones at RCPT, and falls back by
// itself.
func TestReachKnownOnly(t *testing.T) {
	t.Parallel()
	p := newPost(t, lenient, reachGate, reachOf("known-only"))
	p.user("ann")
	ann := p.mailer("ann")
	ann.flag()
	if err := ann.send("one too many", "new-1@elsewhere.example"); code(err) != 550 {
		t.Fatalf("the sixth: %v", err)
	}
	if err := ann.send("known", "friend-3@elsewhere.example"); err != nil {
		t.Errorf("a known recipient: %v", err)
	}
	// Both in one envelope: the new one is refused alone.
	if err := ann.Mail("ann@example.org", nil); err != nil {
		t.Fatal(err)
	}
	if err := ann.Rcpt("friend-1@elsewhere.example", nil); err != nil {
		t.Errorf("a known recipient beside a new one: %v", err)
	}
	if err := ann.Rcpt("new-1@elsewhere.example", nil); code(err) != 550 ||
		!strings.Contains(err.Error(), "new people") {
		t.Errorf("the new one is tried again: %v", err)
	}
	w, err := ann.Data()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(w, "Subject: both\r\n\r\nhello\r\n")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p.runs(0)
	if got := len(p.sink.to("friend-1@elsewhere.example")); got != 2 {
		t.Errorf("a known recipient got %d mails, want 2", got)
	}
	if got := p.sink.to("new-1@elsewhere.example"); len(got) != 0 {
		t.Errorf("a new recipient got %d mails", len(got))
	}
	if told := p.sink.to("admin@example.org"); len(told) != 1 ||
		!strings.Contains(told[0].header("Subject"), "Flagged: ann") {
		t.Errorf("the admin was told %d times", len(told))
	}
	// Users can always write to their own address.
	if err := ann.send("note to self", "ann@private.example"); err != nil {
		t.Errorf("his own address: %v", err)
	}
	p.sleeps(2 * time.Hour)
	if err := ann.send("later", "new-1@elsewhere.example"); err != nil {
		t.Errorf("when the rate has fallen: %v", err)
	}
	p.auditHas("flagged", "ann")
	p.auditHas("unflagged", "ann")
}

// An account that is old is not a newcomer with its first message: it was imported, or registered long ago. One that
// was just registered may bring a list.
func TestADormantAccountIsNoNewcomer(t *testing.T) {
	t.Parallel()
	p := newPost(t, lenient, reachGate, `
  contacts: {reach: {threshold: 200%, floor: 5, over: known-only, newcomers: 50}}`)
	p.user("dormant")
	p.sleeps(15 * 24 * time.Hour)
	p.user("customer")
	if _, err := console.UserAddCall.Ask(context.Background(), p.control,
		console.NewUser{Name: "imported", Password: password, Old: true}); err != nil {
		t.Fatal(err)
	}
	for name, limit := range map[string]int{"dormant": 5, "imported": 5, "customer": 50} {
		m, list := p.mailer(name), crowd(name, limit+1)
		for i, to := range list {
			if err := m.send("hello", to); (err != nil) != (i == limit) || err != nil && code(err) != 550 {
				t.Errorf("%s, recipient %d: %v", name, i+1, err)
			}
		}
	}
}

// auditHas looks for an entry of the audit log.
func (p *post) auditHas(what, user string) {
	p.t.Helper()
	page, err := console.AuditListCall.Ask(context.Background(), p.control, console.AuditQuery{Limit: 100})
	if err != nil {
		p.t.Fatal(err)
	}
	if !slices.ContainsFunc(page.Entries, func(e store.Entry) bool { return e.What == what && e.User == user }) {
		p.t.Errorf("the audit log says nothing of %s being %s", user, what)
	}
}

// throttle is how a throttle has judged.
func (p *post) throttle(name string) console.ThrottleStatus {
	p.t.Helper()
	s, err := console.StatusCall.Ask(context.Background(), p.control, console.None{})
	if err != nil {
		p.t.Fatal(err)
	}
	i := slices.IndexFunc(s.Throttles, func(t console.ThrottleStatus) bool { return t.Throttle == name })
	if i < 0 {
		p.t.Fatalf("there is no throttle %s", name)
	}
	return s.Throttles[i]
}

func slurp(t *testing.T, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// hold-new withholds new recipients, in a state that does not count towards stop; what is released becomes known.
func TestReachHoldNew(t *testing.T) {
	t.Parallel()
	p := newPost(t, "stop: 3, max_slack: 10, max_mslack: 10", reachGate, reachOf("hold-new"))
	p.user("ann")
	ann := p.mailer("ann")
	ann.flag()
	for i, to := range append(crowd("new", 10), "new-1@elsewhere.example") { // one of them again: it is still not known
		if err := ann.send("spam", to); err != nil {
			t.Fatalf("mail %d: %v", i, err)
		}
	}
	if err := ann.send("known", "friend-2@elsewhere.example", "new-1@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	p.runs(0)
	if got := len(p.sink.to("friend-2@elsewhere.example")); got != 2 {
		t.Errorf("a known recipient got %d mails, want 2", got)
	}
	if got := len(p.sink.to("new-1@elsewhere.example")); got != 0 {
		t.Errorf("a new recipient got %d mails", got)
	}
	s := p.status()
	if s.Stopped != 0 || s.Recipients[store.Withheld] != 12 {
		t.Errorf("%d stopped, %d withheld; want 0 and 12", s.Stopped, s.Recipients[store.Withheld])
	}
	if told := p.sink.to("ann@private.example"); len(told) != 1 ||
		!strings.Contains(told[0].header("Subject"), "many new people") {
		t.Errorf("the user was told %d times", len(told))
	}
	// The flag ends, and what is withheld stays so.
	p.sleeps(3 * time.Hour)
	if s := p.status(); s.Recipients[store.Withheld] != 12 {
		t.Errorf("%d are withheld after the flag has ended, want 12", s.Recipients[store.Withheld])
	}
	all, err := console.QueueListCall.Ask(context.Background(), p.control,
		console.MailQuery{MailFilter: console.MailFilter{User: "ann", State: store.Withheld}, Limit: 100})
	if err != nil || len(all.Mails) != 12 {
		t.Fatal(len(all.Mails), err)
	}
	if _, err := console.QueueReleaseCall.Ask(context.Background(), p.control,
		console.MailOrder{Mails: []store.MailID{all.Mails[1].ID}}); err != nil {
		t.Fatal(err)
	}
	p.runs(0)
	if got := len(p.sink.to("new-1@elsewhere.example")); got != 1 {
		t.Errorf("the recipient whom an operator let go got %d mails", got)
	}
	// Flagged again, the one who was released is known, and another is not.
	for i := range 6 {
		if err := ann.send("again", fmt.Sprintf("more-%d@elsewhere.example", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := ann.send("again", "new-1@elsewhere.example", "new-2@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	p.runs(0)
	if one, two := len(p.sink.to("new-1@elsewhere.example")), len(p.sink.to("new-2@elsewhere.example")); one != 2 ||
		two != 0 {
		t.Errorf("released: %d mails, not released: %d; want 2 and 0", one, two)
	}
}

// block refuses everything, limit lets a few mails pass, flag changes nothing.
func TestReachOtherActions(t *testing.T) {
	t.Parallel()
	t.Run("block", func(t *testing.T) {
		p := newPost(t, lenient, reachGate, reachOf("block"))
		p.user("ann")
		ann := p.mailer("ann")
		ann.flag()
		for _, to := range []string{"new@elsewhere.example", "friend-1@elsewhere.example"} {
			if err := ann.send("blocked", to); code(err) != 550 {
				t.Errorf("to %s: %v", to, err)
			}
		}
	})
	t.Run("limit", func(t *testing.T) {
		p := newPost(t, lenient, reachGate, reachOf("limit, limit: 7/h"))
		p.user("ann")
		ann := p.mailer("ann")
		ann.flag()
		// the five before the flag, the one that crosses the threshold, and one more
		for i, want := range []int{250, 250, 450} {
			if err := ann.send("limited", fmt.Sprintf("new-%d@elsewhere.example", i)); code(err) != want {
				t.Errorf("mail %d: %v, want %d", i, err, want)
			}
		}
	})
	t.Run("flag", func(t *testing.T) {
		p := newPost(t, lenient, reachGate, reachOf("flag"))
		p.user("ann")
		ann := p.mailer("ann")
		ann.flag()
		if err := ann.send("flagged", crowd("new", 20)...); err != nil {
			t.Error(err)
		}
		p.auditHas("flagged", "ann")
		if told := p.sink.to("ann@private.example"); len(told) != 0 {
			t.Error("the user was told of a flag that changes nothing")
		}
	})
}

// What is known of users outlives a restart, and so does a flag.
func TestReachOutlivesARestart(t *testing.T) {
	t.Parallel()
	p := newPost(t, lenient, reachGate, reachOf("known-only"))
	p.user("ann")
	ann := p.mailer("ann")
	ann.flag()
	if err := ann.send("one too many", "new@elsewhere.example"); code(err) != 550 {
		t.Fatal(err)
	}
	p.stop()
	p.start(p.config(lenient, reachGate))
	ann = p.mailer("ann")
	if err := ann.send("still flagged", "new@elsewhere.example"); code(err) != 550 {
		t.Error(err)
	}
	if err := ann.Reset(); err != nil {
		t.Fatal(err)
	}
	if err := ann.send("still known", "friend-0@elsewhere.example"); err != nil {
		t.Error(err)
	}
}

// In shadow everything passes and is counted; what was counted has no consequences later.
func TestReachShadow(t *testing.T) {
	t.Parallel()
	extra := strings.Replace(reachOf("known-only"), "{reach:", "{shadow: true, reach:", 1)
	p := newPost(t, lenient, reachGate, extra)
	p.user("ann")
	ann := p.mailer("ann")
	if err := ann.send("many", crowd("new", 20)...); err != nil {
		t.Fatal(err)
	}
	if err := ann.send("one more", "another@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	counts := p.throttle("contacts")
	if counts.Shadowed["refuse"] == 0 || counts.Verdicts["refuse"] != 0 {
		t.Errorf("%+v", counts)
	}
	series := fmt.Sprintf(
		`weir_throttle_verdicts_total{mode="shadow",policy="hour",throttle="contacts",verdict="refuse"} %d`,
		counts.Shadowed["refuse"])
	if body := scraped(t, p.app); !strings.Contains(body, series) {
		t.Errorf("no %s", series)
	}
	p.extra = reachOf("known-only")
	if err := p.app.Reload(p.config(lenient, reachGate)); err != nil {
		t.Fatal(err)
	}
	if err := ann.send("in earnest", "first@elsewhere.example"); err != nil {
		t.Errorf("what was counted in shadow has consequences: %v", err)
	}
}

// Flagged accounts fall to stricter parameters of the mail throttle.
func TestReachMakesTheMailThrottleStricter(t *testing.T) {
	t.Parallel()
	p := newPost(t, "max_slack: 100, rate: 100/s, flagged: {rate: 1/h, max_slack: 0, working_set: 0}", reachGate,
		reachOf("flag"))
	p.user("ann")
	ann := p.mailer("ann")
	ann.flag()
	if err := ann.send("flags", "new-0@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	if err := ann.send("waits", "new-1@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	p.runs(0)
	if got := len(p.sink.to("new-1@elsewhere.example")); got != 0 {
		t.Error("the mail of a flagged user did not wait")
	}
	p.sleeps(2 * time.Hour)
	if got := len(p.sink.to("new-1@elsewhere.example")); got != 1 {
		t.Error("the mail of a flagged user did not leave")
	}
	if err := ann.send("goes", "new-2@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	p.runs(0)
	if got := len(p.sink.to("new-2@elsewhere.example")); got != 1 {
		t.Error("the stricter parameters hold after the flag has ended")
	}
}

// Nobody gets around it by leaving the sender out.
func TestReachCountsNullSenders(t *testing.T) {
	t.Parallel()
	p := newPost(t, lenient, reachGate, reachOf("known-only"))
	p.user("ann")
	ann := p.mailer("ann")
	ann.from = ""
	for i, to := range crowd("victim", 6) {
		err := ann.send("bounce?", to)
		if want := map[bool]int{true: 250, false: 550}[i < 5]; code(err) != want {
			t.Errorf("mail %d: %v, want %d", i, err, want)
		}
	}
}

// Other channels ask the decision API, and share the history with mail where they name the same throttle.
func TestReachForOtherChannels(t *testing.T) {
	t.Parallel()
	p := newPost(t, lenient, reachGate, reachOf("known-only")+
		"\napi: {listen: 127.0.0.1:0, tokens: [a-token-of-some-length], policies: {default: [contacts]}}")
	p.user("ann")
	ask := func(body string) string {
		t.Helper()
		q, err := http.NewRequest(http.MethodPost, "http://"+p.app.Addr("api", 0).String()+"/v1/decide",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer a-token-of-some-length")
		q.Header.Set("Content-Type", "application/json")
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		return slurp(t, r.Body)
	}
	sms := func(phone string) string {
		return ask(fmt.Sprintf(`{"user":"ann","kind":"sms","recipients":[%q]}`, phone))
	}
	for i := range 5 {
		if got := sms(fmt.Sprintf("+49 171 555-010%d", i)); !strings.Contains(got, `"admit"`) {
			t.Fatalf("message %d: %s", i, got)
		}
	}
	if got := sms("0049 (0)171 5550104"); !strings.Contains(got, `"admit"`) {
		t.Errorf("the same number, written in another way: %s", got)
	}
	// What is no number is nobody: it is not sent, and counts neither as a person nor as one who was tried.
	for _, nobody := range []string{"123", "abc", "+"} {
		if got := sms(nobody); !strings.Contains(got, `"refuse"`) || !strings.Contains(got, "no-recipient") {
			t.Errorf("%q: %s", nobody, got)
		}
	}
	if u, err := console.ReachShowCall.Ask(t.Context(), p.control,
		console.ReachName{Name: "ann"}); err != nil || u.Throttles[0].Flagged ||
		u.Throttles[0].Recipients != 5 {
		t.Errorf("%+v, %v", u, err)
	}
	if got := sms("+491715550199"); !strings.Contains(got, `"refuse"`) || !strings.Contains(got, "new-recipient") {
		t.Errorf("a new number: %s", got)
	}
	if got := sms("0049 171 5550103"); !strings.Contains(got, `"admit"`) {
		t.Errorf("a known number, written in another way: %s", got)
	}
	if err := p.mailer("ann").send("mail", "new@elsewhere.example"); code(err) != 550 {
		t.Errorf("a flag by messages counts for mail too: %v", err)
	}
	if got := ask(`{"kind":"sms","recipients":["+491715550103"]}`); !strings.Contains(got, "no-account") {
		t.Errorf("nobody's message: %s", got)
	}
}

// Messages that are judged at the same moment, or whose end is not told yet, count as if they had been sent: who asks
// about many at once reaches no more new people than who asks one by one.
func TestReachInParallel(t *testing.T) {
	t.Parallel()
	p := newPost(t, lenient, reachGate, reachOf("known-only")+
		"\napi: {listen: 127.0.0.1:0, tokens: [a-token-of-some-length], policies: {default: [contacts]}}")
	for user, hold := range map[string]bool{"ann": false, "bob": true} {
		p.user(user)
		var admitted atomic.Int64
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				body := fmt.Sprintf(`{"user":%q,"kind":"sms","recipients":["+491715550%03d"],"hold":%t}`, user, i, hold)
				q, err := http.NewRequest(http.MethodPost, "http://"+p.app.Addr("api", 0).String()+"/v1/decide",
					strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				q.Header.Set("Authorization", "Bearer a-token-of-some-length")
				q.Header.Set("Content-Type", "application/json")
				r, err := http.DefaultClient.Do(q)
				if err != nil {
					t.Error(err)
					return
				}
				defer r.Body.Close()
				if text, _ := io.ReadAll(r.Body); bytes.Contains(text, []byte(`"admit"`)) {
					admitted.Add(1)
				}
			})
		}
		all.Wait()
		if n := admitted.Load(); n != 5 {
			t.Errorf("with hold %t, %d of 40 were admitted, and the threshold is 5", hold, n)
		}
	}
}

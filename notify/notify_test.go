package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"weir"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
	"weir/mail/nexthop"
)

const (
	secret   = "a secret of sixteen"
	patience = time.Minute
)

// A service is a webhook that keeps what it is sent.
type service struct {
	*httptest.Server
	status func(n int) int // by the number of the request
	got    chan received
	n      int
}

type received struct {
	header http.Header
	body   []byte
	message
}

func newService(t *testing.T) *service {
	s := &service{got: make(chan received, 100), status: func(int) int { return http.StatusNoContent }}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		one := received{header: r.Header, body: body}
		if err := json.Unmarshal(body, &one.message); err != nil {
			t.Error(err)
		}
		s.n++
		w.Header().Set("Location", s.URL+"/elsewhere")
		w.WriteHeader(s.status(s.n))
		s.got <- one
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *service) next(t *testing.T) received {
	t.Helper()
	select {
	case r := <-s.got:
		return r
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("")
	}
}

func (s *service) target() Target {
	return Target{Webhook: &Webhook{URL: s.URL + "/hooks/T0P53CR3T", Secret: secret}}
}

func begin(t *testing.T, c clock.Clock, targets ...Target) *Notifier {
	t.Helper()
	if err := Options(targets).Validate(); err != nil {
		t.Fatal(err)
	}
	n, err := New(targets, Env{Clock: c, Log: slog.New(slog.DiscardHandler), Node: "edge-1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		n.Close(ctx)
	})
	return n
}

// TestWebhook: what is sent is signed as the specification says, names this weir, and has no line breaks of strangers.
func TestWebhook(t *testing.T) {
	t.Parallel()
	s := newService(t)
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	n := begin(t, clock.NewFake(now), s.target())
	n.Tell(Notice{Event: UserStopped, Time: now, About: "ann\r\n", Text: "ann\nis stopped."})
	r := s.next(t)
	h := r.header
	if got, want := h.Get("Webhook-Signature"), sign(secret, h.Get("Webhook-Id"), "1772600767", r.body); got != want ||
		h.Get("Webhook-Timestamp") != "1772600767" || h.Get("Content-Type") != "application/json" {
		t.Errorf("%v; want %s", h, want)
	}
	want := Notice{Event: UserStopped, Time: now, Node: "edge-1", About: "ann  ", Text: "ann is stopped."}
	if len(r.Notices) != 1 || r.Notices[0] != want || r.Text != want.Text {
		t.Errorf("%s", r.body)
	}
	needs.Wait(t, "it is noted", func() bool { return n.Stats()[0].Sent == 1 })
}

// TestSignature is an example that libraries for Standard Webhooks are tested with.
func TestSignature(t *testing.T) {
	got := sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
		[]byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestRetries: what was not accepted is sent again, with the same id, after longer and longer pauses; redirects are not
// followed. What comes meanwhile goes together. After a day it is dropped.
func TestRetries(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.status = func(n int) int {
		if n <= 2 {
			return http.StatusTemporaryRedirect
		}
		if n == 3 {
			return http.StatusOK
		}
		return http.StatusServiceUnavailable
	}
	c := clock.NewFake(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	n := begin(t, c, s.target())
	n.Tell(Notice{Event: Disk, Text: "first"})
	id := s.next(t).header.Get("Webhook-Id")
	for i := range MaxTogether + 1 {
		n.Tell(Notice{Event: Disk, Text: fmt.Sprint("more ", i)})
	}
	for _, pause := range []time.Duration{time.Second, 2 * time.Second} {
		needs.Wait(t, "it waits", func() bool { return c.Pending() == 1 })
		if at := c.Next().Sub(c.Now()); at != pause {
			t.Errorf("it waits for %s, want %s", at, pause)
		}
		c.Advance(pause)
		if r := s.next(t); r.header.Get("Webhook-Id") != id || len(r.Notices) != 1 {
			t.Errorf("%v %d", r.header, len(r.Notices))
		}
	}
	if r := s.next(t); len(r.Notices) != MaxTogether || r.header.Get("Webhook-Id") == id {
		t.Errorf("%d notices go together", len(r.Notices))
	}
	needs.Wait(t, "it waits", func() bool { return c.Pending() == 1 })
	if st := n.Stats()[0]; st.Sent != 1 || st.Failed != 3 || st.Waiting != MaxTogether+1 ||
		!strings.Contains(st.Error, "503") || strings.Contains(st.Error, "T0P53CR3T") {
		t.Errorf("%+v", st)
	}
	for range 400 {
		if n.Stats()[0].Dropped > 0 {
			break
		}
		needs.Wait(t, "it waits", func() bool { return c.Pending() == 1 || n.Stats()[0].Dropped > 0 })
		c.Advance(longestPause)
		for len(s.got) > 50 {
			<-s.got
		}
	}
	if st := n.Stats()[0]; st.Dropped != MaxTogether {
		t.Errorf("after a day: %+v", st)
	}
}

// TestBoundWaiting: of one more than may wait, the oldest is dropped.
func TestBoundWaiting(t *testing.T) {
	t.Parallel()
	tt := &target{wake: make(chan struct{}, 1)}
	for i := range MaxWaiting + 1 {
		tt.add(Notice{Text: fmt.Sprint(i)})
	}
	if len(tt.waiting) != MaxWaiting || tt.waiting[0].Text != "1" || tt.stats.Dropped != 1 {
		t.Errorf("%d wait, %d were dropped", len(tt.waiting), tt.stats.Dropped)
	}
}

// TestEvents: a target is told of what it wants to know, and of tests.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := newService(t)
	only := s.target()
	only.Events = []Event{NodeLost}
	n := begin(t, clock.System, only)
	n.Tell(Notice{Event: Attack, Text: "no"})
	n.Tell(Notice{Event: NodeLost, Text: "yes"})
	if r := s.next(t); r.Text != "yes" {
		t.Errorf("%s", r.body)
	}
	for _, r := range n.Try(t.Context(), "ann") {
		if r.Error != "" || !strings.HasPrefix(r.Target, "webhook http://127.0.0.1:") || strings.Contains(r.Target, "T0P") {
			t.Errorf("%+v", r)
		}
	}
	if r := s.next(t); r.Notices[0].Event != Test || !strings.Contains(r.Text, "ann asked for") {
		t.Errorf("%s", r.body)
	}
	s.Close()
	if r := n.Try(t.Context(), "ann"); r[0].Error == "" || strings.Contains(r[0].Error, "T0P53CR3T") {
		t.Errorf("%+v", r)
	}
}

// A taker is an SMTP server that keeps what it is sent.
type taker struct {
	mu    sync.Mutex
	texts []string
	to    []string
}

type session struct{ *taker }

func (s session) Mail(string, *smtp.MailOptions) error { return nil }
func (s session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if strings.HasPrefix(to, "nobody") {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "nobody here"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = append(s.to, to)
	return nil
}
func (s session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, string(text))
	return err
}
func (session) Reset()        {}
func (session) Logout() error { return nil }

// TestMail: a message that any mail program can read, to all recipients.
func TestMail(t *testing.T) {
	t.Parallel()
	k := &taker{}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return session{k}, nil }))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	to := func(all ...string) Target {
		return Target{Mail: &Mail{To: all, From: "weir@example.com", NextHop: nexthop.Options{Servers: []string{l.Addr().String()}}}}
	}
	n := begin(t, clock.System, to("ops@example.com", "nobody@example.com", "night@example.com"))
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	n.Tell(Notice{Event: UserStopped, Over: true, Time: at, Text: "jörg may send again.\r\nBcc: all@example.com"})
	needs.Wait(t, "it is delivered", func() bool { return n.Stats()[0].Sent == 1 })
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.texts) != 1 || strings.Join(k.to, " ") != "ops@example.com night@example.com" {
		t.Fatalf("%q to %q", k.texts, k.to)
	}
	m, err := mail.ReadMessage(strings.NewReader(k.texts[0]))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || subject != "[weir edge-1] jörg may send again.  Bcc: all@example.com" || m.Header.Get("Bcc") != "" ||
		m.Header.Get("Auto-Submitted") != "auto-generated" {
		t.Errorf("%q, %v: %v", subject, err, m.Header)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil || !strings.HasPrefix(string(body), "2026-03-04 05:06:07 UTC  user_stopped, over\r\njörg may send again.") {
		t.Errorf("%q, %v", body, err)
	}
	if r := begin(t, clock.System, to("nobody@example.com")).Try(t.Context(), "ann"); !strings.Contains(r[0].Error, "550") {
		t.Errorf("%+v", r)
	}
}

// TestClose: what waits is tried once more.
func TestClose(t *testing.T) {
	t.Parallel()
	s := newService(t)
	n, err := New(Options{s.target()}, Env{Clock: clock.System, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	n.Tell(Notice{Event: Disk, Text: "the last"})
	n.Close(t.Context())
	if len(s.got) != 1 {
		t.Errorf("%d came", len(s.got))
	}
}

func TestValidate(t *testing.T) {
	good := Target{Webhook: &Webhook{URL: "https://a.example/x", Secret: secret}}
	next := nexthop.Options{Servers: []string{"127.0.0.1:25"}}
	for name, x := range map[string]struct {
		options Options
		path    string
	}{
		"nothing":         {Options{{}}, "[0]"},
		"both":            {Options{{Webhook: good.Webhook, Mail: &Mail{To: []string{"a@b.example"}, NextHop: next}}}, "[0].mail"},
		"no address":      {Options{{Webhook: &Webhook{URL: "ftp://x", Secret: secret}}}, "[0].webhook.url"},
		"a long address":  {Options{{Webhook: &Webhook{URL: "https://x/" + strings.Repeat("x", maxURL), Secret: secret}}}, "[0].webhook.url"},
		"a password":      {Options{{Webhook: &Webhook{URL: "https://u:p@x", Secret: secret}}}, "[0].webhook.url"},
		"a short secret":  {Options{{Webhook: &Webhook{URL: "https://x", Secret: "short"}}}, "[0].webhook.secret"},
		"nobody":          {Options{{Mail: &Mail{NextHop: next}}}, "[0].mail.to"},
		"no server":       {Options{{Mail: &Mail{To: []string{"a@b.example"}}}}, "[0].mail.next_hop"},
		"no recipient":    {Options{{Mail: &Mail{To: []string{"a b@c"}, NextHop: next}}}, "[0].mail.to[0]"},
		"an odd sender":   {Options{{Mail: &Mail{To: []string{"a@b.example"}, From: "x\r\ny@z", NextHop: next}}}, "[0].mail.from"},
		"too many people": {Options{{Mail: &Mail{To: strings.Fields(strings.Repeat("a@b.example ", MaxTo+1)), NextHop: next}}}, "[0].mail.to"},
		"unknown event":   {Options{{Webhook: good.Webhook, Events: []Event{"atack"}}}, "[0].events[0]"},
		"twice":           {Options{{Webhook: good.Webhook, Events: []Event{Disk, Disk}}}, "[0].events[1]"},
	} {
		err := x.options.Validate()
		if field, ok := errors.AsType[*weir.FieldError](err); !ok || field.Path != x.path {
			t.Errorf("%s: %v, want %s", name, err, x.path)
		}
	}
	many := make(Options, MaxTargets+1)
	for i := range many {
		many[i] = good
	}
	if err := many.Validate(); err == nil {
		t.Error("too many targets")
	}
	if err := many[1:].Validate(); err != nil {
		t.Error(err)
	}
}

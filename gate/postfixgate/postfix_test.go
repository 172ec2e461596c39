package postfixgate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	gosmtp "net/smtp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"weir/gate"
	"weir/identify"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
	"weir/internal/testkit/postfix"
	"weir/mail/nexthop"
	"weir/mail/notice"
	"weir/mail/spool"
	"weir/store"
	"weir/store/sqlite"
	"weir/throttle/outbreak"
)

// office is a Postfix with users, a weir beside it (the gate, the spool, the store), and the world outside. Only the
// time is not real.
type office struct {
	t      *testing.T
	gate   *Gate
	spool  *spool.Spool
	seen   *observer
	clock  *clock.Fake
	mta    *postfix.Instance
	world  *postfix.Sink
	relays *relay
}

// open opens an office. Postfix is set up as docs say.
func open(t *testing.T, o Options) *office {
	t.Helper()
	if lacking := postfix.Missing(); lacking != "" {
		postfix.Start(t, postfix.Options{}) // skips, or fails
	}
	of := &office{t: t, clock: clock.NewFake(epoch), world: postfix.NewSink(t),
		seen: &observer{answered: map[Action]int{}, bounded: map[string]int{}}}
	back, divert := needs.FreeAddress(), needs.FreeAddress()
	of.keep(back)
	of.relays = newRelay(t, of, divert)
	host, port, _ := net.SplitHostPort(divert)
	if o.Over == OverFilter {
		o.Filter = fmt.Sprintf("weir:[%s]:%s", host, port)
	}
	var err error
	o.Throttles = []string{"outbreak"}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	of.gate, err = New(o, Parts{}, Env{Env: gate.Env{Clock: of.clock, Log: log}, Name: "postfix", Spool: of.spool,
		Observer: of.seen, Secret: func() []byte { return theSecret }})
	if err != nil {
		t.Fatal(err)
	}
	if err := of.gate.Listen(); err != nil {
		t.Fatal(err)
	}
	of.gate.Start()
	t.Cleanup(func() { _ = of.gate.Stop(ended()) })
	service := "check_policy_service inet:" + of.gate.Addr().String()
	if of.gate.Addr().Network() == "unix" {
		service = "check_policy_service unix:" + of.gate.Addr().String()
	}
	of.mta = postfix.Start(t, postfix.Options{
		Relay: of.world.Addr(),
		Users: map[string]string{"ann": "secret", "bob": "secret"},
		Main: map[string]string{
			"smtpd_relay_restrictions":         "permit_sasl_authenticated, reject",
			"smtpd_recipient_restrictions":     service,
			"smtpd_data_restrictions":          service,
			"smtpd_end_of_data_restrictions":   service,
			"weir_destination_recipient_limit": "100",
		},
		Master: []string{
			"weir unix - - n - 20 smtp",
			back + " inet n - n - - smtpd",
			"  -o smtpd_relay_restrictions=permit_mynetworks,reject",
			"  -o smtpd_recipient_restrictions=",
			"  -o smtpd_data_restrictions=",
			"  -o smtpd_end_of_data_restrictions=",
			"  -o smtpd_sasl_auth_enable=no",
			"  -o receive_override_options=no_address_mappings,no_unknown_recipient_checks,no_header_body_checks,no_milters",
		},
	})
	return of
}

// keep makes the store and the spool, whose mail goes back to Postfix.
func (of *office) keep(back string) {
	t := of.t
	kept, err := sqlite.Open(t.Context(), sqlite.Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kept.Close() })
	hop, err := nexthop.New(nexthop.Options{Servers: []string{back}}, nexthop.Env{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hop.Close(ended()) })
	secret := bytes.Repeat([]byte{7}, 32)
	if of.spool, err = spool.New(spool.Options{Store: kept.Mail(), Clock: of.clock, Secret: secret,
		Signer: notice.NewSigner(secret),
		Log:    slog.New(slog.NewTextHandler(t.Output(), nil))}); err != nil {
		t.Fatal(err)
	}
	rules := &outbreak.Options{}
	if err := of.spool.Configure([]spool.Gate{
		{Name: "postfix", Throttle: "outbreak", Mail: rules, Carrier: hop},
		{Name: "relay", Throttle: "outbreak", Mail: rules, Carrier: hop},
	}); err != nil {
		t.Fatal(err)
	}
	if err := of.spool.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := of.spool.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}

// send sends a mail as a user does.
func (of *office) send(user string, to ...string) error {
	text := fmt.Sprintf("From: %s@example.org\r\nSubject: to %s\r\nX-Weir-User: forged\r\n\r\nHello.\r\n", user,
		strings.Join(to, " "))
	return gosmtp.SendMail(of.mta.Addr, gosmtp.PlainAuth("", user, "secret", "127.0.0.1"), user+"@example.org", to,
		[]byte(text))
}

// must sends a mail that is taken.
func (of *office) must(user string, to ...string) {
	of.t.Helper()
	if err := of.send(user, to...); err != nil {
		of.t.Fatalf("%s to %s: %v", user, to, err)
	}
}

// arrived waits until so many mails are out in the world, and returns where they went.
func (of *office) arrived(n int) []string {
	of.t.Helper()
	var all []string
	for _, m := range of.world.Await(n) {
		all = append(all, m.To...)
	}
	slices.Sort(all)
	return all
}

// waiting is how many recipients wait in weir.
func (of *office) waiting() int {
	of.t.Helper()
	_, by, err := of.spool.Count(of.t.Context())
	if err != nil {
		of.t.Fatal(err)
	}
	return by[store.Delayed] + by[store.Held]
}

// minute lets a minute pass.
func (of *office) minute() {
	of.t.Helper()
	of.clock.Advance(time.Minute)
	if _, err := of.spool.RunDue(of.t.Context(), of.clock.Now()); err != nil {
		of.t.Fatal(err)
	}
}

// TestPostfixFilter: a bulk sender's mail is diverted, delayed, handed back and arrives once, while another user's mail
// passes; and when the user goes on they are stopped, and what they had sent arrives when it is released.
func TestPostfixFilter(t *testing.T) {
	of := open(t, Options{Listen: "127.0.0.1:0", Over: OverFilter})
	of.must("ann", "one@example.net") // her credit
	of.must("ann", "two@example.net")
	of.must("ann", "three@example.net")
	of.relays.await(2)
	of.must("bob", "friend@example.net")
	if got := of.arrived(2); !slices.Equal(got, []string{"friend@example.net", "one@example.net"}) ||
		of.waiting() != 2 {
		t.Errorf("arrived at %s; %d wait", got, of.waiting())
	}
	for n := 3; n <= 4; n++ {
		of.minute()
		of.arrived(n)
	}
	all := of.world.Mails()
	for _, m := range all {
		marks := m.Header(identify.MarkHeader)
		diverted := m.To[0] == "two@example.net" || m.To[0] == "three@example.net"
		if diverted && len(marks) != 0 || !diverted && !slices.Equal(marks, []string{"forged"}) {
			t.Errorf("%s: marks left: %q\n%s", m.To, marks, m.Text)
		}
	}
	if len(all) != 4 || of.waiting() != 0 {
		t.Errorf("%d mails arrived, %d wait", len(all), of.waiting())
	}

	// To several at once: what there is credit for goes at once, by way of weir. The rest waits.
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("many%d@example.net", i))
	}
	of.must("ann", many...)
	of.relays.await(3)
	if got := of.arrived(5); len(got) != 4+15 || of.waiting() != 5 {
		t.Errorf("arrived at %d, %d wait", len(got), of.waiting())
	}

	// The user goes on.
	var refused error
	for i := 0; i < 40 && refused == nil; i++ {
		if refused = of.send("ann", fmt.Sprintf("new%d@example.net", i)); refused == nil {
			of.relays.await(4 + i)
		}
	}
	if refused == nil || !strings.Contains(refused.Error(), "5.7.1") || of.waiting() != 21 {
		t.Errorf("stopped: %v; %d wait", refused, of.waiting())
	}
	of.must("bob", "friend@example.net")
	of.arrived(6)
	if _, err := of.spool.Release(t.Context(), of.clock.Now(), "ann", "ann", spool.Selection{All: true}); err != nil {
		t.Fatal(err)
	}
	of.arrived(6 + 1 + 16) // the rest of the large one, and 16 to one each
	for _, m := range of.world.Mails() {
		if n := len(of.world.Mails()); n != 23 {
			t.Fatalf("%d mails arrived, the last to %s", n, m.To)
		}
	}
	if of.seen.answers(ActionFilter) != of.seen.answers(ActionPrepend) || of.seen.bounds(BoundUnmarked) != 0 ||
		of.seen.failed.Load() != 0 {
		t.Errorf("marked %d, diverted %d", of.seen.answers(ActionPrepend), of.seen.answers(ActionFilter))
	}
}

// TestPostfixHold: without a relay of weir's, over a socket: what is over the limit stays in Postfix' hold queue, and
// who goes on is stopped.
func TestPostfixHold(t *testing.T) {
	folder, err := os.MkdirTemp("", "weir-policy") // a test's own folder is for its owner alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	of := open(t, Options{Listen: "unix:" + filepath.Join(folder, "policy"), Socket: gate.Socket{Group: "postfix"},
		Over: OverHold})
	var refused error
	sent := 0
	for ; sent < 40 && refused == nil; sent++ {
		refused = of.send("ann", fmt.Sprintf("new%d@example.net", sent))
	}
	if refused == nil || !strings.Contains(refused.Error(), "5.7.1") || sent != 1+21+1 {
		t.Errorf("after %d mails: %v", sent, refused)
	}
	of.must("bob", "friend@example.net")
	if got := of.arrived(2); !slices.Equal(got, []string{"friend@example.net", "new0@example.net"}) ||
		of.mta.Queued("hold") != 21 {
		t.Errorf("arrived at %s, %d held", got, of.mta.Queued("hold"))
	}
	// A user who logged in nowhere is not judged: Postfix itself refuses them.
	if err := gosmtp.SendMail(of.mta.Addr, nil, "eve@example.org", []string{"x@example.net"},
		[]byte("Subject: x\r\n\r\n")); err == nil || !strings.HasPrefix(err.Error(), "554") {
		t.Errorf("a stranger: %v", err)
	}
}

// A relay takes what Postfix diverts, and believes its marks.
type relay struct {
	of *office

	mu    sync.Mutex
	taken int
}

func newRelay(t *testing.T, of *office, addr string) *relay {
	r := &relay{of: of}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &diverted{relay: r},
			nil
	}))
	server.Domain = "weir.test"
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		_ = l.Close() // of which the server may not have heard yet
		<-ended
	})
	return r
}

// await waits until so many mails were taken.
func (r *relay) await(n int) {
	r.of.t.Helper()
	needs.Wait(r.of.t, fmt.Sprint(n, " mails are diverted"), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.taken >= n
	})
}

type diverted struct {
	relay *relay
	env   spool.Envelope
}

func (d *diverted) Reset()        { d.env = spool.Envelope{} }
func (d *diverted) Logout() error { return nil }
func (d *diverted) Mail(from string, _ *smtp.MailOptions) error {
	d.env.Sender = from
	return nil
}
func (d *diverted) Rcpt(to string, _ *smtp.RcptOptions) error {
	d.env.To = append(d.env.To, spool.To{Address: to})
	return nil
}

func (d *diverted) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	of := d.relay.of
	first, rest, _ := bytes.Cut(text, []byte("\r\n"))
	mark, found := strings.CutPrefix(string(first), identify.MarkHeader+": ")
	if !found {
		return fmt.Errorf("no mark on top: %q", first)
	}
	now := of.clock.Now()
	if d.env.User, _, err = identify.ReadMark(mark, now, theSecret); err != nil {
		return err
	}
	staged := of.spool.Stage()
	defer staged.Discard()
	if _, err := staged.Write(bytes.ReplaceAll(rest, []byte(identify.MarkHeader+": forged\r\n"), nil)); err != nil {
		return err
	}
	d.env.Diverted = true
	d.env.ID, d.env.Gate, d.env.Source = of.spool.NewID(now), "relay", netip.MustParseAddr("127.0.0.1")
	if _, err = of.spool.Accept(of.t.Context(), now, &d.env, staged); err != nil {
		return err
	}
	d.relay.mu.Lock()
	defer d.relay.mu.Unlock()
	d.relay.taken++
	return nil
}

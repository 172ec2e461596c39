package smtpgate

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/gate"
	"weir/gate/gatetest"
	"weir/internal/clock"
	"weir/mail/login"
	"weir/mail/nexthop"
	"weir/mail/notice"
	"weir/mail/spool"
	"weir/store"
	"weir/store/sqlite"
	"weir/throttle/outbreak"
	"weir/throttle/stamp"
)

// What the tests of all gates share.
var (
	epoch   = gatetest.Noon
	chainOf = gatetest.Chain
)

const gateName = "test"

// A sent mail is one that came out at the other end.
type sentMail struct {
	job  nexthop.Job
	to   []string
	text string
}

// An exit takes what the spool delivers.
type exit struct {
	mu   sync.Mutex
	sent []sentMail
}

func (e *exit) Deliver(_ context.Context, j *nexthop.Job) []nexthop.Result {
	r, err := j.Open()
	if err != nil {
		return make([]nexthop.Result, len(j.Recipients))
	}
	defer r.Close()
	text, _ := io.ReadAll(r)
	if j.Committed != nil {
		_ = j.Committed()
	}
	m := sentMail{job: *j, text: string(text)}
	for _, to := range j.Recipients {
		m.to = append(m.to, to.Address)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sent = append(e.sent, m)
	return make([]nexthop.Result, len(j.Recipients))
}

// A watched spool is the real one, which a test can make fail, and whose acceptances it can count.
type watched struct {
	*spool.Spool
	accepted atomic.Int64
	fail     atomic.Pointer[error]
	before   func() // called before a mail is accepted
	load     atomic.Int64
	mu       sync.Mutex
	all      []spool.Envelope
	receipts []spool.Receipt
	staged   atomic.Int64 // texts that nobody has discarded
}

func (w *watched) Stage() store.Staged {
	w.staged.Add(1)
	return &staged{w.Spool.Stage(), sync.OnceFunc(func() { w.staged.Add(-1) })}
}

// A staged text tells when it is discarded.
type staged struct {
	store.Staged
	discarded func()
}

func (s *staged) Discard() {
	s.Staged.Discard()
	s.discarded()
}

func (w *watched) Accept(ctx context.Context, now time.Time, e *spool.Envelope, text store.Staged) (spool.Receipt,
	error) {
	if w.before != nil {
		w.before()
	}
	if err := w.fail.Load(); err != nil {
		return spool.Receipt{}, *err
	}
	r, err := w.Spool.Accept(ctx, now, e, text)
	if err == nil {
		w.accepted.Add(1)
		w.mu.Lock()
		w.all, w.receipts = append(w.all, *e), append(w.receipts, r)
		w.mu.Unlock()
	}
	return r, err
}

func (w *watched) Load(string) float64 { return float64(w.load.Load()) / 100 }

// envelope returns the last mail that was accepted.
func (w *watched) envelope(t testing.TB) spool.Envelope {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) == 0 {
		t.Fatal("no mail was accepted")
	}
	return w.all[len(w.all)-1]
}

// receipt returns what became of it.
func (w *watched) receipt(t testing.TB) spool.Receipt {
	t.Helper()
	w.envelope(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.receipts[len(w.receipts)-1]
}

// A rig is a gate with everything behind it: the spool, its store, and an exit.
type rig struct {
	*Gate
	t      testing.TB
	clock  *clock.Fake
	spool  *watched
	exit   *exit
	behind spool.Carrier // in place of exit
	opts   Options
	hasty  func(*Timeouts) // makes them shorter than an operator may
	parts  Parts
	env    Env
	rules  outbreak.Options
	seen   *observer
	logins *login.Verifier
}

// passwords are hashed once for all tests: it takes its time on purpose.
var passwords = sync.OnceValue(func() string {
	stored, err := login.Hash("correct horse")
	if err != nil {
		panic(err)
	}
	return stored
})

// logins remember what was right, for all tests.
var logins = sync.OnceValue(func() *login.Verifier { return login.New(login.Options{}) })

// newRig makes a gate on loopback that listens; change may change it before.
func newRig(t testing.TB, change func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewFake(epoch), exit: &exit{}, seen: newObserver(), logins: logins()}
	db, err := sqlite.Open(t.Context(), sqlite.Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s, err := spool.New(spool.Options{Store: db.Mail(), Clock: r.clock, Secret: make([]byte, 32),
		Signer: notice.NewSigner(make([]byte, 32))})
	if err != nil {
		t.Fatal(err)
	}
	r.spool = &watched{Spool: s}
	r.opts = Options{Listen: "127.0.0.1:0", Hostname: "mail.example.org",
		NextHop: nexthop.Options{Servers: []string{"127.0.0.1:1"}}}
	r.env = Env{Env: gate.Env{Clock: r.clock}, Name: gateName, Spool: r.spool, Observer: r.seen,
		Door:       &login.Door{Verifier: r.logins},
		TakeStamps: stamp.TakeMail}
	r.rules = outbreak.Options{Internal: []string{"inside.example.org"}, Free: []string{"support@example.org"}}
	if change != nil {
		change(r)
	}
	rules := r.rules.WithDefaults()
	if r.behind == nil {
		r.behind = r.exit
	}
	if err := s.Configure([]spool.Gate{{Name: gateName, Throttle: "outgoing", Mail: &rules, Carrier: r.behind,
		Host: "mail.example.org", Command: r.opts.Command}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	for _, u := range []store.User{
		{Name: "ann", Password: passwords(), Contact: "ann@home.example"},
		{Name: "bound", Password: passwords(), Senders: []string{"Bound@Example.org", "@team.example"}},
		{Name: "gone", Password: passwords(), Disabled: true},
		{Name: "empty"},
	} {
		u.Made, u.Changed = epoch, epoch
		r.put(u)
	}
	g, err := New(r.opts, r.parts, r.env)
	if err != nil {
		t.Fatal(err)
	}
	if r.Gate = g; r.hasty != nil {
		r.hasty(&g.Setup.Load().opts.Timeouts)
	}
	gatetest.Run(t, g)
	t.Cleanup(func() { _ = g.Stop(gatetest.Ended()) })
	return r
}

func (r *rig) put(u store.User) {
	r.t.Helper()
	if err := r.spool.ChangeUser(context.Background(), epoch, "test", u.Name, func(now *store.User, _ bool) error {
		u.Made = now.Made
		*now = u
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
}

// sent waits until everything is delivered that can be, and returns it.
func (r *rig) sent() []sentMail {
	r.t.Helper()
	if err := r.spool.Idle(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	r.exit.mu.Lock()
	defer r.exit.mu.Unlock()
	return r.exit.sent
}

// the returns the only mail that was sent.
func (r *rig) the() sentMail {
	r.t.Helper()
	all := r.sent()
	if len(all) != 1 {
		r.t.Fatalf("%d mails were sent", len(all))
	}
	return all[0]
}

// A client speaks SMTP, as badly as it is told.
type client struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
}

// dial connects and reads the greeting.
func (r *rig) dial() *client {
	r.t.Helper()
	c := r.connect()
	c.expect("220 mail.example.org")
	return c
}

func (r *rig) connect() *client {
	r.t.Helper()
	_, port, _ := net.SplitHostPort(r.Addr().String())
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	// A deadline only keeps a broken test from hanging.
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return &client{r.t, conn, bufio.NewReader(conn)}
}

// greeted has said EHLO.
func (r *rig) greeted() *client {
	r.t.Helper()
	c := r.dial()
	c.cmd("EHLO client.example", "250 ")
	return c
}

// as logs in.
func (r *rig) as(name string) *client {
	r.t.Helper()
	c := r.greeted()
	c.cmd("AUTH PLAIN "+plain(name, "correct horse"), "235 ")
	return c
}

func plain(name, password string) string {
	return base64.StdEncoding.EncodeToString([]byte("\x00" + name + "\x00" + password))
}

func b64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// send sends bytes as they are.
func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, text); err != nil {
		c.t.Fatalf("sending %.60q: %v", text, err)
	}
}

// reply reads an answer to its last line.
func (c *client) reply() (string, error) {
	var all []string
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			return strings.Join(append(all, line), "\n"), err
		}
		line = strings.TrimRight(line, "\r\n")
		all = append(all, line)
		if len(line) < 4 || line[3] != '-' {
			return strings.Join(all, "\n"), nil
		}
	}
}

// expect reads an answer whose last line begins like this, and returns all of it.
func (c *client) expect(want string) string {
	c.t.Helper()
	got, err := c.reply()
	if last := got[strings.LastIndexByte(got, '\n')+1:]; err != nil || !strings.HasPrefix(last, want) {
		c.t.Fatalf("the answer is %q, %v; want %q", got, err, want)
	}
	return got
}

// cmd sends a command and expects an answer.
func (c *client) cmd(line, want string) string {
	c.t.Helper()
	c.send(line + "\r\n")
	got, err := c.reply()
	if last := got[strings.LastIndexByte(got, '\n')+1:]; err != nil || !strings.HasPrefix(last, want) {
		c.t.Fatalf("the answer to %.80q is %q, %v; want %q", line, got, err, want)
	}
	return got
}

// ended expects that nothing more comes.
func (c *client) ended() {
	c.t.Helper()
	if got, err := c.reply(); err != io.EOF || got != "" {
		c.t.Fatalf("the session goes on: %q, %v", got, err)
	}
}

const hello = "Subject: hello\r\nDate: Mon, 02 Mar 2026 12:00:00 +0000\r\nMessage-ID: " +
	"<1@client.example>\r\n\r\nhello\r\n"

// mail sends a mail, and expects an answer at its end.
func (c *client) mail(from, to, text, want string) string {
	c.t.Helper()
	c.cmd("MAIL FROM:<"+from+">", "250 ")
	for r := range strings.SplitSeq(to, ",") {
		c.cmd("RCPT TO:<"+r+">", "250 ")
	}
	c.cmd("DATA", "354 ")
	return c.cmd(text+".", want)
}

// An observer counts what it is told.
type observer struct {
	sessions, waiting atomic.Int64
	mu                sync.Mutex
	counts            map[string]int
}

func newObserver() *observer { return &observer{counts: map[string]int{}} }

func (o *observer) note(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts[what]++
}

func (o *observer) count(what string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts[what]
}

func (o *observer) Sessions(d int)                     { o.sessions.Add(int64(d)) }
func (o *observer) Waiting(d int)                      { o.waiting.Add(int64(d)) }
func (o *observer) LogIn(how string)                   { o.note("login " + how) }
func (o *observer) Mail(how, _ string, _ int64, _ int) { o.note("mail " + how) }
func (o *observer) Refused(how, _ string)              { o.note("refused " + how) }
func (o *observer) Bounded(bound string)               { o.note("bound " + bound) }

// certificate makes one for mail.example.org, and returns its files and who trusts it.
func certificate(t testing.TB) (certFile, keyFile string, trust *tls.Config) {
	t.Helper()
	a := gatetest.NewAuthority(t, "authority")
	certFile, keyFile = a.Server("mail.example.org")
	return certFile, keyFile, &tls.Config{RootCAs: a.Pool, ServerName: "mail.example.org"}
}

// encrypt begins TLS on a connection.
func (c *client) encrypt(config *tls.Config) *client {
	c.t.Helper()
	conn := tls.Client(c.conn, config)
	if err := conn.Handshake(); err != nil {
		c.t.Fatal(err)
	}
	return &client{c.t, conn, bufio.NewReader(conn)}
}

func prefixes(list ...string) (all []netip.Prefix) {
	for _, p := range list {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/mail"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"weir/console"
)

// The actors that are told later what became of their mail.
const (
	forPeople = iota
	forNews
	forOwner
	forThief
	forAll
)

type telling func(Result, time.Duration, time.Time)

// A post is all writers of one play of the scene, and the server that their mail goes to.
type post struct {
	stage  *Stage
	sink   *sink
	pages  frontDoor
	people chan *writer // who writes nothing at the moment
	news   *writer
	owners []*writer // whose account is stolen, one after the other

	number atomic.Int64 // of the mail
	late   atomic.Int64 // in this half
	// Mails that visitors have released: they may take part.
	visitors atomic.Int64
	tell     [forAll]telling

	mu     sync.Mutex
	theft  *theft // the last one in this half, or nil
	thefts int    // in this half
	ever   int    // thefts
	worst  int64  // how much got out of one of those before the last, in this half
}

func newPost(s *Stage) *post {
	p := &post{stage: s, sink: &sink{awaited: map[string]*awaited{}}, people: make(chan *writer, mailPeople),
		news: newWriter("newsletter")}
	p.sink.read = p.read
	for _, name := range [mailPeople]string{"alice", "ben", "carla", "dan", "eve"} {
		p.people <- newWriter(name)
	}
	for _, name := range []string{"frank", "gina", "henry"} {
		p.owners = append(p.owners, newWriter(name))
	}
	return p
}

func postOf(s *Stage) *post { return s.Props.(*post) }

func newWriter(name string) *writer {
	return &writer{name: name, password: rand.Text(), contact: name + "@home.example"}
}

// ready adds the users, as `weir user add` does.
func (p *post) ready() error {
	p.pages.at.Store(&url.URL{Scheme: "http", Host: p.stage.weir.PagesAddr().String()})
	all := append([]*writer{p.news}, p.owners...)
	for range mailPeople {
		w := <-p.people
		defer func() { p.people <- w }()
		all = append(all, w)
	}
	for _, w := range all {
		if _, err := console.UserAddCall.Ask(context.Background(), p.stage.control,
			console.NewUser{Name: w.name, Password: w.password, Contact: w.contact}); err != nil {
			return err
		}
	}
	return nil
}

// later returns how an actor of the scene learns what became of its mail.
func later(who int) func(*Stage, func(Result, time.Duration, time.Time)) {
	return func(s *Stage, tell func(Result, time.Duration, time.Time)) { postOf(s).tell[who] = tell }
}

func enter(act func(*post, context.Context) Result) func(*Stage) (func(context.Context) Result, func()) {
	return func(s *Stage) (func(context.Context) Result, func()) {
		p := postOf(s)
		return func(ctx context.Context) Result { return act(p, ctx) }, func() {}
	}
}

// enterThief begins the half: the thief enters last. When the thief leaves, everything is brought to its end.
func enterThief(s *Stage) (func(context.Context) Result, func()) {
	p := postOf(s)
	p.late.Store(0)
	p.visitors.Store(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close()
	p.thefts, p.worst = 0, 0
	return p.spam, p.finish
}

// newMessage returns a mail with an id of its own.
func (p *post) newMessage(w *writer, subject, text string, to ...string) *message {
	return &message{id: fmt.Sprintf("%s.%d@here.example", w.name, p.number.Add(1)), subject: subject, text: text,
		from: w.address(), to: to}
}

// stranger returns an address that nobody has written to before.
func (p *post) stranger(kind string) string {
	return fmt.Sprintf("%s.%d@there.example", kind, p.number.Add(1))
}

// send sends a mail. a.tell is called when it has arrived everywhere.
func (p *post) send(ctx context.Context, w *writer, l *message, a *awaited) (Result, error) {
	err := submit(ctx, p.stage.MailAddr(), w.name, w.password, l, func() { p.sink.await(l, a) })
	r := taken(err)
	if r != Held {
		p.sink.forget(l.id)
	}
	return r, err
}

func (p *post) chat(ctx context.Context) Result {
	w := <-p.people
	defer func() { p.people <- w }()
	to := w.next(time.Now())
	subject := "How are you?"
	if len(to) > 1 {
		subject = "My birthday"
	}
	r, _ := p.send(ctx, w, p.newMessage(w, subject, "See you soon.", to...), &awaited{tell: p.timely(p.tell[forPeople])})
	return r
}

// publish sends the newsletter to somebody new.
func (p *post) publish(ctx context.Context) Result {
	l := p.newMessage(p.news, "Our newsletter", "News.", p.stranger("reader"))
	r, _ := p.send(ctx, p.news, l, &awaited{tell: p.timely(p.tell[forNews])})
	return r
}

// timely counts late mails.
func (p *post) timely(tell telling) telling {
	return func(r Result, took time.Duration, at time.Time) {
		if took > mailLate {
			p.late.Add(1)
		}
		tell(r, took, at)
	}
}

// read is given the mails that no actor has written: weir's notices to owners.
func (p *post) read(to string, m *mail.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.theft; t != nil && t.owner.contact == to {
		p.stage.Note(t.receive(m, time.Now())...)
	}
}

func (p *post) current() *theft {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.theft
}

// steal returns the theft under way. When one is over, and some time has passed, there is another.
func (p *post) steal(now time.Time) *theft {
	p.mu.Lock()
	defer p.mu.Unlock()
	// In a half with an open end, one account is stolen in each round.
	if p.theft != nil && !p.theft.is(func(t *theft) bool { return t.over && now.Sub(t.began) > round*8/10 }) {
		return p.theft
	}
	p.close()
	owner := p.owners[p.ever%len(p.owners)]
	p.theft = &theft{owner: owner, stolen: *owner, began: now}
	p.thefts++
	p.ever++
	p.stage.Note(fmt.Sprintf("The password of %s is stolen. Somebody sends to a new address with it, again and again.",
		owner.name))
	return p.theft
}

// close ends the theft under way. None of its mail is awaited any more.
func (p *post) close() {
	if p.theft == nil {
		return
	}
	p.sink.drop(p.theft)
	p.theft.mu.Lock()
	p.worst = max(p.worst, p.theft.out)
	p.theft.mu.Unlock()
	p.theft = nil
}

// A frontDoor is the web server in front of weir's pages.
type frontDoor struct{ at atomic.Pointer[url.URL] }

func (d *frontDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to := d.at.Load()
	if to == nil {
		http.NotFound(w, r)
		return
	}
	(&httputil.ReverseProxy{Rewrite: func(pr *httputil.ProxyRequest) {
		pr.SetURL(to)
		pr.Out.Host = pr.In.Host
	}}).ServeHTTP(w, r)
}

// Domains that are reserved for examples (RFC 2606).
const (
	mailHost    = "mail.here.example"
	mailCommand = "weir@" + mailHost
	mailAdmin   = "admin@here.example"
)

// A writer sends mail over the gate, one at a time.
type writer struct {
	name, password string
	contact        string // where they are told of held mail

	// People write to those they know, and now and then to somebody new or to several at once.
	friends       []string
	met, invited  time.Time // when they wrote to somebody new, and to several
	written, last int       // mails, and to which of their friends
}

func (w *writer) address() string { return w.name + "@here.example" }

type message struct {
	id, subject, text string
	from              string
	to                []string
}

func (l *message) String() string {
	return fmt.Sprintf("From: <%s>\r\nTo: %s\r\nSubject: %s\r\nDate: %s\r\nMessage-ID: <%s>\r\n\r\n%s\r\n",
		l.from, strings.Join(l.to, ", "), l.subject, time.Now().Format(time.RFC1123Z), l.id,
		strings.ReplaceAll(l.text, "\n", "\r\n"))
}

// submit logs in and sends a mail, in a session of its own. loggedIn is called in between: the time of the mail counts
// from there.
func submit(ctx context.Context, gate, name, password string, l *message, loggedIn func()) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", gate)
	if err != nil {
		return err
	}
	c := smtp.NewClient(conn)
	defer c.Close()
	c.CommandTimeout, c.SubmissionTimeout = patience, patience
	if err := c.Auth(sasl.NewPlainClient("", name, password)); err != nil {
		return err
	}
	loggedIn()
	if err := c.SendMail(l.from, l.to, strings.NewReader(l.String())); err != nil {
		return err
	}
	_ = c.Quit() // the mail was taken
	return nil
}

// taken says what an answer of the gate means. A mail that it takes is not handed on yet.
func taken(err error) Result {
	if err == nil {
		return Held
	}
	if code(err)/100 == 5 {
		return Refused
	}
	return Failed
}

// code returns the code of the gate's answer, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*smtp.SMTPError](err); ok {
		return e.Code
	}
	return 0
}

// The pace of people, by the clock of the scene.
const (
	meetEvery   = 2 * mailPeriod // somebody new: the credit for that has come back long before
	inviteEvery = 5 * mailPeriod // as many at once as come back in that time
	inviteSize  = 4
	knownMost   = 4 // of all the friends that there are: fewer than the working set has room for
)

func (w *writer) next(now time.Time) []string {
	w.written++
	if w.written%3 == 0 && now.Sub(w.invited) >= inviteEvery {
		w.invited = now
		return w.invitees()
	}
	if len(w.friends) < knownMost && now.Sub(w.met) >= meetEvery {
		w.met = now
		w.friends = append(w.friends, fmt.Sprintf("%s.friend.%d@there.example", w.name, len(w.friends)+1))
		w.last = len(w.friends) - 1
		return w.friends[w.last:]
	}
	w.last = (w.last + 1) % len(w.friends)
	return w.friends[w.last : w.last+1]
}

func (w *writer) invitees() (all []string) {
	for i := range inviteSize {
		all = append(all, fmt.Sprintf("%s.guest.%d@there.example", w.name, i+1))
	}
	return all
}

// maxMessage bounds the size of a mail.
const maxMessage = 1 << 20

// A sink is the mail server behind the gate: mail that arrives there has got out. It is safe for concurrent use.
type sink struct {
	read func(to string, m *mail.Message) // is given what nobody awaits: notices

	mu      sync.Mutex
	awaited map[string]*awaited // by message id
}

// An awaited is a mail of an actor. It is known until it has arrived everywhere.
type awaited struct {
	tell  telling // when it has arrived everywhere
	theft *theft  // that it belongs to, or nil: then it must arrive
	stay  bool    // it is known afterwards, too: it might arrive again

	began time.Time
	left  int             // recipients
	seen  map[string]bool // recipients
	again int             // how often one has got it once more
}

func (k *sink) serve(s *Stage) (addr string, err error) {
	l, err := net.Listen("tcp", loopback)
	if err != nil {
		return "", err
	}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &delivery{sink: k}, nil
	}))
	server.Domain, server.MaxMessageBytes, server.MaxRecipients = "sink.example", maxMessage, 100
	server.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	go server.Serve(l)
	s.strike = append(s.strike, func() { server.Close() })
	return l.Addr().String(), nil
}

// await makes a mail known before it is sent.
func (k *sink) await(l *message, a *awaited) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a.began, a.left, a.seen = time.Now(), len(l.to), make(map[string]bool, len(l.to))
	k.awaited[l.id] = a
}

func (k *sink) forget(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.awaited, id)
}

// drop forgets all mail of a theft, or for nil all other mail, which should have arrived. It returns how to tell of it.
func (k *sink) drop(t *theft) (lost []telling) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, a := range k.awaited {
		if a.theft == t {
			lost = append(lost, a.tell)
			delete(k.awaited, id)
		}
	}
	return lost
}

// copies returns how many recipients have got a mail that stays known, and how often one got it again.
func (k *sink) copies(id string) (arrived, again int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a := k.awaited[id]; a != nil {
		return len(a.seen), a.again
	}
	return 0, 0
}

// arrived is called for each delivery, before it is acknowledged.
func (k *sink) arrived(to []string, text []byte, at time.Time) error {
	m, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "this is not a message"}
	}
	id := strings.Trim(m.Header.Get("Message-Id"), "<>")
	done, known := k.note(id, to, at)
	switch {
	case done != nil:
		done()
	case !known && k.read != nil:
		for _, one := range to {
			k.read(one, m)
		}
	}
	return nil
}

// note notes the recipients that a mail has reached. done is not nil for the last one.
func (k *sink) note(id string, to []string, at time.Time) (done func(), known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.awaited[id]
	if a == nil {
		return nil, false
	}
	for _, one := range to {
		if a.seen[one] {
			a.again++
			continue
		}
		a.seen[one] = true
		a.left--
	}
	if a.left > 0 || a.tell == nil {
		return nil, true
	}
	tell, took := a.tell, at.Sub(a.began)
	a.tell = nil
	if !a.stay {
		delete(k.awaited, id)
	}
	return func() { tell(Served, took, at) }, true
}

type delivery struct {
	sink *sink
	to   []string
}

var _ smtp.Session = (*delivery)(nil)

func (d *delivery) Reset()                               { d.to = nil }
func (d *delivery) Logout() error                        { return nil }
func (d *delivery) Mail(string, *smtp.MailOptions) error { return nil }
func (d *delivery) Rcpt(to string, _ *smtp.RcptOptions) error {
	d.to = append(d.to, strings.ToLower(to))
	return nil
}

func (d *delivery) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return d.sink.arrived(d.to, text, time.Now())
}

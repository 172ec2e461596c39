package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/mail"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"weir"
	"weir/gate"
	"weir/identify"
	"weir/internal/words"
	"weir/mail/spool"
	"weir/store"
)

// Bounds of the pages of mail users, and the names that they have in the metrics.
const (
	maxPageConnections = 256
	maxPageRequests    = 64 // at once
	maxTicket          = 256
	boundPages         = "selfservice_connections"
	boundPageRequests  = "selfservice_requests"
)

// DefaultSelfServiceListen is where the pages of mail users are served by default.
const DefaultSelfServiceListen = "127.0.0.1:9001"

// SelfServiceOptions configure the pages on which mail users act on their own held mail. A link to the page is in every
// notice that a user gets.
type SelfServiceOptions struct {
	// The address to listen on. It speaks plain HTTP: put a web server with TLS in front of it. Default 127.0.0.1:9001.
	Listen string `yaml:"listen"`
	// The address of the pages as people see it, that of the web server in front: https://mail.example.org/weir.
	// Default: none, then there are no pages, and no links in notices.
	URL string `yaml:"url"`
	// What users can do on the pages after they have logged in with their mail password: look (the default: see what
	// waits, and have a link sent to their contact), act (all that the link is good for; also for those who have stolen
	// the password) or off. Where no gate knows passwords, nobody can log in.
	Password PasswordLogIn `yaml:"password"`
	// The language of notices, for users who have not chosen one: en or de. On the pages, the browser's language goes
	// first. Default en.
	Language string `yaml:"language"`
	// The contact of users who have none registered: {user}@home.example, where {user} is the name without its domain,
	// and {domain} that domain. It works without pages, too. Default: none.
	Contacts string `yaml:"contacts"`
	// The web servers in front, whose X-Forwarded-For is believed: 127.0.0.1/32. Then wrong passwords are also limited
	// per network, so that one network cannot keep all others from logging in. Default: none.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
}

// A PasswordLogIn says what a login with the mail password is good for.
type PasswordLogIn string

// What it may be good for.
const (
	PasswordLook PasswordLogIn = "look"
	PasswordAct  PasswordLogIn = "act"
	PasswordOff  PasswordLogIn = "off"
)

// ContactOf is the contact that the rule gives a user; empty if it gives none.
func (o SelfServiceOptions) ContactOf(user string) string {
	name, domain, _ := strings.Cut(user, "@")
	contact := strings.NewReplacer("{user}", name, "{domain}", domain).Replace(o.Contacts)
	if a, err := mail.ParseAddress(contact); err != nil || a.Address != contact || strings.EqualFold(contact, user) {
		return ""
	}
	return contact
}

// WithDefaults returns the options with the defaults filled in. Without pages there are none.
func (o SelfServiceOptions) WithDefaults() SelfServiceOptions {
	if o.Enabled() {
		o.Password = cmp.Or(o.Password, PasswordLook)
	}
	if o.Listen == "" && o.Enabled() {
		o.Listen = DefaultSelfServiceListen
	}
	return o
}

// Enabled reports whether there are pages.
func (o SelfServiceOptions) Enabled() bool { return o.URL != "" }

// Validate returns every error in the options, as joined weir.FieldErrors.
func (o SelfServiceOptions) Validate() error {
	var all []error
	add := func(path, msg, hint string) {
		all = append(all, &weir.FieldError{Path: path, Msg: msg, Hint: hint})
	}
	if o.Listen != "" {
		if _, err := checkListen(o.Listen); err != nil {
			add("listen", fmt.Sprintf("%q is not an address: %s", o.Listen, err), "write "+DefaultSelfServiceListen)
		}
		if o.URL == "" {
			add("url", "the page needs an address",
				"write url: https://mail.example.org/weir, or leave listen out")
		}
	}
	if o.URL != "" {
		if msg, hint := checkURL(o.URL); msg != "" {
			add("url", msg, hint)
		}
	}
	var v weir.Mistakes
	gate.ValidateProxies(&v, "trusted_proxies", o.TrustedProxies)
	v.OneOf("language", o.Language, words.Tags()...)
	if o.Contacts != "" && (o.ContactOf("ann@example.org") == "" || !strings.Contains(o.Contacts, "{user}")) {
		v.Add("contacts", fmt.Sprintf("%q does not make an address", o.Contacts), "write {user}@home.example")
	}
	if o.Password != "" {
		v.OneOf("password", string(o.Password), string(PasswordLook), string(PasswordAct), string(PasswordOff))
	}
	return errors.Join(append(all, v...)...)
}

// checkURL returns the error in the address of the pages, if any.
func checkURL(text string) (msg, hint string) {
	const example = "write https://mail.example.org/weir"
	u, err := url.Parse(text)
	wrong := weir.CheckURL(u)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return fmt.Sprintf("%q is not the address of a page", text), example
	case wrong != nil:
		return wrong.Error(), example
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.ContainsAny(text, "?#"):
		return fmt.Sprintf("%q has more than a host and a path", text), example
	case strings.TrimSuffix(u.Path, "/") != strings.TrimSuffix(path.Clean("/"+u.Path), "/"):
		return fmt.Sprintf("%q has a path that is not plain", text), example
	case u.Scheme == "http" && !isLocal(u.Hostname()):
		return "passwords and links would go over the network for everybody to read",
			"write https:// and put a web server with TLS in front"
	}
	return "", ""
}

func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Link is the address of the page of a ticket; empty if there are no pages.
func (o SelfServiceOptions) Link(ticket string) string {
	if o.URL == "" {
		return ""
	}
	return strings.TrimSuffix(o.URL, "/") + "/t/" + ticket
}

// prefix is the path under which people see the pages, without a slash at its end.
func (o SelfServiceOptions) prefix() string {
	u, err := url.Parse(o.URL)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(u.Path, "/")
}

// A SelfService serves mail users the pages on which they act on their own held mail. NewSelfService, Listen, Start and
// Stop are called in this order, by one goroutine; Configure at any time.
type SelfService struct {
	listen  string
	backend SelfServiceBackend
	metrics *Metrics
	log     *slog.Logger
	forms   forms
	options atomic.Pointer[SelfServiceOptions]
	slots   chan struct{} // one for each request under way
	lifecycle
}

// NewSelfService returns a server that has bound nothing yet. The secret signs forms.
func NewSelfService(o SelfServiceOptions, b SelfServiceBackend, secret []byte, m *Metrics,
	log *slog.Logger) *SelfService {
	s := &SelfService{
		listen: o.WithDefaults().Listen, backend: b, metrics: m, log: log, forms: newForms(secret),
		slots: make(chan struct{}, maxPageRequests),
	}
	s.Configure(o)
	s.http = newHTTPServer(s.handler(), log)
	return s
}

// Configure changes the options of the pages. The address to listen on stays the same.
func (s *SelfService) Configure(o SelfServiceOptions) {
	o = o.WithDefaults()
	s.options.Store(&o)
}

// source is the address of a user; invalid where it is not known. It is not as long as nobody says who the web server
// in front is: the peer may be that, and what stands in a header anybody's word.
func (s *SelfService) source(r *http.Request) netip.Addr {
	trusted := s.options.Load().TrustedProxies
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if len(trusted) == 0 || err != nil {
		return netip.Addr{}
	}
	proxies := identify.NewProxies(trusted, identify.XForwardedFor)
	from := proxies.Source(peer.Addr(), r.Header)
	if from.Unknown || from.Proxied && !from.XForwardedFor {
		return netip.Addr{}
	}
	return from.Addr
}

func (s *SelfService) Listen() error {
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		return fmt.Errorf("pages of mail users: %w", err)
	}
	s.bind(&boundedListener{Listener: l, max: maxPageConnections,
		many: func(a netip.Addr) bool {
			proxies := identify.NewProxies(s.options.Load().TrustedProxies, identify.XForwardedFor)
			return proxies.Trusts(a)
		},
		reached: func() { s.metrics.BoundReached(boundPages) }})
	return nil
}

// StampPath is where programs find out how stamps for mail are made.
const StampPath = "/.well-known/weir-mail-stamp"

// stamps publishes how stamps for mail are made.
func (s *SelfService) stamps(w http.ResponseWriter, r *http.Request) {
	params := s.backend.StampParams()
	if params == nil {
		s.fail(w, r, nothingHere)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(params)
}

func (s *SelfService) handler() http.Handler {
	mux := http.NewServeMux()
	// GET and HEAD change nothing: programs that scan mail follow links
	mux.HandleFunc("GET /t/{ticket}", s.show)
	mux.HandleFunc("POST /t/{ticket}", s.submit)
	mux.HandleFunc("GET /login", s.showLogIn)
	mux.HandleFunc("POST /login", s.logIn)
	mux.HandleFunc("GET /own/{ticket}", s.look)
	mux.HandleFunc("POST /own/{ticket}", s.lookAct)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if !s.backend.LogsIn() {
			s.fail(w, r, nothingHere)
			return
		}
		w.Header().Set("Location", "login")
		w.WriteHeader(http.StatusSeeOther)
	})
	mux.HandleFunc("GET "+StampPath, s.stamps)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, nothingHere) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		protect(h, pagePolicy)
		h.Set("X-Robots-Tag", "noindex, nofollow, noarchive")
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		default:
			s.metrics.BoundReached(boundPageRequests)
			h.Set("Retry-After", "5")
			http.Error(w, s.spoken(r, "").Say("Too many people are here at once. Please try again in a moment."),
				http.StatusServiceUnavailable)
			return
		}
		// A web server in front may pass on the whole path, or strip its own prefix.
		o := s.options.Load()
		if !o.Enabled() {
			s.fail(w, r, nothingHere)
			return
		}
		if prefix := o.prefix(); prefix != "" && strings.HasPrefix(r.URL.Path, prefix+"/") {
			http.StripPrefix(prefix, mux).ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// A SelfServiceBackend lets mail users see and act on their own mail. It is safe for concurrent use. A ticket is the
// secret part of a link; a forged one is rejected before any costly work. Besides the errors below a SelfServiceBackend
// may return an *Error, whose text the user reads.
type SelfServiceBackend interface {
	// Page returns what the holder of a ticket sees: at most MaxPageMails messages of their own, the oldest first.
	Page(ctx context.Context, ticket string) (PageView, error)
	// Act carries out a command, all of it or nothing, and once for each form: it returns ErrTwice for a form that was
	// used before. Messages that are gone, or of other users, are skipped.
	Act(ctx context.Context, ticket, form string, c spool.Action) (spool.Done, error)
	// ChangePassword and ChangeContact return ErrPassword where the current password is wrong.
	ChangePassword(ctx context.Context, ticket, old, new string) error
	ChangeContact(ctx context.Context, ticket, password, contact string) error
	// ChangeLanguage sets the language that notices and the page are written in; empty for the usual one.
	ChangeLanguage(ctx context.Context, ticket, language string) error
	// LogsIn reports whether users can log in with their passwords.
	LogsIn() bool
	// LogIn begins a session of a user with their mail password. It returns ErrPassword for a wrong name or password,
	// ErrLate, ErrBusy, ErrNoEntry, and ErrNoLogIn where LogsIn is false. Time and answer do not tell whether there is
	// such a user. from is where they are; invalid where that is not known.
	LogIn(ctx context.Context, from netip.Addr, name, password string) (Session, error)
	// Look returns what a user sees in a session that is for looking only.
	Look(ctx context.Context, ticket string) (PageView, error)
	// SendLink sends the user of such a session a link to act with, at their contact, and reports whether there is
	// one.
	SendLink(ctx context.Context, ticket string) (bool, error)
	// LogOut ends such a session.
	LogOut(ctx context.Context, ticket string) error
	// StampParams returns the parameters of mail stamps, as programs read them; nil if no gate takes stamps.
	StampParams() []byte
}

// A Session is what a login with a password begins.
type Session struct {
	Ticket string
	Act    bool // it is as good as a link in a notice; else it is for Look
}

// Errors of a SelfServiceBackend.
var (
	ErrNoLogIn  = errors.New("nobody can log in with a password")
	ErrNoEntry  = errors.New("the password is right, but the user is not known")
	ErrBusy     = errors.New("too many log in at once")
	ErrForged   = errors.New("the ticket is not genuine")
	ErrOld      = errors.New("the ticket is out of date")
	ErrTwice    = errors.New("this was done before")
	ErrPassword = errors.New("the password is wrong")
	ErrLate     = errors.New("too many wrong passwords: not looked at")
)

// MaxPageMails is how many messages a page lists.
const MaxPageMails = 500

// A PageView is what a user sees.
type PageView struct {
	User    string
	Contact string    // where notices go; empty: nowhere
	LogIn   bool      // they have a password, so that they can change it
	Known   bool      // they are a user of the store, so that they can choose a language
	Stopped bool      // may not send
	Since   time.Time // when; zero where nobody knows
	Resume  time.Time // when they are tried again by itself; zero for never
	Until   time.Time // until when the link is good
	Waiting int       // recipients
	Limit   int       // how many may wait before the user is stopped
	Mails   []PageMail
	More    int // mails that are not listed, at least

	Elsewhere  words.Text // what became of mail that was too much, where weir does not keep it; empty: weir does
	Language   string     // the one that they chose; empty for none
	ByOperator bool       // an operator stopped them, who alone can let them go on
}

// A PageMail is a message that waits.
type PageMail struct {
	ID      store.MailID
	At      time.Time
	To      []string // who has not got it yet; at most MaxPageRecipients of them
	More    int      // how many there are besides
	Subject string
	Size    int64
	Delayed bool // it leaves by itself
	Held    bool // until somebody releases it
	New     bool // a recipient is new to the user, and it is withheld until it is released
}

// MaxPageRecipients is how many recipients of a message a page lists.
const MaxPageRecipients = 100

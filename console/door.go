package console

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"weir/console/access"
	"weir/store"
)

// Cookies. Where the client speaks TLS their names begin so that no other host, and no page without TLS, can set them.
const (
	sessionCookie = "weir_session"
	browserCookie = "weir_browser" // the operator has logged in with this browser before
	seedCookie    = "weir_form"    // binds the form of a login to the browser
	hostOnly      = "__Host-"
	browserLife   = 90 * 24 * time.Hour
)

// formHeader carries the token of forms where a script of our pages makes a call.
const formHeader = "X-Weir-Form"

// A caller is how somebody is known.
type caller struct {
	access.Identity
	// The browser would prove it for a page of another site, too: by a cookie, or through a proxy.
	ambient bool
	session string // the secret of the session, where there is one
}

// cookie sets a cookie that scripts cannot read and other sites cannot send. An empty value removes it.
func (s *Server) cookie(w http.ResponseWriter, r *http.Request, name, value string, life time.Duration) {
	c := &http.Cookie{Name: s.cookieName(r, name), Value: value, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, MaxAge: int(life.Seconds()), Secure: s.guard.Load().secure(r)}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// cookieName returns the name that a cookie has in the browser. Cookies know no ports: those of a demo must not replace
// the ones of a weir that serves on the same machine.
func (s *Server) cookieName(r *http.Request, name string) string {
	if s.backend.Demo() != nil {
		name = "demo_" + name
	}
	if s.guard.Load().secure(r) {
		name = hostOnly + name
	}
	return name
}

// cookieOf returns the value of a cookie. Where the client speaks TLS the one that was set without it does not count.
func (s *Server) cookieOf(r *http.Request, name string) string {
	if c, err := r.Cookie(s.cookieName(r, name)); err == nil {
		return c.Value
	}
	return ""
}

// who returns who sends a request; access.ErrNobody if that is not known.
func (s *Server) who(r *http.Request) (caller, error) {
	g, operators := s.guard.Load(), s.backend.Access()
	if operators == nil {
		return caller{}, errNoAccess
	}
	if said := r.Header.Values("Authorization"); len(said) > 0 {
		scheme, secret, _ := strings.Cut(said[0], " ")
		if !strings.EqualFold(scheme, "Bearer") || len(said) > 1 {
			return caller{}, access.ErrNobody
		}
		who, err := operators.Token(r.Context(), secret)
		return caller{Identity: who}, err
	}
	if secret := s.cookieOf(r, sessionCookie); secret != "" {
		who, err := operators.Session(r.Context(), secret)
		if !errors.Is(err, access.ErrNobody) {
			return caller{who, true, secret}, err
		}
	}
	if name := g.named(r); name != "" {
		who, err := operators.Vouched(r.Context(), name, g.proxy.Role)
		return caller{who, true, ""}, err
	}
	if g.anybody != access.None {
		return caller{Identity: access.Anybody(g.anybody)}, nil // it changes nothing
	}
	return caller{}, access.ErrNobody
}

// request is a call by somebody who is known.
func (s *Server) request(r *http.Request, who access.Identity) *Request {
	source := s.guard.Load().source(r)
	return &Request{Context: r.Context(), Who: who, From: source.String(), Source: source, backend: s.backend,
		serving: s.api}
}

// genuine reports whether a page of our own sent a request that changes something.
func (s *Server) genuine(r *http.Request, who caller, token string) bool {
	return !fromElsewhere(r, "") && s.backend.Access().Genuine(who.Identity, token)
}

var (
	errLogIn   = &Error{http.StatusUnauthorized, "log in, or send a token: Authorization: Bearer weir_…"}
	errGenuine = &Error{http.StatusForbidden, "this did not come from a page of weir, or the page is too old: nothing " +
		"was done"}
	errLocal = &Error{http.StatusForbidden, "this is for the control socket: run the command on the machine of weir"}
)

// identify says who makes a call over the network.
func (s *Server) identify(w http.ResponseWriter, r *http.Request, c *Call) (*Request, bool) {
	who, err := s.who(r)
	switch {
	case errors.Is(err, access.ErrNobody):
		w.Header().Set("WWW-Authenticate", `Bearer realm="weir"`)
		err = errLogIn
	case err != nil:
	case who.ambient && r.Method != http.MethodGet && !s.genuine(r, who, r.Header.Get(formHeader)):
		err = errGenuine
	case c.Local:
		err = errLocal
	default:
		err = c.may(who.Identity)
	}
	if err != nil {
		writeError(w, err)
		return nil, false
	}
	return s.request(r, who.Identity), true
}

// A logInPage is the page on which somebody logs in.
type logInPage struct {
	To    string // the page that they want
	Token string
	Name  string
	Wrong string
	Ended bool // with what they did last
}

// showLogIn shows the form of a login.
func (s *Server) showLogIn(w http.ResponseWriter, r *http.Request, code int, p logInPage) {
	operators := s.backend.Access()
	if operators == nil {
		writeError(w, errNoAccess)
		return
	}
	seed := s.cookieOf(r, seedCookie)
	if seed == "" || len(seed) > 64 {
		seed = rand.Text()
		s.cookie(w, r, seedCookie, seed, time.Hour)
	}
	p.Token = operators.Before(seed)
	s.render(w, code, logInText(), &layout{Title: "Log in", Root: "./", Page: p})
}

// logIn lets an operator in.
func (s *Server) logIn(w http.ResponseWriter, r *http.Request) {
	operators := s.backend.Access()
	if operators == nil {
		writeError(w, errNoAccess)
		return
	}
	if err := readForm(w, r); err != nil {
		writeError(w, err)
		return
	}
	p := logInPage{To: s.pagePath(r.PostForm.Get("to")), Name: r.PostForm.Get("name")}
	if fromElsewhere(r, "") || !operators.GenuineBefore(s.cookieOf(r, seedCookie), r.PostForm.Get("form")) {
		p.Wrong = "The form was too old, or your browser keeps no cookies. Please try again."
		s.showLogIn(w, r, http.StatusForbidden, p)
		return
	}
	source := s.guard.Load().source(r)
	in, err := operators.LogIn(r.Context(), access.Attempt{Name: p.Name, Password: r.PostForm.Get("password"),
		Source: source, Browser: s.cookieOf(r, browserCookie)})
	if err != nil {
		s.failLogIn(w, r, p, err)
		return
	}
	s.countLogIn("ok")
	s.welcome(w, r, in)
	seeOther(w, "./"+p.To)
}

// welcome gives a browser its session.
func (s *Server) welcome(w http.ResponseWriter, r *http.Request, in access.Admission) {
	// The old session, if any, ends: nobody goes on in a session that somebody else has begun.
	if old := s.cookieOf(r, sessionCookie); old != "" {
		_ = s.backend.Access().LogOut(r.Context(), old, s.guard.Load().source(r).String())
	}
	s.cookie(w, r, seedCookie, "", 0)
	s.cookie(w, r, sessionCookie, in.Secret, access.SessionLife)
	s.cookie(w, r, browserCookie, in.Browser, browserLife)
}

func (s *Server) failLogIn(w http.ResponseWriter, r *http.Request, p logInPage, err error) {
	code, result := http.StatusServiceUnavailable, "failed"
	switch {
	case errors.Is(err, access.ErrWrong):
		code, result, p.Wrong = http.StatusForbidden, "wrong", "Wrong name or password."
	case errors.Is(err, access.ErrGuessing):
		code, result, p.Wrong = http.StatusTooManyRequests, "throttled",
			"Too many wrong passwords: this one was not looked at. Wait a minute. On the machine itself, "+
				"weir operator password gives you another one."
		w.Header().Set("Retry-After", "60")
	case errors.Is(err, access.ErrBusy):
		result, p.Wrong = "busy", "Too many logins at once. Please try again in a minute."
		w.Header().Set("Retry-After", "60")
	default:
		p.Wrong = "This does not work at the moment. See the log of weir."
		if r.Context().Err() == nil {
			s.log.Error("a login failed", "err", err)
		}
	}
	s.countLogIn(result)
	if hidden, ok := s.refusals.Now(time.Since(s.made)); ok && (result == "wrong" || result == "throttled") {
		// The name is left out: it may be a password in the wrong field.
		s.log.Warn("a login to the console was refused", "source", s.guard.Load().source(r).String(),
			"result", result, "hidden", hidden)
	}
	s.showLogIn(w, r, code, p)
}

func (s *Server) countLogIn(result string) {
	s.metrics.counter("weir_console_logins_total", result).Inc()
}

// logOut ends a session.
func (s *Server) logOut(w http.ResponseWriter, r *http.Request) {
	who, err := s.who(r)
	if err == nil {
		err = readForm(w, r)
	}
	if err == nil && !s.genuine(r, who, r.PostForm.Get("form")) {
		err = errGenuine
	}
	if err == nil && who.session != "" {
		err = s.backend.Access().LogOut(r.Context(), who.session, s.guard.Load().source(r).String())
	}
	if err != nil && !errors.Is(err, access.ErrNobody) {
		writeError(w, err)
		return
	}
	s.cookie(w, r, sessionCookie, "", 0)
	seeOther(w, "./login")
}

// readForm reads a form, and nothing else.
func readForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	err := r.ParseForm()
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return &Error{http.StatusRequestEntityTooLarge, "the form is too long"}
	}
	if err != nil {
		return Invalid("the form cannot be read")
	}
	return nil
}

// seeOther sends a browser elsewhere. The address is relative: a proxy in front may have changed the path.
func seeOther(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// pagePath returns an address below our own pages if it is one, and otherwise that of the first page.
func (s *Server) pagePath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || len(to) > 1024 || strings.ContainsAny(to, "\\\r\n") {
		return ""
	}
	for _, p := range s.pages {
		if u.Path == p.path {
			q := u.Query()
			q.Del("said")
			return strings.TrimSuffix(p.path+"?"+q.Encode(), "?")
		}
	}
	return ""
}

// A guard says who may see the console, and by which name.
type guard struct {
	allow    []netip.Prefix
	hosts    []string
	profiles *[sha256.Size]byte // of the password for profiles; nil while they are off
	proxy    Proxy
	anybody  access.Role // of those who have not logged in
}

func newGuard(o Options) *guard {
	return &guard{allow: o.Allow, hosts: o.Hosts, profiles: profilesSum(o.ProfilesPassword), proxy: o.Proxy,
		anybody: o.WithoutLogin}
}

// peer is the address that a connection comes from.
func peer(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr().Unmap().WithZone("")
}

// proxied reports whether a request comes from the proxy.
func (g *guard) proxied(r *http.Request) bool { return g.isProxy(peer(r)) }

func (g *guard) isProxy(from netip.Addr) bool {
	return slices.ContainsFunc(g.proxy.From, func(p netip.Prefix) bool { return p.Contains(from) })
}

// source is who is behind a request: behind the proxy, the last address that it has added.
func (g *guard) source(r *http.Request) netip.Addr {
	if g.proxied(r) {
		if said := r.Header.Values("X-Forwarded-For"); len(said) > 0 {
			last := said[len(said)-1]
			last = strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
			if a, err := netip.ParseAddr(last); err == nil {
				return a.Unmap().WithZone("")
			}
		}
	}
	return peer(r)
}

// secure reports whether the client speaks TLS, with weir or with the proxy.
func (g *guard) secure(r *http.Request) bool {
	return r.TLS != nil || g.proxied(r) && r.Header.Get("X-Forwarded-Proto") == "https"
}

// named is who the proxy says has logged in, or "". Of two names none counts.
func (g *guard) named(r *http.Request) string {
	if g.proxy.Header == "" || !g.proxied(r) {
		return ""
	}
	names := r.Header.Values(g.proxy.Header)
	if len(names) != 1 || checkLine("name", names[0], store.MaxOperatorName, false) != nil {
		return ""
	}
	return names[0]
}

// admits reports whether a peer may connect.
func (g *guard) admits(peer net.Addr) bool {
	tcp, ok := peer.(*net.TCPAddr)
	return ok && g.admitsAddr(tcp.AddrPort().Addr())
}

func (g *guard) admitsAddr(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// check returns why a request is refused, or "". The address is that of the connection: headers can be forged. The host
// name is checked, unless any will do, because a web page can make its own name resolve to this machine and then read
// the answer.
func (g *guard) check(r *http.Request, anyName bool) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !g.admitsAddr(peer.Addr()) {
		return "your address is not in console.allow"
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if anyName || host == "" || host == "localhost" || slices.Contains(g.hosts, host) {
		return ""
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return ""
	}
	return fmt.Sprintf("the name %q is not in console.hosts", host)
}

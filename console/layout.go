package console

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/console/access"
	"weir/internal/shown"
)

//go:embed layout.html
var layoutHTML string

//go:embed login.html
var logInHTML string

//go:embed wrong.html
var wrongHTML string

//go:embed once.html
var onceHTML string

// A page of the console has two files: NAME.go with what it shows, and NAME.html with how. newPage makes it, and pages
// lists it.
type page struct {
	path string // below the console; empty for the first one
	name string // in the navigation
	// under is the path of the page in the navigation that this one belongs to; empty: it is there itself.
	under string
	role  access.Role
	live  bool // it keeps itself up to date, where scripts run
	plots bool // it has some, whose values a script shows
	text  *template.Template
	// show returns what the page shows. An *Error is shown in its place.
	show func(*visit) (any, error)
	// there reports whether weir has something to show here; nil: always.
	there func(Backend) bool
}

// consolePages are the pages in the order of the navigation. They are made once, and do not change.
var consolePages = sync.OnceValue(func() []*page {
	return slices.Concat([]*page{demoPage(), overviewPage(), whyPage(), throttlesPage(), capacityPage(), sourcesPage()},
		mailPages(), []*page{farmPage(), auditPage(), operatorsPage(), accountPage()})
})

// A visit is somebody who looks at a page.
type visit struct {
	*Request
	query url.Values
	// status is that of one moment, for the page and what is around it: the counts of mail are read from the store.
	status func() Status
}

// newPage makes a page of its text, which is shown in the layout. The text has a layout as its data; what show returns
// is its Page.
func newPage(p page, text string, more ...string) *page {
	p.text = laidOut(append([]string{text}, more...)...)
	return &p
}

// laidOut makes a template for the layout.
func laidOut(texts ...string) *template.Template {
	t := template.Must(template.New("layout").Funcs(template.FuncMap{
		"when":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"moment": moment,
		"shown":  shown.Text,
		"several": func(n any, what string) string {
			if fmt.Sprint(n) != "1" {
				what += "s"
			}
			return fmt.Sprint(n, " ", what)
		},
		"countOf": countOf,
		"changes": auditChanges,
		"inWords": auditText,
		"pair":    func(this any, with *layout) pair { return pair{this, with} },
	}).Parse(layoutHTML))
	content := t.New("content")
	template.Must(content.Parse(texts[0]))
	for _, more := range texts[1:] {
		template.Must(t.New("more").Parse(more))
	}
	return t
}

// A pair is what a template that pages share is given: what it shows, and the layout around it.
type pair struct {
	This any
	With *layout
}

// Pages that are not in the navigation. Commands, which show none, do not make them.
var (
	logInText = sync.OnceValue(func() *template.Template { return laidOut(logInHTML) })
	wrongText = sync.OnceValue(func() *template.Template { return laidOut(wrongHTML) })
	onceText  = sync.OnceValue(func() *template.Template { return laidOut(onceHTML) })
)

// A layout is what every page shows around its own part.
type layout struct {
	Title   string
	Root    string // the console, relative to the page
	Version string
	Nav     []navItem
	Who     string
	Own     bool // it is an operator, with a page of their own
	Role    access.Role
	Session bool   // there is one to log out of
	Form    string // the token that every form carries
	Back    string // where a form leads back to
	Said    string // the result of the last form
	Bad     bool   // it failed
	// ShadowAll is the emergency switch, which every page speaks of while it is on.
	ShadowAll *ShadowAll
	Live      bool
	Plots     bool
	Page      any
}

type navItem struct {
	Path, Name string
	Here       bool
}

// May reports whether the one who looks may do what needs a role.
func (f *layout) May(role access.Role) bool { return f.Role.May(role) }

// page shows a page to somebody who may see it, and asks others to log in.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	if path == "login" {
		q := r.URL.Query()
		s.showLogIn(w, r, http.StatusOK, logInPage{To: s.pagePath(q.Get("to")), Ended: q.Has("ended")})
		return
	}
	who, err := s.who(r)
	if errors.Is(err, access.ErrNobody) {
		to := s.pagePath(strings.TrimPrefix(r.URL.RequestURI(), "/"))
		if to != "" {
			to = "?to=" + url.QueryEscape(to)
		}
		seeOther(w, "./login"+to)
		return
	}
	if err != nil {
		writeError(w, err)
		return
	}
	for _, p := range s.pages {
		if p.path == path && (p.there == nil || p.there(s.backend)) {
			s.visit(w, r, who, p)
			return
		}
	}
	s.fail(w, s.layout(r, who), NotFound("There is no such page. Those for mail and for a farm are there "+
		"where the configuration has them."))
}

func (s *Server) visit(w http.ResponseWriter, r *http.Request, who caller, p *page) {
	status := sync.OnceValue(s.backend.Status)
	f := s.layoutWith(r, who, p, status)
	if !who.Role.May(p.role) {
		s.fail(w, f, &Error{http.StatusForbidden, "This page needs the role " + string(p.role) + "."})
		return
	}
	v, err := p.show(&visit{s.request(r, who.Identity), r.URL.Query(), status})
	if err != nil {
		s.fail(w, f, understood(err))
		return
	}
	f.Page = v
	s.render(w, http.StatusOK, p.text, f)
}

// layout fills in what is around what is no page.
func (s *Server) layout(r *http.Request, who caller) *layout {
	return s.layoutWith(r, who, nil, s.backend.Status)
}

// layoutWith fills in what is around a page.
func (s *Server) layoutWith(r *http.Request, who caller, here *page, status func() Status) *layout {
	operators, now := s.backend.Access(), status()
	f := &layout{Title: "Not found", Root: "./", Version: now.Version, Who: who.Name, Own: who.Operator != "",
		Role: who.Role, Session: who.session != "", Form: operators.Form(who.Identity), ShadowAll: now.ShadowAll}
	for _, p := range s.pages {
		if who.Role.May(p.role) && (p.there == nil || p.there(s.backend)) {
			if p.under == "" {
				within := here != nil && here.under != "" && here.under == p.path
				f.Nav = append(f.Nav, navItem{p.path, p.name, p == here || within})
			}
		}
	}
	if here != nil {
		f.Title, f.Live, f.Plots = here.name, here.live, here.plots
		f.Back = s.pagePath(strings.TrimPrefix(r.URL.RequestURI(), "/"))
	}
	f.Said, f.Bad = s.readSaid(who, r.URL.Query().Get("said"))
	return f
}

// fail shows an error in the layout.
func (s *Server) fail(w http.ResponseWriter, f *layout, err error) {
	e, known := errors.AsType[*Error](err)
	if !known {
		s.log.Error("a page of the console failed", "err", err)
		e = &Error{http.StatusInternalServerError, "This does not work at the moment: " + err.Error()}
	}
	f.Live, f.Plots, f.Page = false, false, e
	s.render(w, e.Code, wrongText(), f)
}

func (s *Server) render(w http.ResponseWriter, code int, t *template.Template, f *layout) {
	var b bytes.Buffer
	if err := t.Execute(&b, f); err != nil {
		s.log.Error("a page of the console failed", "err", err)
		writeJSON(w, http.StatusInternalServerError, &Error{Msg: err.Error()})
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes())
}

// submit makes the call that a form is for, and leads back to the page with the result. The fields of the form are
// those of the call, besides form (the token) and back.
func (s *Server) submit(w http.ResponseWriter, r *http.Request) {
	who, err := s.who(r)
	if errors.Is(err, access.ErrNobody) {
		seeOther(w, "../login")
		return
	}
	if err != nil {
		writeError(w, err)
		return
	}
	notDone := func(err error) {
		f := s.layout(r, who)
		f.Title, f.Root = "Not done", "../"
		s.fail(w, f, err)
	}
	c := s.api.named(r.PathValue("call"))
	if c == nil {
		notDone(NotFound("There is no such form."))
		return
	}
	if err := readForm(w, r); err != nil {
		notDone(err)
		return
	}
	values := r.PostForm
	back := s.pagePath(values.Get("back"))
	token := values.Get("form")
	values.Del("back")
	values.Del("form")
	switch {
	case !s.genuine(r, who, token):
		err = errGenuine
	case c.Local || c.Stream:
		err = errLocal
	default:
		err = c.may(who.Identity)
	}
	if err != nil {
		notDone(err)
		return
	}
	text, out, err := s.carryOut(s.request(r, who.Identity), c, values)
	bad := err != nil
	switch {
	case bad:
		text = err.Error()
	case c.shows:
		f := s.layout(r, who)
		f.Title, f.Root, f.Back, f.Page = "Shown once", "../", back, out
		s.render(w, http.StatusOK, onceText(), f)
		return
	case s.ended(r, who):
		seeOther(w, "../login?ended=1")
		return
	}
	join := "?"
	if strings.Contains(back, "?") {
		join = "&"
	}
	seeOther(w, "../"+back+join+"said="+url.QueryEscape(s.writeSaid(who, text, bad)))
}

// carryOut makes a call with the fields of a form, and says what came of it.
func (s *Server) carryOut(q *Request, c *Call, values url.Values) (text string, out any, err error) {
	in := c.newIn()
	if err := fill(in, values); err != nil {
		return "", nil, err
	}
	out, err = q.do(c, in)
	switch {
	case err != nil:
		return "", nil, err
	case c.said == nil:
		return "Done.", out, nil
	}
	return c.said(in, out), out, nil
}

// ended reports whether what somebody did has ended their own session, as a new password does.
func (s *Server) ended(r *http.Request, who caller) bool {
	if who.session == "" {
		return false
	}
	_, err := s.backend.Access().Session(r.Context(), who.session)
	return errors.Is(err, access.ErrNobody)
}

// maxText bounds what a page says about a form.
const maxText = 500

// writeSaid puts a result into a parameter of the page, so that it can be reloaded. It is signed: otherwise a link
// could make the page say anything.
func (s *Server) writeSaid(who caller, text string, bad bool) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	mark := "1"
	if bad {
		mark = "0"
	}
	said := mark + base64.RawURLEncoding.EncodeToString([]byte(text))
	return said + "." + s.backend.Access().Sign(who.Identity, "said", said)
}

// readSaid reads what writeSaid wrote; nothing for anything else.
func (s *Server) readSaid(who caller, param string) (text string, bad bool) {
	said, signature, _ := strings.Cut(param, ".")
	if said == "" || !s.backend.Access().Signed(who.Identity, "said", said, signature) {
		return "", false
	}
	b, err := base64.RawURLEncoding.DecodeString(said[1:])
	if err != nil {
		return "", false
	}
	return string(b), said[0] == '0'
}

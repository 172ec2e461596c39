package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"weir/internal/words"
	"weir/store"
)

// pagePolicy allows the inline style, by its hash, and forms to the same site. The style is inline so that it works
// under any path of a web server in front.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'"
}()

// shownRecipients is how many recipients of a message are shown at first; the others unfold.
const shownRecipients = 3

// A mailRow is a message as the page shows it.
type mailRow struct {
	PageMail
	First, Rest []string
}

// Others is how many recipients are hidden or left out.
func (m mailRow) Others() int { return len(m.Rest) + m.More }

func rowsOf(mails []PageMail) (rows []mailRow) {
	for _, m := range mails {
		n := min(len(m.To), shownRecipients)
		if len(m.To) == n+1 {
			n++ // "1 more" would be no shorter
		}
		rows = append(rows, mailRow{PageMail: m, First: m.To[:n], Rest: m.To[n:]})
	}
	return rows
}

// ticketLike reports whether a text could be a ticket at all.
func ticketLike(text string) bool {
	for _, c := range []byte(text) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return text != "" && len(text) <= maxTicket
}

// said is what a page says about the form before.
type said struct {
	Words string
	Bad   bool
}

func (s *SelfService) show(w http.ResponseWriter, r *http.Request) {
	ticket := r.PathValue("ticket")
	if !ticketLike(ticket) {
		s.fail(w, r, notGenuine)
		return
	}
	v, ok := s.view(w, r, ticket)
	if !ok {
		return
	}
	s.count("shown")
	isNew, other := v.waits()
	l := s.spoken(r, v.Language)
	page := struct {
		PageView
		Title      string
		Rows       []mailRow
		New, Other bool
		Form       form
		UpTo       store.MailID
		Said       *said
		Languages  []*words.Language
	}{v, l.Say("Your held mail"), rowsOf(v.Mails), isNew, other, s.forms.fresh(ticket), v.last(), nil, words.All()}
	if done := s.forms.read(ticket, r.URL.Query().Get("said")); done != nil {
		page.Said = &said{done.In(l), done.Bad()}
		page.Title = page.Said.Words // screen readers read the title first
	}
	s.write(w, l, http.StatusOK, "page", page)
}

// view returns what the holder of a ticket sees, within the bounds of a page, or answers that it cannot be shown.
func (s *SelfService) view(w http.ResponseWriter, r *http.Request, ticket string) (PageView, bool) {
	v, err := s.backend.Page(r.Context(), ticket)
	if err != nil {
		s.fail(w, r, s.wrongOf(r, err))
		return v, false
	}
	v.bound()
	return v, true
}

func (s *SelfService) count(result string) {
	s.metrics.counter("weir_self_service_requests_total", result).Inc()
}

// sendBack redirects the user to their page. The address is relative: a web server in front may have changed the path.
func (s *SelfService) sendBack(w http.ResponseWriter, ticket string, said result) {
	w.Header().Set("Location", "?said="+url.QueryEscape(s.forms.write(ticket, said)))
	w.WriteHeader(http.StatusSeeOther)
}

// bound cuts the view to the bounds of a page.
func (v *PageView) bound() {
	if n := len(v.Mails) - MaxPageMails; n > 0 {
		v.Mails, v.More = v.Mails[:MaxPageMails:MaxPageMails], v.More+n
	}
	for i, m := range v.Mails {
		if n := len(m.To) - MaxPageRecipients; n > 0 {
			v.Mails[i].To, v.Mails[i].More = m.To[:MaxPageRecipients:MaxPageRecipients], m.More+n
		}
	}
}

// waits reports whether mail waits because its recipients are new to the user, and whether for another reason.
func (v *PageView) waits() (isNew, other bool) {
	isNew = slices.ContainsFunc(v.Mails, func(m PageMail) bool { return m.New })
	return isNew, slices.ContainsFunc(v.Mails, func(m PageMail) bool { return m.Held || m.Delayed })
}

// last is the latest message on the page.
func (v *PageView) last() (id store.MailID) {
	for _, m := range v.Mails {
		id = max(id, m.ID)
	}
	return id
}

// confirm asks the user to confirm a deletion. It changes nothing.
func (s *SelfService) confirm(w http.ResponseWriter, r *http.Request, ticket string, a ask) {
	v, ok := s.view(w, r, ticket)
	if !ok {
		return
	}
	all := a.do == "ask-delete-all"
	var chosen []PageMail
	for _, m := range v.Mails {
		if all && (a.upTo == 0 || m.ID <= a.upTo) || slices.Contains(a.mails, m.ID) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		s.sendBack(w, ticket, result{Code: saidNothing})
		return
	}
	s.count("shown")
	l := s.spoken(r, v.Language)
	s.write(w, l, http.StatusOK, "confirm", struct {
		PageView
		Title string
		Rows  []mailRow
		All   bool
		UpTo  store.MailID
		Form  form
	}{v, l.Say("Delete mail?"), rowsOf(chosen), all, a.upTo, s.forms.fresh(ticket)})
}

// wrongOf is the page for an error. Errors that only the operator can fix are logged.
func (s *SelfService) wrongOf(r *http.Request, err error) wrong {
	switch {
	case errors.Is(err, ErrForged):
		return notGenuine
	case errors.Is(err, ErrOld):
		return outOfDate
	case errors.Is(err, errForm):
		return noSense
	}
	if r.Context().Err() == nil {
		s.log.Error("a page of a mail user failed", "error", err)
	}
	return notNow
}

func (s *SelfService) fail(w http.ResponseWriter, r *http.Request, p wrong) {
	what := "refused"
	if p.Code >= 500 {
		what = "failed"
		w.Header().Set("Retry-After", "60")
	}
	s.count(what)
	s.tell(w, s.spoken(r, ""), p)
}

// tell shows a page with nothing but a text.
func (s *SelfService) tell(w http.ResponseWriter, l *words.Language, p wrong) {
	s.write(w, l, p.Code, "wrong", struct{ Title, Text string }{l.Say(p.Title), l.Say(p.Text)})
}

func (s *SelfService) write(w http.ResponseWriter, l *words.Language, code int, name string, v any) {
	var b bytes.Buffer
	if err := pages()[l.Index()].ExecuteTemplate(&b, name, v); err != nil {
		s.log.Error("a page of a mail user failed", "error", err)
		http.Error(w, l.Say(notNow.Text), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", l.Tag())
	h.Add("Vary", "Accept-Language")
	w.WriteHeader(code)
	w.Write(b.Bytes())
}

// formOfLogIn is what stands for a ticket in the form of somebody who has none yet.
const formOfLogIn = "login"

// A logInView is the page on which users log in.
type logInView struct {
	Title string
	Off   bool // nobody can
	User  string
	Said  *said
	Form  form
}

func (s *SelfService) showLogIn(w http.ResponseWriter, r *http.Request) {
	s.count("shown")
	s.writeLogIn(w, r, http.StatusOK, "", "")
}

// writeLogIn shows the form, and what was wrong with the last one.
func (s *SelfService) writeLogIn(w http.ResponseWriter, r *http.Request, code int, user string, what words.Text) {
	l := s.spoken(r, "")
	v := logInView{Title: l.Say("Log in to your held mail"), Off: !s.backend.LogsIn(), User: user,
		Form: s.forms.fresh(formOfLogIn)}
	if what != "" {
		v.Said = &said{l.Say(what), true}
		v.Title = v.Said.Words // screen readers read the title first
	}
	s.write(w, l, code, "login", v)
}

// readForm reads a form that is bound to a ticket, or answers why it is none.
func (s *SelfService) readForm(w http.ResponseWriter, r *http.Request, ticket string) (url.Values, bool) {
	if fromElsewhere(r, s.options.Load().URL) {
		s.fail(w, r, otherSite)
		return nil, false
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	err := r.ParseForm()
	_, large := errors.AsType[*http.MaxBytesError](err)
	v := r.PostForm
	switch {
	case large:
		s.fail(w, r, tooLong)
	case err != nil:
		s.fail(w, r, noSense)
	case !s.forms.genuine(ticket, form{v.Get("form"), v.Get("token")}):
		s.fail(w, r, formNotGenuine)
	default:
		return v, true
	}
	return nil, false
}

// What a user is told whose login failed.
const (
	wrongLogIn words.Text = "The user or the password is not right."
	lateLogIn  words.Text = "There were too many wrong passwords. Please try again later, or use the link in the mail about " +
		"your held mail."
	busyLogIn words.Text = "Too many people log in at once. Please try again in a moment."
	noEntry   words.Text = "Your password is right, but the mail service has no entry for you, so there is nothing to show. " +
		"Please ask the people who run your mail."
)

// logIn begins a session.
func (s *SelfService) logIn(w http.ResponseWriter, r *http.Request) {
	v, ok := s.readForm(w, r, formOfLogIn)
	if !ok {
		return
	}
	user, password := strings.TrimSpace(v.Get("user")), v.Get("password")
	var session Session
	err := ErrPassword
	if len(user) <= store.MaxUser && len(password) <= MaxPassword && user != "" && password != "" {
		session, err = s.backend.LogIn(r.Context(), s.source(r), user, password)
	} else {
		user = ""
	}
	if err == nil {
		s.count("login")
		at := "own/"
		if session.Act {
			at = "t/"
		}
		w.Header().Set("Location", at+session.Ticket)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	s.count("login_refused")
	for known, answer := range map[error]struct {
		code int
		what words.Text
	}{
		ErrPassword: {http.StatusForbidden, wrongLogIn}, ErrLate: {http.StatusTooManyRequests, lateLogIn},
		ErrBusy: {http.StatusServiceUnavailable, busyLogIn}, ErrNoEntry: {http.StatusForbidden, noEntry},
		ErrNoLogIn: {http.StatusNotFound, ""},
	} {
		if errors.Is(err, known) {
			s.writeLogIn(w, r, answer.code, user, answer.what)
			return
		}
	}
	s.fail(w, r, s.wrongOf(r, err))
}

// look shows what waits to somebody who has logged in for looking.
func (s *SelfService) look(w http.ResponseWriter, r *http.Request) {
	ticket := r.PathValue("ticket")
	if !ticketLike(ticket) {
		s.fail(w, r, sessionOver)
		return
	}
	v, err := s.backend.Look(r.Context(), ticket)
	if errors.Is(err, ErrForged) || errors.Is(err, ErrOld) {
		s.fail(w, r, sessionOver)
		return
	}
	if err != nil {
		s.fail(w, r, s.wrongOf(r, err))
		return
	}
	v.bound()
	s.count("shown")
	isNew, other := v.waits()
	l := s.spoken(r, v.Language)
	page := struct {
		PageView
		Title      string
		Rows       []mailRow
		New, Other bool
		Form       form
		Said       *said
	}{v, l.Say("Your held mail"), rowsOf(v.Mails), isNew, other, s.forms.fresh(ticket), nil}
	if done := s.forms.read(ticket, r.URL.Query().Get("said")); done != nil {
		page.Said = &said{done.In(l), done.Bad()}
		page.Title = page.Said.Words
	}
	s.write(w, l, http.StatusOK, "look", page)
}

// lookAct sends a link, or logs out.
func (s *SelfService) lookAct(w http.ResponseWriter, r *http.Request) {
	ticket := r.PathValue("ticket")
	if !ticketLike(ticket) {
		s.fail(w, r, sessionOver)
		return
	}
	v, ok := s.readForm(w, r, ticket)
	if !ok {
		return
	}
	var err error
	said := result{Code: saidLink}
	switch v.Get("do") {
	case "link":
		var sent bool
		if sent, err = s.backend.SendLink(r.Context(), ticket); !sent {
			said.Code = saidNoContact
		}
	case "logout":
		err = s.backend.LogOut(r.Context(), ticket)
	default:
		err = errForm
	}
	switch {
	case errors.Is(err, ErrForged) || errors.Is(err, ErrOld):
		s.fail(w, r, sessionOver)
	case err != nil:
		s.fail(w, r, s.wrongOf(r, err))
	case v.Get("do") == "logout":
		s.count("done")
		w.Header().Set("Location", "../login")
		w.WriteHeader(http.StatusSeeOther)
	default:
		s.count("done")
		s.sendBack(w, ticket, said)
	}
}

var sessionOver = wrong{http.StatusGone, "You are not logged in any more",
	"A login is good for half an hour. Go back to the page on which you logged in, and log in again."}

package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"weir/internal/words"
	"weir/store"
)

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

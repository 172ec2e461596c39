package console

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"

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

package console

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"weir/store"
)

//go:embed selfservice.html
var pageHTML string

//go:embed selfservice.css
var pageCSS string

var pages = template.Must(template.New("selfservice").Funcs(template.FuncMap{
	"style":   func() template.CSS { return template.CSS(pageCSS) },
	"several": several,
	"on":      func(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") },
	"stamp":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"bytes":   bytesOf,
}).Parse(pageHTML))

// pagePolicy allows the inline style, by its hash, and forms to the same site. The style is inline so that it works
// under any path of a web server in front.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'"
}()

// bytesOf writes a size as mail programs do.
func bytesOf(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 999_500:
		return fmt.Sprintf("%.0f KB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// shownRecipients is how many recipients of a message are shown at first; the others unfold.
const shownRecipients = 3

// A mailRow is a message as the page shows it.
type mailRow struct {
	PageMail
	First, Rest []string
}

// Others is how many recipients are hidden or left out.
func (m mailRow) Others() int { return len(m.Rest) + m.More }

// State says in a word or two why a message waits.
func (m mailRow) State() string {
	switch {
	case m.Held && m.New:
		return "held, new recipient"
	case m.Held:
		return "held"
	case m.New:
		return "new recipient"
	}
	return "delayed"
}

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

func (s *SelfService) show(w http.ResponseWriter, r *http.Request) {
	ticket := r.PathValue("ticket")
	if !ticketLike(ticket) {
		s.fail(w, notGenuine)
		return
	}
	v, ok := s.view(w, r, ticket)
	if !ok {
		return
	}
	s.count("shown")
	isNew, other := v.waits()
	page := struct {
		PageView
		Title      string
		Rows       []mailRow
		New, Other bool
		Form       form
		UpTo       store.MailID
		Said       *result
	}{v, "Your held mail", rowsOf(v.Mails), isNew, other, s.forms.fresh(ticket), v.last(),
		s.forms.read(ticket, r.URL.Query().Get("said"))}
	if page.Said != nil {
		page.Title = page.Said.Say() // screen readers read the title first
	}
	s.write(w, http.StatusOK, "page", page)
}

// view returns what the holder of a ticket sees, within the bounds of a page, or answers that it cannot be shown.
func (s *SelfService) view(w http.ResponseWriter, r *http.Request, ticket string) (PageView, bool) {
	v, err := s.desk.Page(r.Context(), ticket)
	if err != nil {
		s.fail(w, s.wrongOf(r, err))
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
	return isNew, slices.ContainsFunc(v.Mails, func(m PageMail) bool { return m.Held || !m.New })
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
	s.write(w, http.StatusOK, "confirm", struct {
		PageView
		Rows []mailRow
		All  bool
		UpTo store.MailID
		Form form
	}{v, rowsOf(chosen), all, a.upTo, s.forms.fresh(ticket)})
}

// A wrong is an error page. Its text reveals nothing to strangers.
type wrong struct {
	Code        int
	Title, Text string
}

var (
	contactChanged = wrong{http.StatusOK, "Your contact address is changed",
		"From now on you are told there. This page has ended with the old address; if you cannot send mail now, a " +
			"new link is on its way to the new one."}
	nothingHere = wrong{http.StatusNotFound, "There is nothing here",
		"Use the link in the mail that told you about your held mail. Copy it whole: it is long."}
	notGenuine = wrong{http.StatusForbidden, "This link is not valid",
		"Use the link in the mail that told you about your held mail. Copy it whole: it is long, and mail programs " +
			"may break it into two lines."}
	outOfDate = wrong{http.StatusGone, "This link is out of date",
		"Links are good for a while only. Use the one in the latest mail about your held mail, or ask the people who " +
			"run your mail."}
	otherSite = wrong{http.StatusForbidden, "This did not come from your page",
		"Nothing was changed. Open the link in the mail that told you about your held mail, and try again from there."}
	formNotGenuine = wrong{http.StatusForbidden, "This form is not valid",
		"Nothing was changed. Open the link in the mail that told you about your held mail, and try again from there."}
	noSense = wrong{http.StatusBadRequest, "This form makes no sense",
		"Nothing was changed. Open the link in the mail that told you about your held mail, and try again from there."}
	tooLong = wrong{http.StatusRequestEntityTooLarge, "That was too much at once",
		"Nothing was changed. Select fewer messages, and try again."}
	notNow = wrong{http.StatusServiceUnavailable, "This does not work at the moment",
		"Nothing was changed. Please try again in a few minutes."}
)

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

func (s *SelfService) fail(w http.ResponseWriter, p wrong) {
	what := "refused"
	if p.Code >= 500 {
		what = "failed"
		w.Header().Set("Retry-After", "60")
	}
	s.count(what)
	s.write(w, p.Code, "wrong", p)
}

func (s *SelfService) write(w http.ResponseWriter, code int, name string, v any) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, v); err != nil {
		s.log.Error("a page of a mail user failed", "error", err)
		http.Error(w, notNow.Text, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	w.Write(b.Bytes())
}

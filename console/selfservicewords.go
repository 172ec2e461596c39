package console

import (
	_ "embed"
	"html"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"weir/internal/words"
)

//go:embed selfservice.html
var pageHTML string

//go:embed selfservice.css
var pageCSS string

// pages are the templates in each language. Commands, which show none, do not make them.
var pages = sync.OnceValue(func() (all []*template.Template) {
	for _, l := range words.All() {
		all = append(all, template.Must(template.New("selfservice").Funcs(speech{l}.functions()).Parse(l.Template(pageHTML))))
	}
	return all
})

// speech says what is on a page, in a language.
type speech struct{ *words.Language }

// functions are those of the templates.
func (l speech) functions() template.FuncMap {
	return template.FuncMap{
		"tag":   l.Tag,
		"style": func() template.CSS { return template.CSS(pageCSS) },
		"stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"on":    l.on,
		"bytes": l.Size,
		"why":   l.why,
		"since": func(t time.Time) template.HTML { return l.around("stopped on {time}", "{time}", l.time(t)) },
		"resumes": func(t time.Time) template.HTML {
			return l.around("You will be able to send again, slowly, from {time} on, even if you do nothing.", "{time}",
				l.time(t))
		},
		"worksUntil": func(t time.Time) template.HTML { return l.around("It works until {time}.", "{time}", l.time(t)) },
		"inUntil": func(t time.Time) template.HTML {
			return l.around("You are logged in until {time}.", "{time}", l.time(t))
		},
		"goesTo": func(contact string) template.HTML {
			return l.around("Mail like the one that brought you here goes to {contact}.", "{contact}",
				"<b>"+html.EscapeString(contact)+"</b>")
		},
		"waits": func(n int) string {
			return l.Count(int64(n), "Mail to {n} recipient waits.", "Mail to {n} recipients waits.")
		},
		"stopsOver": func(n int) string {
			return l.Count(int64(n), "When mail to more than {n} recipient is delayed, sending is stopped.",
				"When mail to more than {n} recipients is delayed, sending is stopped.")
		},
		"elsewhere": func(t words.Text) string { return l.Say(t) },
		"others":    func(n int) string { return l.Say("and {n} more", "n", n) },
		"unlisted": func(n, before int) string {
			if before > 0 {
				return l.Say("and {n} that are not listed", "n", n)
			}
			return l.Say("{n} that are not listed", "n", n)
		},
		"deletes": func(n int) string { return l.Count(int64(n), "Delete {n} message?", "Delete {n} messages?") },
		"deleteNow": func(n int) string {
			return l.Count(int64(n), "Delete {n} message", "Delete {n} messages")
		},
	}
}

// around puts HTML in the place of a placeholder.
func (l speech) around(t words.Text, placeholder, element string) template.HTML {
	return template.HTML(strings.Replace(html.EscapeString(l.Say(t)), placeholder, element, 1))
}

// time is a time, for people and for programs.
func (l speech) time(t time.Time) string {
	return `<time datetime="` + t.UTC().Format(time.RFC3339) + `">` + html.EscapeString(l.on(t)) + "</time>"
}

// on says when. The text is a layout of package time, which knows names in English only.
func (l speech) on(t time.Time) string { return t.UTC().Format(l.Say("2 Jan 2006, 15:04 UTC")) }

// why says in a word or two why a message waits.
func (l speech) why(m mailRow) string {
	var all []string
	if m.Delayed {
		all = append(all, l.Say("delayed"))
	}
	if m.Held {
		all = append(all, l.Say("held"))
	}
	if m.New {
		all = append(all, l.Say("new recipient"))
	}
	return strings.Join(all, ", ")
}

// spoken is the language of a page: the one that its user has chosen, if any, otherwise the one that the browser
// prefers.
func (s *SelfService) spoken(r *http.Request, chosen string) *words.Language {
	if l := words.Find(chosen); l != nil {
		return l
	}
	return words.Accepted(r.Header["Accept-Language"], words.Find(s.options.Load().Language))
}

// sentences are the results in words, where those are always the same.
var sentences = map[string]words.Text{
	saidPassword: "Your password is changed. Enter the new one in your mail program.",
	saidLanguage: "The language is changed.",
	saidLink: "A link is on its way to your contact address. With it you can release your mail, delete it, and send " +
		"again.",
	saidNoContact: "No contact address is known, so no link can be sent. Please ask the people who run your mail.",
	saidTwice:     "This was already done, and was not done again. This is the current state.",
	saidNothing:   "No mail was selected, so nothing was changed.",
	saidWrong:     "The current password is not right, so nothing was changed.",
	saidLate:      "There were too many wrong passwords, so nothing was changed. Please try again later.",
	saidUnequal:   "The new password was not the same both times, so nothing was changed.",
	saidAddress:   "This is not a mail address, so nothing was changed.",
}

// In is the result in words.
func (r *result) In(l *words.Language) string {
	n := int64(r.N)
	switch {
	case r.Code == saidReleased && n == 0:
		return l.Say("There was nothing left to release.")
	case r.Code == saidFlagged:
		return (&result{Code: saidReleased, N: r.N}).In(l) + " " +
			l.Say("New mail to people the account never wrote to before may still be held or refused.")
	case r.Code == saidReleased:
		return l.Count(n, "Released: the mail to {n} recipient is on its way.",
			"Released: the mail to {n} recipients is on its way.")
	case r.Code == saidDeleted && n == 0:
		return l.Say("There was nothing left to delete.")
	case r.Code == saidDeleted:
		return l.Count(n, "Deleted: the mail to {n} recipient will not be sent.",
			"Deleted: the mail to {n} recipients will not be sent.")
	case r.Code == saidResumed && n == 0:
		return l.Say("You can send mail again.")
	case r.Code == saidResumed:
		return l.Count(n, "You can send mail again. Mail to {n} recipient is still held, until you release or delete it.",
			"You can send mail again. Mail to {n} recipients is still held, until you release or delete it.")
	case r.Code == saidLength:
		return l.Say("A password has 1 to {n} characters, so nothing was changed.", "n", r.N)
	case sentences[r.Code] != "":
		return l.Say(sentences[r.Code])
	}
	return l.Say(words.Text(r.Text)) // a SelfServiceBackend may have said it in a text of the catalogues
}

// A wrong is an error page. Its text reveals nothing to strangers.
type wrong struct {
	Code        int
	Title, Text words.Text
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

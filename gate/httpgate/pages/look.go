package pages

import (
	"fmt"
	"html/template"
	"net/http"
	"unicode"
	"unicode/utf8"

	"weir"
	"weir/internal/words"
)

// Options say what you add to the gate's own pages: the page that asks for a stamp, which is also the waiting room, and
// the page of a refusal.
type Options struct {
	// The name of the site, above the text and in the title of the page. Default: none.
	Site string `yaml:"site"`
	// A line of your own below the text: a number to call if it lasts. It is shown as it is, in every language.
	// Default: none.
	Note string `yaml:"note"`
	// The language for people whose browser asks for none that weir speaks: en or de. Default en.
	Language string `yaml:"language"`
}

// Bounds of what an operator adds, in characters.
const (
	maxSite = 60
	maxNote = 300
)

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o Options) Validate() error {
	var v weir.Mistakes
	checkLine(&v, "site", o.Site, maxSite)
	checkLine(&v, "note", o.Note, maxNote)
	v.OneOf("language", o.Language, words.Tags()...)
	return v.Err()
}

// checkLine checks that a text is one line that can be shown.
func checkLine(v *weir.Mistakes, path, text string, most int) {
	if n := utf8.RuneCountInString(text); n > most {
		v.Add(path, fmt.Sprintf("%d characters are too many", n), fmt.Sprintf("at most %d", most))
	}
	for _, c := range text {
		if c == utf8.RuneError || !unicode.IsGraphic(c) {
			v.Add(path, fmt.Sprintf("%U cannot be shown in a line", c), "write one line of plain text")
			return
		}
	}
}

// A Look is what all pages have in common: a language, and what the operator adds. The zero value is English, with
// nothing added.
type Look struct {
	Language   *words.Language
	Site, Note string
}

// Look returns the look of a page that answers a request, in the language that the browser asks for.
func (o *Options) Look(r *http.Request) Look {
	return Look{words.Accepted(r.Header["Accept-Language"], words.Find(o.Language)), o.Site, o.Note}
}

// byLanguage is the header Vary of pages, so that caches keep the languages apart. All answers share it: it must not be
// changed.
var byLanguage = []string{"Accept-Language"}

// Head sets the headers that say which language a page has.
func (l *Look) Head(h http.Header) {
	h["Content-Language"] = tags[l.Language.Index()]
	if h["Vary"] == nil {
		h["Vary"] = byLanguage
	} else {
		h.Add("Vary", "Accept-Language")
	}
}

// tags are the values of Content-Language.
var tags = each(func(l *words.Language) []string { return []string{l.Tag()} })

// each makes something for each language.
func each[T any](f func(*words.Language) T) (all []T) {
	for _, l := range words.All() {
		all = append(all, f(l))
	}
	return all
}

// templates makes a template for each language.
func templates(name, source string) []*template.Template {
	return each(func(l *words.Language) *template.Template {
		return template.Must(template.New(name).Parse(l.Template(source)))
	})
}

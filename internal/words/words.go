// Package words says things to people in their language. Code, templates and scripts have the English text; a file in
// catalogues has the translations into one language. What a catalogue lacks is said in English.
//
// Most callers want Language.Say, and Accepted for the language of a browser. A nil *Language is English. Everything is
// fixed when the program starts and may be used by several goroutines.
package words

import (
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Text is said to people: in English, with placeholders like {n}. Every constant of this type is in every catalogue;
// a test makes sure of that.
type Text string

// A Language has the translations of texts.
type Language struct {
	tag, name string
	at        int
	texts     map[Text]string
}

// English is what the texts are written in.
var English = &Language{tag: "en", name: "English"}

// Tag is how browsers call the language: de.
func (l *Language) Tag() string {
	if l == nil {
		return English.tag
	}
	return l.tag
}

// Name is how those who speak the language call it: Deutsch.
func (l *Language) Name() string {
	if l == nil {
		return English.name
	}
	return l.name
}

// Index is the place of the language among All. It is below Most.
func (l *Language) Index() int {
	if l == nil {
		return 0
	}
	return l.at
}

// Say returns a text in the language. What follows are names of placeholders, each with its value, a string or a whole
// number: "n", 5 for {n}. A placeholder without a value stays as it is.
func (l *Language) Say(t Text, values ...any) string {
	text := string(t)
	if l != nil {
		if own, ok := l.texts[t]; ok {
			text = own
		}
	}
	if len(values) == 0 {
		return text
	}
	// Refusals are made of texts, so this allocates the result only.
	var room [128]byte
	said := room[:0]
	for {
		open := strings.IndexByte(text, '{')
		length := strings.IndexByte(text[max(open, 0):], '}')
		if open < 0 || length < 0 {
			return string(append(said, text...))
		}
		said = appendValue(append(said, text[:open]...), text[open:open+length+1], values)
		text = text[open+length+1:]
	}
}

// appendValue writes the value of a placeholder.
func appendValue(b []byte, placeholder string, values []any) []byte {
	for i := 0; i+1 < len(values); i += 2 {
		if name, _ := values[i].(string); name != placeholder[1:len(placeholder)-1] {
			continue
		}
		switch v := values[i+1].(type) {
		case string:
			return append(b, v...)
		case int:
			return strconv.AppendInt(b, int64(v), 10)
		case int64:
			return strconv.AppendInt(b, v, 10)
		}
	}
	return append(b, placeholder...)
}

// Count is Say with the text for one, or the text for any other number. Both may have {n}.
func (l *Language) Count(n int64, one, other Text, values ...any) string {
	if n == 1 {
		other = one
	}
	if len(values) == 0 {
		return l.Say(other, "n", n)
	}
	return l.Say(other, slices.Concat(values, []any{"n", n})...)
}

// Tenths writes a number with one digit behind the point, or behind what the language has instead.
func (l *Language) Tenths(f float64) string {
	whole, tenth, _ := strings.Cut(strconv.FormatFloat(f, 'f', 1, 64), ".")
	return l.Say("{whole}.{tenth}", "whole", whole, "tenth", tenth)
}

// Size writes a number of bytes as mail programs do.
func (l *Language) Size(bytes int64) string {
	switch {
	case bytes < 1000:
		return l.Count(max(bytes, 0), "{n} byte", "{n} bytes")
	case bytes < 999_500:
		return l.Say("{n} KB", "n", (bytes+500)/1000)
	}
	return l.Say("{n} MB", "n", l.Tenths(float64(bytes)/1e6))
}

// How templates and scripts mark texts. Such texts have no placeholders in a template.
var (
	inTemplate = regexp.MustCompile(`\{\{say "([^"]*)"\}\}`)
	inScript   = regexp.MustCompile(`\bword\('([^'\\]*)'\)`)
)

// Template puts the texts into the source of a template for HTML, which has them as {{say "text"}}. They are there
// before the template is parsed, so that they cost nothing when it runs.
func (l *Language) Template(source string) string {
	return inTemplate.ReplaceAllStringFunc(source, func(mark string) string {
		return html.EscapeString(l.Say(Text(inTemplate.FindStringSubmatch(mark)[1])))
	})
}

// Script puts the texts into a script, which has them as word('text').
func (l *Language) Script(source []byte) []byte {
	return inScript.ReplaceAllFunc(source, func(mark []byte) []byte {
		return strconv.AppendQuoteToASCII(nil, l.Say(Text(inScript.FindSubmatch(mark)[1])))
	})
}

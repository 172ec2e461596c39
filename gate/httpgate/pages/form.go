package pages

import (
	"net/http"
	"net/url"
	"strings"
)

// A Form is one that a browser sent, and sends again from the page of the waiting room.
type Form struct {
	Action string // path and query
	Fields []FormField
}

// A FormField is one field of a form, in the bytes that were sent. Nobody knows which charset they are in. The form in
// the page is sent in windows-1252, where every byte stands for a character, and becomes the same byte again.
type FormField struct{ Name, Value string }

// NameText and ValueText are what stands in the page.
func (f FormField) NameText() string  { return fromWindows1252(f.Name) }
func (f FormField) ValueText() string { return fromWindows1252(f.Value) }

// NamesCharset reports whether browsers would write the charset of the form into the field if it were hidden.
func (f FormField) NamesCharset() bool { return strings.EqualFold(f.Name, "_charset_") }

// windows1252 are the characters of the bytes from 0x80 to 0x9f (https://encoding.spec.whatwg.org/#windows-1252). The
// others are as in Unicode.
var windows1252 = []rune("€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ")

func fromWindows1252(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := rune(s[i])
		if c >= 0x80 && c < 0xa0 {
			c = windows1252[c-0x80]
		}
		b.WriteRune(c)
	}
	return b.String()
}

// FormFields returns the fields of a form, in order, if the body is one that a browser would send again as it was.
// Browsers leave out fields without a name.
func FormFields(r *http.Request, body []byte) ([]FormField, bool) {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if r.Method != http.MethodPost || !strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded") {
		return nil, false
	}
	var fields []FormField
	for pair := range strings.SplitSeq(string(body), "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil || name == "" || !sendable(name) {
			return nil, false
		}
		if value, err = url.QueryUnescape(value); err != nil || !sendable(value) {
			return nil, false
		}
		fields = append(fields, FormField{name, value})
	}
	return fields, true
}

// sendable reports whether a browser sends a text again just as it is: without zeros, and with the line ends of forms.
func sendable(s string) bool {
	ends := strings.Count(s, "\r\n")
	return strings.IndexByte(s, 0) < 0 && strings.Count(s, "\r") == ends && strings.Count(s, "\n") == ends
}

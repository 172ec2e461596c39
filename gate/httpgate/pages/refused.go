package pages

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"

	"weir/gate/refusal"
)

// RefusalPolicy lets the page use nothing but the style and the empty icon that stand in it. Any site may show it in a
// frame: there is nothing to press, and people should be able to read why they were refused.
const RefusalPolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action " +
	"'none'"

// The icon is there so that no browser asks for one: a refused client should not be made to ask for more.
//
//go:embed refused.html
var refusedHTML string

var refusedPage = template.Must(
	template.New("refused").Funcs(template.FuncMap{"inWords": inWords}).Parse(refusedHTML))

// Refusal returns the page with the facts of a refusal.
func Refusal(doc *refusal.Refusal) []byte {
	var b bytes.Buffer
	if err := refusedPage.Execute(&b, doc); err != nil {
		return []byte(doc.Title + "\n")
	}
	return b.Bytes()
}

// inWords says how long to wait, in units that a person counts in. It rounds up, so that nobody comes back too early.
func inWords(seconds int64) string {
	n, unit := seconds, "second"
	for _, u := range []struct {
		seconds int64
		name    string
	}{{60, "minute"}, {60 * 60, "hour"}, {24 * 60 * 60, "day"}} {
		if seconds >= 2*u.seconds {
			n, unit = (seconds-1)/u.seconds+1, u.name
		}
	}
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}

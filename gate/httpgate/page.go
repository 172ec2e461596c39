package httpgate

import (
	"bytes"
	"fmt"
	"html/template"

	"weir/gate/refusal"
)

// pagePolicy lets the page use nothing but the style and the empty icon that stand in it. Any site may show it in a
// frame: there is nothing to press, and who is refused should read why.
const pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

// The icon is there so that no browser asks for one: whoever is refused should not be made to ask for more.
var page = template.Must(template.New("refusal").Funcs(template.FuncMap{"inWords": inWords}).Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{{.Status}} {{.Title}}</title>
<link rel="icon" href="data:,">
<style>
:root { color-scheme: light dark; font: 1.0625rem/1.6 system-ui, sans-serif; overflow-wrap: anywhere; }
body { max-width: 34rem; margin: min(14vh, 8rem) auto 3rem; padding: 0 1.5rem; }
h1 { font-size: clamp(1.5rem, 1rem + 2.5vw, 2rem); line-height: 1.2; margin: 0 0 1.25rem; }
p { margin: 0 0 .75rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .5rem 1.5rem; margin: 2rem 0; padding: 1.5rem 0; border: solid #8886; border-width: 1px 0; }
dl, .help { font-size: .9375rem; }
dt, .help { color: light-dark(#555, #b4b4b4); }
dd { margin: 0; }
code { font: 1em/1.6 ui-monospace, monospace; color: CanvasText; -webkit-user-select: all; user-select: all; }
</style>
</head>
<body>
<main>
<h1>{{.Title}}</h1>
<p>{{.Detail}}</p>
{{- if .RetryAfter}}
<p><strong>Please try again in {{inWords .RetryAfter}}.</strong></p>
{{- end}}
<dl>
<dt>Request</dt><dd><code>{{.RequestID}}</code></dd>
<dt>Status</dt><dd>{{.Status}}</dd>
{{- if .Policy}}
<dt>Rule</dt><dd>{{.Policy}}{{if .Throttle}} of {{.Throttle}}{{end}}</dd>
{{- end}}
{{- if .Reason}}
<dt>Reason</dt><dd>{{.Reason}}</dd>
{{- end}}
{{- if .Limit}}
<dt>Limit</dt><dd>{{.Limit}}{{with .Unit}} {{.}}{{end}}, {{.Remaining}} left</dd>
{{- end}}
</dl>
<p class="help">If you ask for help, quote the request above, so that it can be found.</p>
</main>
</body>
</html>
`))

// inWords says how long to wait, in units that a person counts in. It rounds up: whoever comes back then is not early.
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

// renderPage returns the page with the facts of a refusal.
func renderPage(doc *refusal.Refusal) []byte {
	var b bytes.Buffer
	if err := page.Execute(&b, doc); err != nil {
		return []byte(doc.Title + "\n")
	}
	return b.Bytes()
}

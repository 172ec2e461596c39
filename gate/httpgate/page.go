package httpgate

import (
	"bytes"
	"html/template"
)

// pagePolicy lets the page use nothing but the style that stands in it.
const pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

var page = template.Must(template.New("refusal").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{{.Status}} {{.Title}}</title>
<style>
:root { color-scheme: light dark; font: 1.0625rem/1.5 system-ui, sans-serif; }
body { max-width: 34rem; margin: 12vh auto; padding: 0 1.25rem; }
h1 { font-size: 1.5rem; margin: 0 0 1rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.25rem; margin: 1.5rem 0 0; font-size: .9375rem; }
dt { opacity: .75; }
dd { margin: 0; overflow-wrap: anywhere; }
</style>
</head>
<body>
<main>
<h1>{{.Title}}</h1>
<p>{{.Detail}}</p>
{{- if .RetryAfter}}
<p>Please try again in {{.RetryAfter}} {{if eq .RetryAfter 1}}second{{else}}seconds{{end}}.</p>
{{- end}}
<dl>
<dt>Status</dt><dd>{{.Status}}</dd>
{{- if .Policy}}
<dt>Policy</dt><dd>{{.Policy}}{{if .Throttle}} of {{.Throttle}}{{end}}</dd>
{{- end}}
{{- if .Reason}}
<dt>Reason</dt><dd>{{.Reason}}</dd>
{{- end}}
{{- if .Limit}}
<dt>Limit</dt><dd>{{.Limit}}, {{.Remaining}} left</dd>
{{- end}}
<dt>Request</dt><dd>{{.RequestID}}</dd>
</dl>
</main>
</body>
</html>
`))

// renderPage returns the page with the facts of a refusal.
func renderPage(doc *refusal) []byte {
	var b bytes.Buffer
	if err := page.Execute(&b, doc); err != nil {
		return []byte(doc.Title + "\n")
	}
	return b.Bytes()
}

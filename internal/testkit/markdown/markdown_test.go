package markdown

import "testing"

func TestSlug(t *testing.T) {
	for heading, want := range map[string]string{
		"Who asks":                "who-asks",
		"HTTP/2 and upgrades":     "http2-and-upgrades",
		"The `log` section":       "the-log-section",
		"A [link](x.md), and on":  "a-link-and-on",
		"max_wait":                "max_wait",
		"Bounds, and what is not": "bounds-and-what-is-not",
	} {
		if got := slug(heading); got != want {
			t.Errorf("%q: %q, want %q", heading, got, want)
		}
	}
}

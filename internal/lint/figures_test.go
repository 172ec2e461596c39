package lint

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"weir/internal/testkit/markdown"
)

var (
	// figure is a number that somebody measured: one with a decimal point or of at least four digits.
	figure = regexp.MustCompile(`\d{1,3}(?:,\d{3})+|\d+\.\d+|\d{4,}`)
	// measured says in which sections of which pages all figures are those of lab/bench/RESULTS.md.
	measured = map[string][]string{
		"README.md":          {"Why it is worth a try"},
		"docs/sizing.md":     {"Requests per second", "Processors", "More than one machine"},
		"docs/comparison.md": {"Limits for APIs", "Web servers and proxies"},
	}
	// given are figures of these sections that nobody measured: the load that was offered, versions, what is planned.
	given = map[string]bool{"10,000": true, "100,000": true, "4,000": true, "1,000": true, "5,000": true}
)

// TestFigures: the figures of the pages that sell are those of the last measurement.
func TestFigures(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(root + "/lab/bench/RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	results := map[string]bool{}
	for _, f := range figure.FindAllString(string(raw), -1) {
		results[strings.ReplaceAll(f, ",", "")] = true
	}
	found := 0
	for _, p := range pages(t) {
		section := ""
		for _, l := range p.Prose {
			if title, is := strings.CutPrefix(l.Text, "## "); is {
				section = title
			}
			in := false
			for _, s := range measured[p.Path] {
				in = in || s == section
			}
			if !in {
				continue
			}
			text := markdown.LinkMarkup.ReplaceAllString(l.Text, "$1")
			for _, f := range figure.FindAllString(text, -1) {
				found++
				if given[f] || results[strings.ReplaceAll(f, ",", "")] {
					continue
				}
				// The results may have a rate in thousands or millions.
				if thousands, is := strings.CutSuffix(f, ",000"); is && strings.Contains(string(raw), " "+thousands+" k/s") {
					continue
				}
				t.Errorf("%s:%d: lab/bench/RESULTS.md does not have %s", p.Path, l.Number, f)
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d figures found: have the sections other names?", found)
	}
}

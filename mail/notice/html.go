package notice

import (
	"html"
	"slices"
	"strings"
)

// breaks are the tags that end a line.
var breaks = []string{"br", "p", "div", "li", "tr", "table", "ul", "ol", "hr", "h1", "h2", "h3", "h4", "pre", "body"}

// hidden are the elements whose text does not show.
var hidden = []string{"style", "script", "head", "title"}

// quotes are the names that mail programs give to the element with the quoted message.
var quotes = []string{"gmail_quote", "yahoo_quoted", "moz-cite-prefix", "divrplyfwdmsg", "appendonsend"}

var lineEnds = strings.NewReplacer("\r", " ", "\n", " ")

// stripTags returns the text of HTML up to the quoted message. It is not for showing, and need not be exact: whoever
// wrote the HTML could have written any text.
func stripTags(page string) string {
	var b strings.Builder
	for page != "" {
		text, rest, found := strings.Cut(page, "<")
		b.WriteString(lineEnds.Replace(text))
		if !found {
			break
		}
		if comment, ok := strings.CutPrefix(rest, "!--"); ok {
			_, page, _ = strings.Cut(comment, "-->")
			continue
		}
		var tag string
		tag, page, _ = strings.Cut(rest, ">")
		tag = strings.ToLower(tag)
		name, ends := strings.CutPrefix(tag, "/")
		if i := strings.IndexAny(name, " \t\r\n/"); i >= 0 {
			name = name[:i]
		}
		if name == "blockquote" || slices.ContainsFunc(quotes, func(q string) bool { return strings.Contains(tag, q) }) {
			break
		}
		if slices.Contains(breaks, name) {
			b.WriteByte('\n')
		}
		if slices.Contains(hidden, name) && !ends {
			page = after(page, "</"+name)
		}
	}
	return html.UnescapeString(b.String())
}

// after returns the page from an end tag on, in upper or lower case. It is empty if there is no such tag.
func after(page, end string) string {
	for i := 0; ; i++ {
		next := strings.IndexByte(page[i:], '<')
		if next < 0 {
			return ""
		}
		i += next
		if len(page)-i >= len(end) && strings.EqualFold(page[i:i+len(end)], end) {
			return page[i:]
		}
	}
}

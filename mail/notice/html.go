package notice

import (
	"html"
	"strings"
)

// breaks are tags at which a line ends.
var breaks = map[string]bool{"br": true, "p": true, "div": true, "li": true, "tr": true, "table": true, "ul": true,
	"ol": true, "hr": true,
	"h1": true, "h2": true, "h3": true, "h4": true, "pre": true, "body": true}

// hidden are elements whose text nobody sees.
var hidden = map[string]bool{"style": true, "script": true, "head": true, "title": true}

// quotes are what mail programs call the element with the quoted mail.
var quotes = []string{"gmail_quote", "yahoo_quoted", "moz-cite-prefix", "divrplyfwdmsg", "appendonsend"}

var lineEnds = strings.NewReplacer("\r", " ", "\n", " ")

// stripTags makes text of HTML, simply, up to where a mail is quoted. It is not for showing: whoever wrote the HTML can
// make it say anything, and might as well have said it plainly.
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
		if name == "blockquote" || isQuote(tag) {
			break
		}
		if breaks[name] {
			b.WriteByte('\n')
		}
		if hidden[name] && !ends {
			page = after(page, "</"+name)
		}
	}
	return html.UnescapeString(b.String())
}

func isQuote(tag string) bool {
	for _, q := range quotes {
		if strings.Contains(tag, q) {
			return true
		}
	}
	return false
}

// after returns what stands from an end tag on, in either case of letters; nothing where there is none.
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

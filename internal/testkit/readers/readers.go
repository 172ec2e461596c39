package readers

import (
	"net/url"
	"regexp"
	"strings"
)

// A Line is one header line, with its name as it was sent.
type Line struct{ Name, Value string }

// Account returns what servers read in a place, by kind of server. Places are written as in the configuration:
// header:NAME, bearer, query:NAME, cookie:NAME. A server that finds nothing reads "".
func Account(place, query string, lines []Line) map[string]string {
	kind, name, _ := strings.Cut(place, ":")
	all := map[string]string{}
	switch kind {
	case "header":
		header(all, name, lines)
	case "bearer":
		bearer(all, lines)
	case "query":
		parameter(all, name, query)
	case "cookie":
		cookie(all, name, lines)
	default:
		panic("readers: no model for " + place)
	}
	return all
}

// Misread returns a server that reads another account in a place than the one that was charged, and what it reads; ""
// if there is none. Escapes make no difference.
func Misread(place, query string, lines []Line, charged string) (server, read string) {
	for server, read := range Account(place, query, lines) {
		if plain(read) != plain(charged) {
			return server, read
		}
	}
	return "", charged
}

// plain returns the one form of all spellings of an id.
func plain(id string) string {
	for range 3 {
		id = lenient(id)
	}
	return strings.ReplaceAll(strings.Trim(id, " "), " ", "+")
}

func values(lines []Line, same func(name string) bool) (all []string) {
	for _, l := range lines {
		if same(l.Name) {
			all = append(all, strings.Trim(l.Value, " \t"))
		}
	}
	return all
}

// ends puts the first and the last of several values into the map.
func ends(to map[string]string, how string, all []string) {
	if len(all) == 0 {
		all = []string{""}
	}
	to[how+", first"], to[how+", last"] = all[0], all[len(all)-1]
}

func header(to map[string]string, name string, lines []Line) {
	own := values(lines, func(n string) bool { return strings.EqualFold(n, name) })
	ends(to, "plain", own)
	to["joined"] = strings.Join(dedupe(own), ", ")
	ends(to, "list", strings.Split(strings.Join(own, ","), ","))
	ends(to, "CGI", values(lines, func(n string) bool { return cgi(n) == cgi(name) }))
	ends(to, "every sign", values(lines, func(n string) bool { return signs(n) == signs(name) }))
	for how, v := range to {
		to[how] = strings.TrimSpace(v)
	}
}

// dedupe leaves out repetitions of the first value: a list of equal values counts as one value.
func dedupe(all []string) (kept []string) {
	for i, v := range all {
		if i == 0 || v != all[0] {
			kept = append(kept, v)
		}
	}
	return kept
}

func cgi(name string) string { return strings.ReplaceAll(strings.ToUpper(name), "-", "_") }

func signs(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(name))
}

func bearer(to map[string]string, lines []Line) {
	all := values(lines, func(n string) bool { return strings.EqualFold(n, "Authorization") })
	token := func(line string) string { // the second word
		if words := strings.Fields(line); len(words) > 1 && strings.EqualFold(words[0], "bearer") {
			return words[1]
		}
		return ""
	}
	rest := func(line string) string { // all that follows the scheme
		if len(line) > 7 && strings.EqualFold(line[:6], "bearer") && (line[6] == ' ' || line[6] == '\t') {
			return strings.TrimSpace(line[7:])
		}
		return ""
	}
	for how, read := range map[string]func(string) string{"words": token, "rest": rest} {
		var tokens []string
		for _, line := range all {
			tokens = append(tokens, read(line))
		}
		ends(to, how, tokens)
	}
	var found []string // in lists of credentials
	for part := range strings.SplitSeq(strings.Join(dedupe(all), ","), ",") {
		if t := token(strings.TrimSpace(part)); t != "" {
			found = append(found, t)
		}
	}
	ends(to, "list", found)
}

func parameter(to map[string]string, name, query string) {
	exact := func(key string) bool { return key == name }
	anyCase := func(key string) bool { return strings.EqualFold(key, name) }
	php := func(key string) bool { return phpKey(key) == phpKey(name) }
	if strings.Contains(name, "[") {
		php = exact
	}
	for how, r := range map[string]struct {
		separators string
		same       func(key string) bool
	}{
		"form": {"&", exact}, "semicolons": {"&;", exact}, "any case": {"&", anyCase}, "PHP": {"&", php},
		"PHP, semicolons": {"&;", php},
		"twice":           {"&", func(key string) bool { return lenient(key) == name }},
	} {
		var found []string
		for _, pair := range strings.FieldsFunc(query,
			func(c rune) bool { return strings.ContainsRune(r.separators, c) }) {
			key, value, _ := strings.Cut(pair, "=")
			if r.same(lenient(strings.ReplaceAll(key, "+", " "))) {
				found = append(found, strings.TrimSpace(lenient(strings.ReplaceAll(value, "+", " "))))
			}
		}
		ends(to, how, found)
	}
	literal := []string{} // a plus sign is one
	some, _ := url.ParseQuery(strings.ReplaceAll(query, "+", "%2B"))
	literal = append(literal, some[name]...)
	for i := range literal {
		literal[i] = strings.TrimSpace(literal[i])
	}
	ends(to, "plus", literal)
}

// phpKey is the name that PHP gives to a parameter or a cookie.
func phpKey(key string) string {
	key, _, _ = strings.Cut(strings.TrimLeft(key, " "), "[")
	return strings.NewReplacer(".", "_", " ", "_").Replace(key)
}

// lenient unescapes what can be unescaped.
func lenient(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := url.PathUnescape(s[i : i+3]); err == nil {
				b.WriteString(c)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// simple is how Python's SimpleCookie finds pairs: it also splits at white space.
var simple = regexp.MustCompile(`\s*([^\s;=,"]+)\s*=\s*("(?:[^\\"]|\\.)*"|[^\s;"]*)`)

func cookie(to map[string]string, name string, lines []Line) {
	text := strings.Join(values(lines, func(n string) bool { return strings.EqualFold(n, "Cookie") }), "; ")
	exact := func(key string) bool { return key == name }
	for how, same := range map[string]func(string) bool{
		"RFC 6265": exact, "any case": func(key string) bool { return strings.EqualFold(key, name) },
		"PHP": func(key string) bool { return phpKey(lenient(key)) == phpKey(name) },
	} {
		var found []string
		for pair := range strings.SplitSeq(text, ";") {
			if key, value, _ := strings.Cut(strings.TrimSpace(pair), "="); same(strings.TrimSpace(key)) {
				found = append(found, strings.TrimSpace(value))
			}
		}
		ends(to, how, found)
	}
	var found []string
	for _, m := range simple.FindAllStringSubmatch(text, -1) {
		if m[1] == name {
			found = append(found, m[2])
		}
	}
	ends(to, "SimpleCookie", found)
	ends(to, "RFC 2965", quoted(text, name))
	for how, v := range to {
		if len(v) > 1 && v[0] == '"' && v[len(v)-1] == '"' {
			v = v[1 : len(v)-1]
		}
		to[how] = lenient(v)
	}
}

// quoted reads cookies by RFC 2965: separated by semicolons and commas outside quotes.
func quoted(text, name string) (found []string) {
	inside, from := false, 0
	take := func(pair string) {
		if key, value, _ := strings.Cut(strings.TrimSpace(pair), "="); strings.TrimSpace(key) == name {
			found = append(found, strings.TrimSpace(value))
		}
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"':
			inside = !inside
		case !inside && (c == ';' || c == ','):
			take(text[from:i])
			from = i + 1
		}
	}
	take(text[from:])
	return found
}

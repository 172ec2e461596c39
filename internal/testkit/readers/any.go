package readers

import (
	"strings"

	"pgregory.net/rapid"
)

// Any draws a request with the name of a place in any number, order, case, escaping and spelling. The query is escaped
// as far as needed.
func Any(t *rapid.T, place string) (query string, all []Line) {
	value := rapid.SampledFrom([]string{"a", "a", "a", "b", "mine", "%61", "%2561", "", " a", "a ", "a,b", "a, b",
		"a b", "a+b", "a%2Bb", `"a"`, `"a`, `\141`, "a;b", "%zz", "a%00", "a%20"})
	kind, name, _ := strings.Cut(place, ":")
	switch kind {
	case "query":
		key := rapid.SampledFrom([]string{name, name, strings.ToUpper(name), "%6bey", "%256bey", name + "[]",
			name + "[0]", name + "%5b%5d", "%20" + name, "+" + name, name + "%00", "other", "keys", "my" + name, ""})
		for range rapid.IntRange(0, 4).Draw(t, "pairs") {
			query += key.Draw(t, "key") + "=" + strings.ReplaceAll(value.Draw(t, "value"), " ", "%20") +
				rapid.SampledFrom([]string{"&", "&", "&", ";", "&amp;"}).Draw(t, "and")
		}
	case "cookie":
		for range rapid.IntRange(1, 2).Draw(t, "lines") {
			line := ""
			for range rapid.IntRange(0, 4).Draw(t, "pairs") {
				key := rapid.SampledFrom([]string{name, name, strings.ToUpper(name), name + "[]", "%73ession", "x", "y",
					"my" + name, ` "x`, ""}).Draw(t, "key")
				line += key + rapid.SampledFrom([]string{"=", "=", " = "}).Draw(t, "is") + value.Draw(t, "value") +
					rapid.SampledFrom([]string{"; ", "; ", ";", ", ", " ", `"; `}).Draw(t, "and")
			}
			all = append(all, Line{Name: "Cookie", Value: line})
		}
	default:
		header := "Authorization"
		if kind == "header" {
			header = name
		}
		for range rapid.IntRange(0, 3).Draw(t, "lines") {
			spelled := rapid.SampledFrom([]string{header, strings.ToLower(header), strings.ToUpper(header),
				strings.ReplaceAll(header, "-", "_"),
				strings.ReplaceAll(header, "-", "."), "X-Other", header + "s"}).Draw(t, "name")
			v := value.Draw(t, "value")
			if kind == "bearer" {
				v = rapid.SampledFrom([]string{"Bearer ", "bearer  ", "BEARER\t", "Basic ", "Digest x, Bearer ",
					""}).Draw(t, "scheme") + v
			}
			all = append(all, Line{Name: spelled, Value: v})
		}
	}
	return query, all
}

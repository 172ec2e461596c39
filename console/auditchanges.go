package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/store"
)

// A changed is one figure or word of what an act changed.
type changed struct{ What, Before, After string }

// auditChanges puts what was there before an act beside what is there after it. What stayed is left out, unless
// everything did.
func auditChanges(before, after store.Detail) []changed {
	was, is := map[string]string{}, map[string]string{}
	flatten("", before, was)
	flatten("", after, is)
	names := slices.Sorted(maps.Keys(was))
	for name := range is {
		if _, known := was[name]; !known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var all, differ []changed
	for _, name := range names {
		c := changed{What: name, Before: was[name], After: is[name]}
		if all = append(all, c); c.Before != c.After {
			differ = append(differ, c)
		}
	}
	if len(differ) > 0 {
		return differ
	}
	return all
}

// auditText is what an entry says, in words also where an order was noted as JSON.
func auditText(text string) string {
	if !strings.HasPrefix(text, "{") || !json.Valid([]byte(text)) {
		return text
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	_, _ = d.Token() // the brace
	var parts []string
	for d.More() { // in the order in which it was written
		key, _ := d.Token()
		var v any
		if err := d.Decode(&v); err != nil {
			return text
		}
		parts = append(parts, fmt.Sprint(strings.ReplaceAll(fmt.Sprint(key), "_", " "), " ", inWords(v)))
	}
	return strings.Join(parts, ", ")
}

// flatten reads JSON as names and words. What is not JSON stays as it is.
func flatten(name string, text store.Detail, into map[string]string) {
	if text == "" {
		return
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		v = string(text)
	}
	spread(name, v, into)
}

// spread notes a value under its name, and the parts of an object each under its own.
func spread(name string, v any, into map[string]string) {
	if parts, ok := v.(map[string]any); ok && len(parts) > 0 {
		for key, part := range parts {
			spread(strings.TrimSpace(name+" "+strings.ReplaceAll(key, "_", " ")), part, into)
		}
		return
	}
	if name == "" {
		name = "value"
	}
	into[name] = inWords(v)
}

// inWords is a value for people.
func inWords(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			parts[i] = inWords(one)
		}
		return strings.Join(parts, ", ")
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, strings.ReplaceAll(key, "_", " ")+" "+inWords(v[key]))
		}
		return strings.Join(parts, "; ")
	}
	return fmt.Sprint(v)
}

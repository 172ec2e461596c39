package main

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
)

func page(sections []*section, example string) []byte {
	var b bytes.Buffer
	b.WriteString(intro)
	fmt.Fprintf(&b, "```yaml\n%s```\n", example)
	b.WriteString("\n## Values\n\n| value | written as | meaning |\n|---|---|---|\n")
	for _, u := range units {
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", u.name, strings.Join(u.examples, "`, `"), cell(u.doc))
	}
	b.WriteString(values)
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", s.title(), s.intro())
		b.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
		for _, e := range s.entries {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", e.key, e.kind(e.t, sections), e.preset.markdown(), cell(e.doc))
		}
	}
	return b.Bytes()
}

const intro = `<!-- Generated from the comments in the source by go generate ./config. Do not edit. -->

# Configuration

weir reads one YAML file. It is strict: an unknown key, a forgotten unit or a throttle that does not exist is an error, and
` + "`weir check FILE`" +
	` reports every error at once, with its line, its column and a hint. A reload applies completely or not at
all. More files to start from are in [examples](../examples/README.md); [config/schema.json](../config/schema.json) lets
editors complete and check.

`

const values = `
Text is read as it is written: ` + "`0644`, `yes` and `1/s`" +
	` are text unless the key wants something else. A key without a value counts
as left out. A 0 is 0, never a default: where it would make no sense, it is an error. Only ` + "`true` and `false`" +
	` are true and false. Anchors and aliases may be used for whole values; merge keys (` + "`<<`" + `)
and tags may not.

Any value, or a part of it, may come from elsewhere:

- ` + "`${env:NAME}`" + ` is the environment variable NAME;
- ` + "`${file:/path}`" +
	` is what the file holds, without the line break at its end;
- ` + "`$${`" + ` is a plain ` + "`${`" + `.

Values that come from there are never shown in messages.

A relative path of a file or a folder, also such a reference, starts from the folder of the configuration, wherever weir is
started.
`

func (s *section) title() string {
	if s.path == "" {
		return "The file"
	}
	return "`" + s.path + "`"
}

// intro is the comment of the type, without the name that it has in the source.
func (s *section) intro() string {
	name := s.t.Name()
	for _, start := range []string{name + " configure ", name + " is ", name + " are ", "A " + name + " is ", "An " + name + " is "} {
		if rest, ok := strings.CutPrefix(s.doc, start); ok {
			return strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	return s.doc
}

// anchor is the name that a heading gets on a page.
func (s *section) anchor() string {
	keep := func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return -1
	}
	return strings.Map(keep, strings.ToLower(s.title()))
}

// kind says what kind of value a key wants.
func (e *entry) kind(t reflect.Type, sections []*section) string {
	if u := unitOf(t); u != nil {
		return u.name
	}
	switch t.Kind() {
	case reflect.Pointer:
		return e.kind(t.Elem(), sections)
	case reflect.Slice:
		if u := unitOf(t.Elem()); u != nil {
			return "list of " + u.plural
		}
		if s, ok := reflect.Zero(t).Interface().(interface{ Single() bool }); ok && s.Single() {
			return e.kind(t.Elem(), sections) + ", or list"
		}
		return "list of " + e.kind(t.Elem(), sections)
	case reflect.Map:
		return "NAME: " + e.kind(t.Elem(), sections)
	case reflect.Struct:
		for _, s := range sections {
			if s.t == t {
				return fmt.Sprintf("[%s](#%s)", s.title(), s.anchor())
			}
		}
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "number"
	case reflect.String:
		if e.words != nil {
			return "one of " + strings.TrimPrefix("`"+strings.Join(e.words, "`, `")+"`", "``, ")
		}
	}
	return "text"
}

func (p preset) markdown() string {
	if p.literal {
		return "`" + p.text + "`"
	}
	return cell(p.text)
}

func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;").Replace(s)
}

package main

import (
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"weir/config"
	"weir/internal/gen/source"
)

// A section describes one option type.
type section struct {
	t       reflect.Type
	path    string // where it stands in the file; NAME for a key that people choose
	doc     string
	entries []entry
}

// An entry describes one key.
type entry struct {
	key    string
	t      reflect.Type
	doc    string // without the default
	preset preset
	words  []string // the closed set that the value is of
	never0 bool     // 0 is refused
}

// A preset is what holds when a key is left out.
type preset struct {
	text    string
	literal bool // it can be written as it stands
}

// describe walks the option types from the whole configuration down. Each type is described once, at its first place.
func describe(s *source.Source) ([]*section, error) {
	w := walker{source: s, seen: map[reflect.Type]bool{}}
	if err := w.visit("", reflect.TypeFor[config.Config]()); err != nil {
		return nil, err
	}
	return w.sections, nil
}

type walker struct {
	source   *source.Source
	seen     map[reflect.Type]bool
	sections []*section
}

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

func isText(t reflect.Type) bool { return reflect.PointerTo(t).Implements(textUnmarshaler) }

func (w *walker) visit(path string, t reflect.Type) error {
	if isText(t) {
		if unitOf(t) == nil {
			return fmt.Errorf("%s: the unit %s is not described", path, t)
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return w.visit(path, t.Elem())
	case reflect.Slice:
		return w.visit(path+"[]", t.Elem())
	case reflect.Map:
		return w.visit(path+".NAME", t.Elem())
	case reflect.Struct:
		return w.section(path, t)
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64:
		return nil
	}
	return fmt.Errorf("%s: values of type %s are not described", path, t)
}

// comment returns the comment of a type, or of one of its fields. All have one, or the reference would have a hole.
func (w *walker) comment(t reflect.Type, field string) (string, error) {
	doc, err := w.source.Comment(t, field)
	if err == nil && doc == "" {
		err = fmt.Errorf("%s%s has no comment", t, field)
	}
	return doc, err
}

func (w *walker) section(path string, t reflect.Type) error {
	if w.seen[t] {
		return nil
	}
	w.seen[t] = true
	doc, err := w.comment(t, "")
	if err != nil {
		return err
	}
	s := &section{t: t, path: path, doc: doc}
	w.sections = append(w.sections, s)
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("yaml")
		if key == "" {
			return fmt.Errorf("the field %s.%s has no yaml tag", t, f.Name)
		}
		if key == "-" {
			continue
		}
		e, err := w.entry(key, t, f)
		if err != nil {
			return err
		}
		s.entries = append(s.entries, e)
		if err := w.visit(strings.TrimPrefix(path+"."+key, "."), f.Type); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(key string, t reflect.Type, f reflect.StructField) (entry, error) {
	doc, err := w.comment(t, "."+f.Name)
	if err != nil {
		return entry{}, err
	}
	e := entry{key: key, t: f.Type, never0: config.Never0(f)}
	e.doc, e.preset = splitDefault(doc)
	if e.words, err = w.source.ClosedSet(element(f.Type)); err != nil {
		return entry{}, err
	}
	if e.words != nil && e.preset.literal && !slices.Contains(e.words, e.preset.text) {
		return entry{}, fmt.Errorf("the default %q of %s.%s is none of %v", e.preset.text, t, f.Name, e.words)
	}
	return e, nil
}

// element returns what a list or mapping is of.
func element(t reflect.Type) reflect.Type {
	for !isText(t) && (t.Kind() == reflect.Slice || t.Kind() == reflect.Map || t.Kind() == reflect.Pointer) {
		t = t.Elem()
	}
	return t
}

var (
	literalDefault = regexp.MustCompile(`(?:^| )Default ([^: ].*?)\.(?: |$)`)
	wordedDefault  = regexp.MustCompile(`(?:^| )Default: (.*?)\.(?: |$)`)
	markedDefault  = regexp.MustCompile(`([\w-]+) \((?:[^()]*; )?the default(?:; [^()]*)?\)`)
)

// splitDefault finds what a comment says about the default: "Default 5s.", "Default: the limit.", or "info (the
// default)".
func splitDefault(doc string) (rest string, p preset) {
	if m := literalDefault.FindStringSubmatchIndex(doc); m != nil {
		return cut(doc, m), preset{doc[m[2]:m[3]], true}
	}
	if m := wordedDefault.FindStringSubmatchIndex(doc); m != nil {
		return cut(doc, m), preset{doc[m[2]:m[3]], false}
	}
	if m := markedDefault.FindStringSubmatch(doc); m != nil {
		return doc, preset{m[1], true}
	}
	return doc, preset{}
}

// cut takes a sentence out of a comment. A comment that is nothing else stays.
func cut(doc string, m []int) string {
	rest := strings.TrimSpace(doc[:m[0]] + " " + doc[m[1]:])
	if rest == "" {
		return doc
	}
	return rest
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
)

type object = map[string]any

// schemaOf writes the JSON Schema of the configuration.
func schemaOf(sections []*section) ([]byte, error) {
	defs := object{
		"reference": object{
			"type": "string", "pattern": `\$\{(env|file):[^}]+\}`,
			"description": "A value from the environment, ${env:NAME}, or from a file, ${file:/path}.",
		},
		"zero": object{
			"description": "0, with or without a unit.",
			"anyOf": []any{object{"type": "number", "minimum": 0, "maximum": 0},
				object{"type": "string", "pattern": `^[.0]*0[.0]* *[A-Za-zµ%]*$`}},
		},
	}
	for i := range units {
		u := &units[i]
		written := object{"type": "string", "pattern": u.pattern}
		if u.number != noNumber {
			written["type"] = []string{"string", "integer"}
			written["minimum"] = 0
		}
		if u.number == zeroOnly {
			written["maximum"] = 0
		}
		defs[u.name] = object{"description": u.doc, "examples": u.examples, "anyOf": []any{written, ref("reference")}}
	}
	for _, s := range sections {
		o, err := s.object()
		if err != nil {
			return nil, err
		}
		defs[s.t.String()] = o
	}
	root := object{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "Configuration of weir",
		"$ref":    "#/$defs/" + sections[0].t.String(),
		"$defs":   defs,
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(root)
	return b.Bytes(), err
}

func ref(name string) object { return object{"$ref": "#/$defs/" + name} }

func (s *section) object() (object, error) {
	properties := object{}
	for _, e := range s.entries {
		p, err := e.schema(e.t)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", s.t, e.key, err)
		}
		p["description"] = e.doc
		if e.never0 {
			p["not"] = ref("zero")
		}
		if e.preset.literal {
			p["default"] = e.value()
		}
		properties[e.key] = p
	}
	// A key without a value is as good as left out.
	return object{"type": []string{"object", "null"}, "description": s.intro(), "properties": properties,
		"additionalProperties": false}, nil
}

func (e *entry) schema(t reflect.Type) (object, error) {
	if u := unitOf(t); u != nil {
		return ref(u.name), nil
	}
	orReference := func(o object) object { return object{"anyOf": []any{o, ref("reference")}} }
	switch t.Kind() {
	case reflect.Pointer:
		return e.schema(t.Elem())
	case reflect.Struct:
		if s, ok := reflect.Zero(t).Interface().(interface{ Short() string }); ok { // one of its keys may stand for it
			f, err := fieldNamed(t, s.Short())
			if err != nil {
				return nil, err
			}
			list, err := e.schema(f.Type)
			if err != nil {
				return nil, err
			}
			if f.Type.Kind() != reflect.Slice {
				return object{"anyOf": []any{ref(t.String()), list}}, nil
			}
			one, err := e.schema(f.Type.Elem())
			return object{"anyOf": []any{ref(t.String()), list, one}}, err
		}
		return ref(t.String()), nil
	case reflect.Slice, reflect.Map:
		below, err := e.schema(t.Elem())
		if s, ok := reflect.Zero(t).Interface().(interface{ Single() bool }); ok && s.Single() {
			return object{"anyOf": []any{object{"type": []string{"array", "null"}, "items": below}, below}}, err
		}
		if t.Kind() == reflect.Slice {
			return object{"type": []string{"array", "null"}, "items": below}, err
		}
		return object{"type": []string{"object", "null"}, "additionalProperties": below}, err
	case reflect.Bool:
		return orReference(object{"type": "boolean"}), nil
	case reflect.Int, reflect.Int64:
		return orReference(object{"type": "integer"}), nil
	case reflect.String:
		if e.words != nil {
			return orReference(object{"enum": e.words}), nil
		}
		// Text is read as written, so an editor should not mind what looks like a number.
		return object{"type": []string{"string", "number", "boolean"}}, nil
	}
	return nil, fmt.Errorf("values of type %s are not described", t)
}

// fieldNamed returns the field of a struct that has a name in the configuration.
func fieldNamed(t reflect.Type, name string) (reflect.StructField, error) {
	for f := range t.Fields() {
		if f.Tag.Get("yaml") == name {
			return f, nil
		}
	}
	return reflect.StructField{}, fmt.Errorf("%s has no key %s", t, name)
}

// value returns the default as JSON has it.
func (e *entry) value() any {
	t := e.t
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool:
		return e.preset.text == "true"
	case reflect.Int, reflect.Int64:
		if n, err := strconv.Atoi(e.preset.text); err == nil {
			return n
		}
	}
	return e.preset.text
}

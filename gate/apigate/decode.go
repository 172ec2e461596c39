package apigate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"weir"
)

// encoding/json reads structs leniently: it accepts names in any case, takes the last of two fields of the same name,
// and does not say which item of a batch is wrong. So it only checks here that a body is valid JSON, and reads single
// values. The rest of a body is walked through by the functions below.

// An item is one request of a body, or the problem with it.
type item[T any] struct {
	value T
	wrong *problem
}

// decode takes a body apart: one request, or a list of at most so many. A mistake in a field is a problem of its item.
// Invalid JSON, or something that is not a request, is a problem of the whole body.
func decode[T any](body []byte, most int) (items []item[T], batch bool, wrong *problem) {
	start := skip(body)
	switch {
	case !utf8.Valid(body):
		return nil, false, malformed("the body is not UTF-8", "send JSON")
	case len(start) == 0:
		return nil, false, malformed("the body is empty", "send a JSON object")
	case !json.Valid(body):
		return nil, false, broken(body)
	}
	switch start[0] {
	case '{':
		items = make([]item[T], 1)
		items[0].wrong = decodeFields(start, reflect.ValueOf(&items[0].value).Elem(), "")
		return items, false, nil
	case '[':
		items, wrong = decodeBatch[T](start, most)
		return items, true, wrong
	}
	return nil, false, malformed("the body is not a JSON object", "send {…}")
}

func decodeBatch[T any](list []byte, most int) (items []item[T], wrong *problem) {
	for element := range elements(list) {
		switch n := len(items); {
		case n == most:
			return nil, tooLarge(BoundBatch, "the batch is too long", most)
		case element[0] != '{':
			return nil, malformed(fmt.Sprintf("[%d] is not a JSON object", n), "a batch is a list of objects")
		}
		var it item[T]
		it.wrong = decodeFields(element, reflect.ValueOf(&it.value).Elem(), "")
		items = append(items, it)
	}
	return items, nil
}

// decodeFields reads the fields of an object into a struct and returns the first mistake. Problems name the fields with
// under before them.
func decodeFields(object []byte, v reflect.Value, under string) *problem {
	known := requestFields[v.Type()]
	var seen uint64 // by index
	for key, value := range fields(object) {
		name := text(key)
		at := slices.Index(known, name)
		if at < 0 {
			return unknownField(under, name, known)
		}
		if seen&(1<<at) != 0 {
			return invalid(under+name, "the field comes twice", "leave one out")
		}
		seen |= 1 << at
		if wrong := decodeValue(under+name, value, v.Field(at).Addr().Interface()); wrong != nil {
			return wrong
		}
	}
	return nil
}

// requestFields are the names that the fields of a request have in JSON, by index. No request has more than 64.
var requestFields = func() map[reflect.Type][]string {
	all := map[reflect.Type][]string{}
	for _, t := range []reflect.Type{reflect.TypeFor[question](), reflect.TypeFor[route](), reflect.TypeFor[waiting](),
		reflect.TypeFor[settlement]()} {
		for i := range t.NumField() {
			all[t] = append(all[t], t.Field(i).Tag.Get("json"))
		}
	}
	return all
}()

func unknownField(under, name string, known []string) *problem {
	hint := "fields here: " + strings.Join(known, ", ")
	if near := weir.Nearest(name, known...); near != "" {
		hint = fmt.Sprintf("did you mean %q?", under+near)
	}
	return invalid(under+short(name), "unknown field", hint)
}

// decodeValue reads one value. Null leaves the target as it is.
func decodeValue(field string, value []byte, target any) *problem {
	if s, ok := target.(*string); ok && value[0] == '"' {
		*s = text(value)
		return nil
	}
	err := json.Unmarshal(value, target)
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[*fieldProblem](err); ok {
		return own.problem
	}
	e, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return invalid(field, "the value cannot be read", "see /openapi.json")
	}
	want, example := "text", `"…"`
	switch e.Type.Kind() {
	case reflect.Bool:
		want, example = "true or false", "true"
	case reflect.Int64:
		want, example = "a whole number", "1"
	case reflect.Slice:
		want, example = "a list", `["…"]`
	}
	kind, number, _ := strings.Cut(e.Value, " ") // "number 1.5" where the number does not fit
	got := map[string]string{"array": "a list", "object": "an object", "string": "text", "bool": "true or false",
		"number": "a number"}[kind]
	if number != "" {
		got = "the number " + short(number)
	}
	return invalid(field, fmt.Sprintf("expected %s, got %s", want, got), "write "+example)
}

// A fieldProblem is a mistake that a type with its own JSON form has found.
type fieldProblem struct{ *problem }

func (p *fieldProblem) Error() string { return p.Detail }

// broken says where a body is not valid JSON.
func broken(body []byte) *problem {
	err := json.Unmarshal(body, new(json.RawMessage))
	e, ok := errors.AsType[*json.SyntaxError](err)
	switch {
	case !ok:
		return malformed("the body cannot be read", "send a JSON object")
	case strings.Contains(e.Error(), "unexpected end"):
		return malformed("the JSON is incomplete", "a bracket or a quotation mark is never closed")
	case strings.Contains(e.Error(), "after top-level value"):
		return malformed(fmt.Sprintf("there is more after the end of the JSON, at byte %d", e.Offset),
			"send one object, or one list of them")
	}
	return malformed(fmt.Sprintf("the JSON breaks at byte %d: %s", e.Offset, e), "send JSON as in RFC 8259")
}

// The functions below walk through JSON that is known to be valid.

// elements are the values of a list.
func elements(list []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest := skip(list[1:]); rest[0] != ']'; {
			value, after := cut(rest)
			if !yield(value) {
				return
			}
			rest = skip(bytes.TrimPrefix(skip(after), []byte(",")))
		}
	}
}

// fields are the names of an object, with their quotation marks, and the values.
func fields(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for rest := skip(object[1:]); rest[0] != '}'; {
			key, after := cut(rest)
			value, after := cut(skip(skip(after)[1:])) // behind the colon
			if !yield(key, value) {
				return
			}
			rest = skip(bytes.TrimPrefix(skip(after), []byte(",")))
		}
	}
}

func skip(space []byte) []byte { return bytes.TrimLeft(space, " \t\r\n") }

// cut returns the value that the JSON begins with, and what follows it.
func cut(b []byte) (value, rest []byte) {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++ // what is escaped ends nothing
		case c == '"':
			quoted = !quoted
			if !quoted && depth == 0 {
				return b[:i+1], b[i+1:]
			}
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return b[:i+1], b[i+1:]
			}
			if depth < 0 { // the end of the list or object that the value is in
				return b[:i], b[i:]
			}
		case depth == 0 && bytes.IndexByte([]byte(", \t\r\n"), c) >= 0:
			return b[:i], b[i:]
		}
	}
	return b, nil
}

// text reads a string.
func text(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // cannot fail: it is valid
	return s
}

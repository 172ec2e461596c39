package console

import (
	_ "embed"
	"encoding"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/console/access"
	"weir/store"
)

//go:generate go run weir/internal/gen/openapi

// openAPI is what OpenAPI makes of the table of calls.
//
//go:embed openapi.json
var openAPI []byte

// A schema is one of JSON Schema, as OpenAPI 3.1 uses it.
type schema map[string]any

// OpenAPI describes calls as an OpenAPI document, by reflection over their types. comment returns what is written
// beside a field of a type, or of the type itself if the field is empty; internal/gen/openapi reads it from the source.
func OpenAPI(calls []*Call, comment func(t reflect.Type, field string) string) ([]byte, error) {
	d := &describer{schemas: map[string]schema{}, types: map[string]reflect.Type{}, comment: comment}
	paths := map[string]map[string]any{}
	for _, c := range calls {
		if paths[c.Path] == nil {
			paths[c.Path] = map[string]any{}
		}
		paths[c.Path][strings.ToLower(c.Method)] = d.operation(c)
	}
	d.of(reflect.TypeFor[Error]())
	doc := map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{"title": "weir", "version": "1",
			"summary": "What a running weir can be asked for.",
			"description": "Each call is also a command of the weir command line. Over the control socket no login is " +
				"needed; over the network send a token (weir token add) as Authorization: Bearer. An error is an object " +
				"with the field error. What a call changes is in the audit log."},
		"servers":  []any{map[string]any{"url": Prefix}},
		"security": []any{map[string]any{"token": []any{}}},
		"paths":    paths,
		"components": map[string]any{"schemas": d.schemas,
			"securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}}},
	}
	if d.err != nil {
		return nil, d.err
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	return append(text, '\n'), err
}

// A describer collects the types that calls use.
type describer struct {
	schemas map[string]schema
	types   map[string]reflect.Type
	comment func(reflect.Type, string) string
	err     error
}

func (d *describer) operation(c *Call) map[string]any {
	kind := "application/json"
	if c.Stream {
		kind = "application/jsonl"
	}
	op := map[string]any{"operationId": c.Name(), "summary": c.Summary, "x-weir-role": c.Role,
		"x-weir-commands": c.Commands,
		"responses": map[string]any{
			"200": map[string]any{"description": "Done.", "content": content(kind, d.of(c.Out))},
			"default": map[string]any{"description": "Not done, and why.",
				"content": content("application/json", schema{"$ref": "#/components/schemas/Error"})},
		}}
	if c.Local {
		op["x-weir-control-socket-only"] = true
	}
	switch {
	case c.In.NumField() == 0:
	case c.Method == http.MethodPost:
		op["requestBody"] = map[string]any{"required": true, "content": content("application/json", d.of(c.In))}
	default:
		op["parameters"] = d.parameters(c.In)
	}
	return op
}

func content(kind string, s schema) map[string]any {
	return map[string]any{kind: map[string]any{"schema": s}}
}

func (d *describer) parameters(t reflect.Type) (all []any) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			all = append(all, d.parameters(f.Type)...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := map[string]any{"name": name, "in": "query", "schema": d.of(f.Type), "required": options == ""}
		if text := d.told(t, f); text != "" {
			p["description"] = text
		}
		all = append(all, p)
	}
	return all
}

// enums are the values that types of texts have.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[access.Role]():  {string(access.View), string(access.Act), string(access.Admin)},
	reflect.TypeFor[store.State]():  texts(store.States[:]),
	reflect.TypeFor[weir.Verdict](): texts(weir.Verdicts[:]),
}

func texts[T fmt.Stringer](all []T) (out []string) {
	for _, v := range all {
		out = append(out, v.String())
	}
	return out
}

var textMarshaler, jsonMarshaler = reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[json.Marshaler]()

// of returns the schema of a type. Structs with a name are described once, and referred to.
func (d *describer) of(t reflect.Type) schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return schema{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[Values]():
		return schema{"type": "array", "items": schema{"type": []string{"number", "null"}}}
	case enums[t] != nil:
		return schema{"type": "string", "enum": enums[t]}
	case t.Implements(textMarshaler):
		return schema{"type": "string"}
	case t.Implements(jsonMarshaler):
		return schema{} // any value
	}
	switch t.Kind() {
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Int8, reflect.Uint8:
		return schema{"type": "integer"}
	case reflect.Float64:
		return schema{"type": "number"}
	case reflect.Pointer:
		return d.of(t.Elem())
	case reflect.Slice, reflect.Array:
		return schema{"type": "array", "items": d.of(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": d.of(t.Elem())}
	case reflect.Struct:
		return d.named(t)
	}
	d.err = fmt.Errorf("%s cannot be described", t)
	return nil
}

func (d *describer) named(t reflect.Type) schema {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if known := d.types[name]; known == nil {
		d.types[name] = t
		s := schema{"type": "object", "properties": map[string]any{}}
		d.schemas[name] = s
		d.fields(t, s, true)
		if text := d.comment(t, ""); text != "" {
			s["description"] = text
		}
	} else if known != t {
		d.err = fmt.Errorf("%s and %s have the same name", known, t)
	}
	return schema{"$ref": "#/components/schemas/" + name}
}

// told is what a field means: its comment, or what /metrics says of it where it is the whole of a metric.
func (d *describer) told(t reflect.Type, f reflect.StructField) string {
	text := d.comment(t, f.Name)
	if text == "" && !strings.Contains(f.Tag.Get("label"), "=") {
		text = f.Tag.Get("help")
	}
	return text
}

// fields adds the fields of a struct. Those of embedded structs are its own.
func (d *describer) fields(t reflect.Type, s schema, always bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			d.fields(inner, s, always && f.Type.Kind() != reflect.Pointer)
			continue
		}
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		of := d.of(f.Type)
		if text := d.told(t, f); text != "" {
			of["description"] = text
		}
		s["properties"].(map[string]any)[name] = of
		if always && !slices.Contains(strings.Split(options, ","), "omitempty") &&
			!slices.Contains(strings.Split(options, ","), "omitzero") {
			required, _ := s["required"].([]string)
			s["required"] = append(required, name)
		}
	}
}

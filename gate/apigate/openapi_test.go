package apigate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
)

// object is any JSON object.
type object = map[string]any

func document(t testing.TB) object {
	t.Helper()
	var doc object
	if err := json.Unmarshal(openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// under returns what stands in the document under these names, following references.
func under(doc object, at any, names ...string) any {
	for {
		if o, ok := at.(object); ok {
			if ref, ok := o["$ref"].(string); ok {
				at = under(doc, doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
				continue
			}
		}
		if len(names) == 0 {
			return at
		}
		o, _ := at.(object)
		at, names = o[names[0]], names[1:]
	}
}

func sorted(o any) []string {
	m, _ := o.(object)
	return slices.Sorted(maps.Keys(m))
}

// Every path that the gate answers is described, with its method and its token, and nothing else is.
func TestOpenAPIPaths(t *testing.T) {
	doc := document(t)
	paths := doc["paths"].(object)
	if got, want := sorted(paths), slices.Sorted(maps.Keys(resources)); !slices.Equal(got, want) {
		t.Errorf("described %v, served %v", got, want)
	}
	for path, e := range resources {
		operation, ok := under(doc, paths, path, strings.ToLower(e.method)).(object)
		if !ok || len(paths[path].(object)) != 1 {
			t.Errorf("%s is not described as %s alone", path, e.method)
			continue
		}
		if _, open := operation["security"]; open != e.public {
			t.Errorf("%s is described as public: %v", path, open)
		}
		if responses := operation["responses"].(object); responses["200"] == nil ||
			(responses["401"] == nil) != e.public {
			t.Errorf("%s: answers %v", path, sorted(responses))
		}
	}
}

// Every field of a request or an answer is described, by its type, and nothing else is.
func TestOpenAPIFields(t *testing.T) {
	doc := document(t)
	described := map[string]reflect.Type{
		"Question": reflect.TypeFor[question](), "Route": reflect.TypeFor[route](),
		"Waiting":    reflect.TypeFor[waiting](),
		"Settlement": reflect.TypeFor[settlement](), "Settled": reflect.TypeFor[settled](),
		"Decision":    reflect.TypeFor[decision](),
		"ItemFailure": reflect.TypeFor[itemFailure](), "Policies": reflect.TypeFor[policyList](),
		"Policy":  reflect.TypeFor[policyEntry](),
		"Problem": reflect.TypeFor[problem](),
	}
	schemas := under(doc, doc, "components", "schemas").(object)
	for name := range schemas {
		if described[name] == nil && name != "RouteText" {
			t.Errorf("the schema %s is of nothing", name)
		}
	}
	for name, typ := range described {
		properties := under(doc, schemas, name, "properties")
		var want, always []string
		for i := range typ.NumField() {
			f := typ.Field(i)
			if !f.IsExported() {
				continue
			}
			field, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
			want = append(want, field)
			if opts == "" {
				always = append(always, field)
			}
			if got, is := under(doc, properties, field, "type"), jsonType(f.Type); got != is && field != "route" && field != "parts" {
				t.Errorf("%s.%s is described as %v, and is %s", name, field, got, is)
			}
		}
		slices.Sort(want)
		if got := sorted(properties); !slices.Equal(got, want) {
			t.Errorf("%s is described with %v, and has %v", name, got, want)
		}
		if under(doc, schemas, name, "additionalProperties") != false {
			t.Errorf("%s does not say that there is nothing more", name)
		}
		// Of a request, what must be there is checked by hand; of an answer, it is what is never left out.
		required := fmt.Sprint(under(doc, schemas, name, "required"))
		if strings.Contains("Question Route Waiting Settlement", name) {
			continue
		}
		if required != fmt.Sprint(always) {
			t.Errorf("%s requires %v, and always has %v", name, required, always)
		}
	}
}

func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	case reflect.Struct:
		if t != reflect.TypeFor[time.Time]() {
			return "object"
		}
	}
	return "string" // a verdict, a reason, a time
}

// The closed sets are complete.
func TestOpenAPIWords(t *testing.T) {
	doc := document(t)
	var verdicts, reasons, problems []string
	for _, v := range weir.Verdicts {
		verdicts = append(verdicts, v.String())
	}
	for r := weir.NoReason + 1; !strings.HasPrefix(r.String(), "reason("); r++ {
		reasons = append(reasons, r.String())
	}
	for _, name := range []string{problemMalformed, problemInvalid, problemToken, problemNotFound, problemMethod,
		problemTimeout, problemNoHold, problemOtherNode,
		problemTooLarge + BoundBody, problemTooLarge + BoundBatch, problemFullPrefix + BoundRequests,
		problemFullPrefix + BoundHolds, problemStopping, problemFailure} {
		problems = append(problems, "urn:weir:"+name)
	}
	for at, want := range map[string][]string{"Decision verdict": verdicts, "Decision reason": reasons,
		"Problem type": problems} {
		schema, field, _ := strings.Cut(at, " ")
		if got := under(doc, doc, "components", "schemas", schema, "properties", field,
			"enum"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is described as\n%v, and is one of\n%v", at, got, want)
		}
	}
	for field, most := range map[string]int{"policy": maxWord, "account": 256, "plan": maxPlan, "user": maxAddress,
		"kind": maxKind, "name": maxName, "phone": maxPhone, "stamp": maxStamp, "id": maxID} {
		if got := under(doc, doc, "components", "schemas", "Question", "properties", field,
			"maxLength"); got != float64(most) {
			t.Errorf("%s is described as at most %v long, and is %d", field, got, most)
		}
	}
}

// Every reference leads somewhere.
func TestOpenAPIReferences(t *testing.T) {
	doc := document(t)
	var visit func(at any)
	visit = func(at any) {
		switch at := at.(type) {
		case object:
			if ref, ok := at["$ref"]; ok && under(doc, at) == nil {
				t.Errorf("%v leads nowhere", ref)
			}
			for _, below := range at {
				visit(below)
			}
		case []any:
			for _, below := range at {
				visit(below)
			}
		}
	}
	visit(doc)
}

// The examples are what they say: requests are sent to a gate, and both what it answers and what the document shows
// fits the schemas.
func TestOpenAPIExamples(t *testing.T) {
	doc := document(t)
	c := newClock()
	q := newQuota(t, c, delayed(perMinute(20)))
	r := start(t, Options{}, c, policies{"web": chainOf(t, q), "mail": chainOf(t)})
	sent := 0
	for path, e := range resources {
		operation := under(doc, doc, "paths", path, strings.ToLower(e.method)).(object)
		for status, response := range operation["responses"].(object) {
			for kind, content := range under(doc, response, "content").(object) {
				schema := under(doc, content, "schema")
				examples, _ := under(doc, content, "examples").(object)
				for name, example := range examples {
					if err := fits(doc, schema, under(doc, example, "value")); err != nil {
						t.Errorf("%s, answer %s, %s, %s: %v", path, status, kind, name, err)
					}
				}
			}
		}
		examples, _ := under(doc, operation, "requestBody", "content", "application/json", "examples").(object)
		for name, example := range examples {
			value := under(doc, example, "value")
			if err := fits(doc, under(doc, operation, "requestBody", "content", "application/json", "schema"),
				value); err != nil {
				t.Errorf("%s, %s: %v", path, name, err)
			}
			body, _ := json.Marshal(value)
			if path != "/v1/decide" { // its hold must be a real one
				held := r.decide(`{"policy":"web","account":"acme","hold":true}`, weir.Admit)
				body = regexp.MustCompile(`"hold":"[^"]*"`).ReplaceAll(body, []byte(`"hold":"`+held.Hold+`"`))
			}
			a := r.do(r.request(context.Background(), e.method, path, string(body)))
			var got any
			if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status != http.StatusOK ||
				strings.Contains(a.body, "error") {
				t.Fatalf("%s, %s: %d %s %v", path, name, a.status, a.body, err)
			}
			if err := fits(doc, under(doc, operation, "responses", "200", "content", "application/json", "schema"),
				got); err != nil {
				t.Errorf("%s, %s: the answer %s: %v", path, name, a.body, err)
			}
			sent++
		}
	}
	if sent < 8 {
		t.Errorf("only %d examples", sent)
	}
	for body, want := range map[string]int{`{`: 400, `{"policy":"x"}`: 400, `[{"policy":"x"}]`: 200} {
		a := r.post("/v1/decide", body)
		var got any
		_ = json.Unmarshal([]byte(a.body), &got)
		schema := under(doc, doc, "components", "schemas", "Problem")
		if want == 200 {
			schema = under(doc, doc, "paths", "/v1/decide", "post", "responses", "200", "content", "application/json",
				"schema")
		}
		if err := fits(doc, schema, got); err != nil || a.status != want {
			t.Errorf("%s: %s: %v", body, a.body, err)
		}
	}
}

// fits checks a value against as much of JSON Schema as the document uses.
func fits(doc object, schema, value any) error {
	s, ok := under(doc, schema).(object)
	if !ok {
		return fmt.Errorf("no schema: %v", schema)
	}
	if either, ok := s["oneOf"].([]any); ok {
		var errs []error
		for _, one := range either {
			if err := fits(doc, one, value); err != nil {
				errs = append(errs, err)
			}
		}
		if len(errs) != len(either)-1 {
			return fmt.Errorf("fits %d of %d: %v", len(either)-len(errs), len(either), errs)
		}
		return nil
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, value) {
		return fmt.Errorf("%v is none of %v", value, enum)
	}
	if constant, ok := s["const"]; ok && value != constant {
		return fmt.Errorf("%v is not %v", value, constant)
	}
	switch v := value.(type) {
	case object:
		return fitsObject(doc, s, v)
	case []any:
		if s["type"] != "array" {
			return fmt.Errorf("a list, want %v", s["type"])
		}
		for _, element := range v {
			if err := fits(doc, s["items"], element); err != nil {
				return err
			}
		}
	case string:
		if s["type"] != "string" {
			return fmt.Errorf("%q, want %v", v, s["type"])
		}
		if s["format"] == "date-time" {
			_, err := time.Parse(time.RFC3339, v)
			return err
		}
	case float64:
		if s["type"] != "number" && (s["type"] != "integer" || v != float64(int64(v))) {
			return fmt.Errorf("%v, want %v", v, s["type"])
		}
	case bool:
		if s["type"] != "boolean" {
			return fmt.Errorf("%v, want %v", v, s["type"])
		}
	default:
		return fmt.Errorf("%v is nothing that the document speaks of", v)
	}
	return nil
}

func fitsObject(doc, s, v object) error {
	if s["type"] != "object" {
		return fmt.Errorf("an object, want %v", s["type"])
	}
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Errorf("%v is missing", name)
		}
	}
	properties, closed := s["properties"].(object)
	for name, below := range v {
		if properties[name] == nil {
			if closed {
				return fmt.Errorf("%s is not described", name)
			}
			continue
		}
		if err := fits(doc, properties[name], below); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

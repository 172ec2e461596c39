package config

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestSchemaAgreesWithTheReader(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	if root["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
		t.Error(root["$schema"])
	}
	check := func(name string) error {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := yaml.Unmarshal(text, &v); err != nil {
			t.Fatal(name, err)
		}
		return conforms(root, root, v, "")
	}
	good, _ := filepath.Glob("../examples/*.yaml")
	good = append(good, "testdata/good/everything.yaml", "testdata/good/references.yaml", "testdata/good/aliases.yaml")
	for _, name := range good {
		if err := check(name); err != nil {
			t.Errorf("%s: the schema refuses %v", name, err)
		}
	}
	for _, name := range []string{"unknown-key-near", "unknown-key-far", "unit-forgotten", "words",
		"value-where-a-list-is-wanted",
		"mapping-where-a-list-is-wanted", "list-where-a-mapping-is-wanted", "value-where-a-mapping-is-wanted",
		"networks", "zeros"} {
		if check("testdata/bad/"+name+".yaml") == nil {
			t.Errorf("%s: the schema accepts it", name)
		}
	}
}

// conforms checks a value against as much of JSON Schema as ours uses. A keyword that it does not know is an error.
func conforms(root, schema map[string]any, v any, path string) error {
	for keyword, want := range schema {
		var err error
		switch keyword {
		case "$schema", "$defs", "title", "description", "default", "examples":
		case "$ref":
			name := strings.TrimPrefix(want.(string), "#/$defs/")
			target, ok := root["$defs"].(map[string]any)[name].(map[string]any)
			if !ok {
				return fmt.Errorf("no definition %s", name)
			}
			err = conforms(root, target, v, path)
		case "anyOf":
			for _, one := range want.([]any) {
				if err = conforms(root, one.(map[string]any), v, path); err == nil {
					break
				}
			}
		case "not":
			if conforms(root, want.(map[string]any), v, path) == nil {
				err = fmt.Errorf("%s: %v is excluded", path, v)
			}
		case "type":
			if !isOfType(want, v) {
				err = fmt.Errorf("%s: %v is not %v", path, v, want)
			}
		case "enum":
			if !slices.Contains(want.([]any), v) {
				err = fmt.Errorf("%s: %v is none of %v", path, v, want)
			}
		case "pattern":
			if text, ok := v.(string); ok && !regexp.MustCompile(want.(string)).MatchString(text) {
				err = fmt.Errorf("%s: %q does not match %s", path, text, want)
			}
		case "minimum", "maximum":
			if n, ok := number(v); ok &&
				(keyword == "minimum" && n < want.(float64) || keyword == "maximum" && n > want.(float64)) {
				err = fmt.Errorf("%s: %v is beyond the %s", path, v, keyword)
			}
		case "items":
			list, _ := v.([]any)
			for i, item := range list {
				if err = conforms(root, want.(map[string]any), item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
					return err
				}
			}
		case "properties", "additionalProperties":
			err = membersConform(root, schema, v, path)
		default:
			err = fmt.Errorf("unknown keyword %s", keyword)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func membersConform(root, schema map[string]any, v any, path string) error {
	object, _ := v.(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	for key, value := range object {
		below, known := properties[key].(map[string]any)
		if !known {
			if below, known = schema["additionalProperties"].(map[string]any); !known {
				return fmt.Errorf("%s: unknown key %s", path, key)
			}
		}
		if err := conforms(root, below, value, path+"."+key); err != nil {
			return err
		}
	}
	return nil
}

func isOfType(want, v any) bool {
	if several, ok := want.([]any); ok {
		return slices.ContainsFunc(several, func(one any) bool { return isOfType(one, v) })
	}
	switch v.(type) {
	case nil:
		return want == "null"
	case bool:
		return want == "boolean"
	case string:
		return want == "string"
	case []any:
		return want == "array"
	case map[string]any:
		return want == "object"
	}
	n, ok := number(v)
	return ok && (want == "number" || want == "integer" && n == math.Trunc(n))
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case uint64:
		return float64(n), true
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	_ "time/tzdata"
)

var update = flag.Bool("update", false, "write the golden files anew")

// environment is what the files in testdata refer to.
func environment(t *testing.T) {
	for name, value := range map[string]string{"SECRET": "open-sesame", "SHORT": "7", "DATA": "/srv", "LIMIT": "24",
		"TRUE": "true"} {
		t.Setenv("WEIR_TEST_"+name, value)
	}
}

func TestGood(t *testing.T) {
	environment(t)
	t.Chdir("testdata/good")
	for _, name := range files(t) {
		c, err := Load(name)
		if err != nil {
			t.Errorf("%s:\n%v", name, err)
			continue
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		if err := e.Encode(plainly(reflect.ValueOf(*c))); err != nil {
			t.Fatal(err)
		}
		for _, w := range c.Warnings {
			b.WriteString("warning: " + w.Error() + "\n")
		}
		golden(t, name, ".json", b.String())
	}
}

func TestBad(t *testing.T) {
	environment(t)
	t.Chdir("testdata/bad")
	names := files(t)
	if len(names) < 25 {
		t.Errorf("only %d files", len(names))
	}
	for _, name := range names {
		c, err := Load(name)
		all, ok := err.(Errors)
		if !ok || c != nil {
			t.Errorf("%s: no error (%v)", name, err)
			continue
		}
		for _, secret := range []string{"open-sesame", "sesame"} {
			if strings.Contains(all.Explain()+all.Error(), secret) {
				t.Errorf("%s: a secret is shown:\n%s", name, all.Explain())
			}
		}
		golden(t, name, ".err", all.Error()+"\n\n"+all.Explain())
	}
}

func files(t *testing.T) []string {
	names, err := filepath.Glob("*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal("no files", err)
	}
	return names
}

func golden(t *testing.T, name, ext, got string) {
	t.Helper()
	path := strings.TrimSuffix(name, ".yaml") + ext
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// plainly turns options into what JSON shows: the keys of the file, the values as people write them, and only what was
// given.
func plainly(v reflect.Value) any {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok && v.Kind() != reflect.Pointer {
		text, _ := m.MarshalText()
		return string(text)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return plainly(v.Elem())
	case reflect.Struct:
		out := map[string]any{}
		for _, f := range fieldsOf(v.Type()) {
			if below := v.Field(f.index); !below.IsZero() {
				out[f.name] = plainly(below)
			}
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, k := range v.MapKeys() {
			out[k.String()] = plainly(v.MapIndex(k))
		}
		return out
	case reflect.Slice:
		out := []any{}
		for i := range v.Len() {
			out = append(out, plainly(v.Index(i)))
		}
		return out
	}
	return v.Interface()
}

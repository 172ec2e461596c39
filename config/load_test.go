package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// httpGate and plans are the least that a configuration needs.
const (
	httpGate = "http: [{listen: '127.0.0.1:8080', upstream: 'http://127.0.0.1:3000', throttles: [plans]}]\n"
	plans    = "throttles: {plans: {quota: {policies: [{name: a, limit: 5, period: 1s}]}}}\n"
)

func TestLoadSaysWhyAFileCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	_, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != path+": cannot be read: no such file or directory" {
		t.Error(err)
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Error(err)
	}
	if one, ok := errors.AsType[*Error](err); !ok || one.Explain() != one.Error()+"\n" {
		t.Error("a mistake without a line is explained without one")
	}
}

func TestFileAtItsBounds(t *testing.T) {
	fits := httpGate + plans + "#"
	fits += strings.Repeat("x", MaxFile-len(fits))
	if _, err := Parse("weir.yaml", []byte(fits)); err != nil {
		t.Error(err)
	}
	_, err := Parse("weir.yaml", []byte(fits+"x"))
	if err == nil || err.Error() != "weir.yaml: the file is larger than 1MiB" {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(path, []byte(fits+strings.Repeat("x", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.HasSuffix(err.Error(), "larger than 1MiB") {
		t.Error(err)
	}
}

func TestKeysAtTheirBound(t *testing.T) {
	members := func(keys int) []byte {
		var b strings.Builder
		b.WriteString(httpGate + "throttles: {plans: {quota: {policies: [{name: a, limit: 5, period: 1s}], members: {")
		keys -= strings.Count(b.String(), ": ")
		for i := range keys {
			fmt.Fprintf(&b, "m%d: gold,", i)
		}
		b.WriteString("}}}}\n")
		return []byte(b.String())
	}
	if _, err := Parse("weir.yaml", members(MaxKeys)); err != nil {
		t.Error(err)
	}
	if _, err := Parse("weir.yaml", members(MaxKeys+1)); err == nil ||
		!strings.Contains(err.Error(), "more than 20000 keys") {
		t.Error(err)
	}
}

func TestDepthAtItsBound(t *testing.T) {
	nested := func(levels int) string {
		return httpGate + plans + "colour: " + strings.Repeat("[", levels) + strings.Repeat("]", levels) + "\n"
	}
	// The mapping at the top is a level too.
	if _, err := Parse("weir.yaml", []byte(nested(MaxDepth-1))); err == nil || strings.Contains(err.Error(), "deeper") {
		t.Error(err)
	}
	if _, err := Parse("weir.yaml", []byte(nested(MaxDepth))); err == nil ||
		!strings.Contains(err.Error(), "deeper than 50 levels") {
		t.Error(err)
	}
}

func TestMistakesAtTheirBound(t *testing.T) {
	file := func(mistakes int) []byte {
		var b strings.Builder
		b.WriteString(httpGate + plans)
		for i := range mistakes {
			fmt.Fprintf(&b, "strange%d: 1\n", i)
		}
		return []byte(b.String())
	}
	_, err := Parse("weir.yaml", file(MaxErrors))
	if all := err.(Errors); len(all) != MaxErrors || strings.Contains(all[MaxErrors-1].Msg, "more") {
		t.Error(len(all), all[len(all)-1])
	}
	_, err = Parse("weir.yaml", file(MaxErrors+7))
	if all := err.(Errors); len(all) != MaxErrors+1 || all[MaxErrors].Msg != "7 more errors from here on" {
		t.Error(len(all), all[len(all)-1])
	}
}

func TestMistakesCanBeTakenApart(t *testing.T) {
	_, err := Parse("weir.yaml", []byte(httpGate+plans+"colour: blue\nlog: {levl: info}\n"))
	one, ok := errors.AsType[*Error](err)
	if !ok || one.File != "weir.yaml" || one.Line != 3 || one.Column != 1 || one.Msg != `unknown key "colour"` {
		t.Errorf("%+v", one)
	}
	all := err.(Errors)
	if len(all) != 2 || all[1].Hint != `did you mean "level"?` {
		t.Error(all)
	}
}

// FuzzParse: no text makes the reader panic, and every mistake points into the file.
func FuzzParse(f *testing.F) {
	for _, folder := range []string{"good", "bad"} {
		names, _ := filepath.Glob(filepath.Join("testdata", folder, "*.yaml"))
		for _, name := range names {
			if text, err := os.ReadFile(name); err == nil && len(text) < 4000 {
				f.Add(text)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("weir.yaml", data)
		if (c == nil) == (err == nil) {
			t.Fatal("neither a configuration nor a mistake, or both")
		}
		if err == nil {
			if err := c.Validate(); err != nil {
				t.Fatal("what was accepted is not valid:", err)
			}
			full := c.WithDefaults()
			if err := full.Validate(); err != nil {
				t.Fatal("the defaults make it invalid:", err)
			}
			return
		}
		lines := strings.Split(strings.TrimPrefix(string(data), "\uFEFF"), "\n")
		for _, e := range err.(Errors) {
			if e.Msg == "" || e.Line < 1 || e.Line > len(lines) || e.Column < 1 ||
				e.Column > utf8.RuneCountInString(lines[e.Line-1])+1 {
				t.Fatalf("%+v does not point into the file", e)
			}
			_ = e.Explain()
		}
	})
}

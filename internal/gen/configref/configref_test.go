package main

import (
	"bytes"
	"encoding"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"weir/internal/gen/source"
)

func TestGeneratedFilesAreCurrent(t *testing.T) {
	root := "../../.."
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not current (%v): run go generate ./config", name, err)
		}
	}
	again, err := generate(root)
	if err != nil || !reflect.DeepEqual(again, files) {
		t.Error("a second run gives something else", err)
	}
}

func TestSplitDefault(t *testing.T) {
	for _, c := range []struct {
		doc, rest string
		want      preset
	}{
		{"A folder. Default /var/lib/weir.", "A folder.", preset{"/var/lib/weir", true}},
		{"An address. Default 127.0.0.1:9000. Or off.", "An address. Or off.", preset{"127.0.0.1:9000", true}},
		{"A burst. Default: the limit.", "A burst.", preset{"the limit", false}},
		{"Default: none, so that nobody has one.", "Default: none, so that nobody has one.",
			preset{"none, so that nobody has one", false}},
		{"The level: debug, info (the default) or warn.", "The level: debug, info (the default) or warn.",
			preset{"info", true}},
		{"What it means: closed (refuse; the default) or open.", "What it means: closed (refuse; the default) or open.",
			preset{"closed", true}},
		{"What it means: open or closed (the default; refuse).", "What it means: open or closed (the default; refuse).",
			preset{"closed", true}},
		{"Nothing is said.", "Nothing is said.", preset{}},
	} {
		if rest, p := splitDefault(c.doc); rest != c.rest || p != c.want {
			t.Errorf("%q: %q, %+v", c.doc, rest, p)
		}
	}
}

// What the page shows as an example can be read, and the editor does not mind it.
func TestUnitsAreAsDescribed(t *testing.T) {
	for _, u := range units {
		pattern := regexp.MustCompile(u.pattern)
		for _, text := range u.examples {
			err := reflect.New(u.t).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
			if _, single := netip.ParseAddr(text); err != nil && (u.name != "network" || single != nil) {
				t.Errorf("%s %q: %v", u.name, text, err)
			}
			if !pattern.MatchString(text) {
				t.Errorf("%s %q does not match %s", u.name, text, u.pattern)
			}
		}
		for _, text := range []string{"", "many", "-1", "5 apples"} {
			if pattern.MatchString(text) {
				t.Errorf("%s %q matches %s", u.name, text, u.pattern)
			}
		}
	}
}

type undocumented struct {
	Field string `yaml:"field"`
}

func TestAFieldWithoutACommentIsRefused(t *testing.T) {
	w := walker{source: &source.Source{Root: "../../.."}, seen: map[reflect.Type]bool{}}
	if err := w.visit("", reflect.TypeFor[undocumented]()); err == nil ||
		!strings.Contains(err.Error(), "has no comment") {
		t.Error(err)
	}
}

package main

import (
	"os/exec"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
)

// Every command has a page that names its flags, and roff finds nothing wrong with it.
func TestManPages(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	groff := needs.Program(t, "groff", "apt-get install groff-base")
	model := parser(t).Model.Node
	pages := manPages(model)
	for _, leaf := range model.Leaves(true) {
		name, _, _ := strings.Cut(leaf.Path(), " ")
		page, ok := pages["weir-"+name+".1"]
		if !ok {
			t.Errorf("weir %s has no page", leaf.Path())
		}
		for _, flag := range leaf.Flags {
			if !strings.Contains(page, escape("--"+flag.Name)) {
				t.Errorf("the page of weir %s does not name --%s", leaf.Path(), flag.Name)
			}
		}
		if !strings.Contains(pages["weir.1"], escape("weir-"+name)) {
			t.Errorf("weir(1) does not name weir-%s(1)", name)
		}
	}
	var all strings.Builder
	for _, page := range pages {
		all.WriteString(page)
	}
	cmd := exec.Command(groff, "-man", "-ww", "-Tascii", "-P-cbou")
	cmd.Stdin = strings.NewReader(all.String())
	var wrong strings.Builder
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil || wrong.Len() > 0 {
		t.Fatalf("%v\n%s", err, wrong.String())
	}
	if !strings.Contains(string(out), "SYNOPSIS") {
		t.Error("groff shows no page")
	}
}

// A line of a text that begins with a dot is no request to roff.
func TestManEscapes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		".so /etc/passwd": `\&.so /etc/passwd`, "'x": `\&'x`, `a\b`: `a\eb`, "--all": `\-\-all`,
	} {
		if got := escape(text); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

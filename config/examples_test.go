package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExamplesHaveNoMistakes(t *testing.T) {
	names, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(names) < 7 {
		t.Fatal(names, err)
	}
	readme, err := os.ReadFile("../examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		c, err := Load(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(c.Warnings) > 0 {
			t.Error(c.Warnings)
		}
		// They are tried out on people's own machines.
		if c.Data != "../examples/weir-data" {
			t.Errorf("%s keeps its data in %q", name, c.Data)
		}
		for i := range c.HTTP {
			for at, g := range c.HTTP[i].Each() {
				if !strings.HasPrefix(g.Listen, "127.0.0.1:") || (at == "" && len(c.HTTP[i].Routes) == 0 || g.Forwards()) &&
					!strings.HasPrefix(g.Upstream.String(), "http://127.0.0.1:") {
					t.Errorf("%s reaches beyond this machine: %s, %s", name, g.Listen, g.Upstream)
				}
			}
		}
		if base := filepath.Base(name); !strings.Contains(string(readme), "("+base+")") {
			t.Errorf("examples/README.md does not list %s", base)
		}
	}
}

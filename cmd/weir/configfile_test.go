package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What was typed goes before the environment, which goes before the usual file.
func TestConfigFile(t *testing.T) {
	t.Parallel()
	usual := filepath.Join(t.TempDir(), "weir.yaml")
	for _, c := range []struct{ typed, environment, want string }{
		{"typed", "environment", "typed"}, {"typed", "", "typed"}, {"", "environment", "environment"}, {"", "", ""},
	} {
		if got := configFile(c.typed, c.environment, usual); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if err := os.WriteFile(usual, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := configFile("", "", usual); got != usual {
		t.Errorf("the usual file is there: %q", got)
	}
	if got := configFile("", "environment", usual); got != "environment" {
		t.Errorf("the usual file is there, and another is named: %q", got)
	}
}

// Package needs is for tests of what not every machine has.
package needs

import (
	"os"
	"testing"
)

// Skip leaves a test out, saying what it lacks. In CI everything is there that tests need: there, the test fails.
func Skip(t testing.TB, lacking any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(lacking)
	}
	t.Skip(lacking)
}

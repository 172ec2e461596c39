package lint

import (
	"testing"

	"weir/internal/testkit/markdown"
)

// root is the folder of the module, seen from this one.
const root = "../.."

// pages reads every page of the project.
func pages(t *testing.T) []markdown.Page {
	t.Helper()
	all, err := markdown.Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

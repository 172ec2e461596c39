package pages

import (
	"os"
	"testing"

	"weir/internal/browser"
)

func TestMain(m *testing.M) { os.Exit(browser.Main(m)) }

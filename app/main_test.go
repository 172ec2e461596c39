package app_test

import (
	"os"
	"testing"

	"weir/internal/testkit/browser"
)

func TestMain(m *testing.M) { os.Exit(browser.Main(m)) }

package main

import "testing"

// A release knows its tag, commit and date; other builds know less.
func TestVersionLine(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]versionInfo{
		"weir dev (go1.26, linux/amd64)": {Version: "dev", Go: "go1.26", Platform: "linux/amd64"},
		"weir v1.2.3 (commit 0123456789ab, 2026-01-02T03:04:05Z, go1.26, linux/arm64)": {Version: "v1.2.3",
			Commit: "0123456789abcdef", Date: "2026-01-02T03:04:05Z", Go: "go1.26", Platform: "linux/arm64"},
		"weir v1 (commit 0123, go1.26, p)": {Version: "v1", Commit: "0123", Go: "go1.26", Platform: "p"},
	} {
		if got := v.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

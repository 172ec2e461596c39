package pages

import "testing"

func TestInWords(t *testing.T) {
	for seconds, want := range map[int64]string{
		1: "1 second", 2: "2 seconds", 119: "119 seconds", 120: "2 minutes", 121: "3 minutes", 7199: "120 minutes",
		7200: "2 hours", 7201: "3 hours", 172799: "48 hours", 172800: "2 days", 1 << 40: "12725830 days",
	} {
		if got := inWords(nil, seconds); got != want {
			t.Errorf("%d: %q, want %q", seconds, got, want)
		}
	}
}

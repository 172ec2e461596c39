package weir

import (
	"errors"
	"slices"
	"testing"
)

func TestMistakes(t *testing.T) {
	var m Mistakes
	fill := func(word string, n int, size Size, timeout Duration) {
		m.OneOf("tls.mode", word, "off", "require")
		m.Count("bounds.mails", n, 10)
		m.Size("bounds.memory", size, 1<<10, 1<<20)
		m.Timeout("timeouts.idle", timeout)
	}
	fill("", 0, 0, 0)
	fill("off", 10, 1<<10, 1)
	m.Under("next_hop", nil)
	if m.Err() != nil {
		t.Fatalf("mistakes where there are none: %v", m.Err())
	}
	fill("requires", 11, 1<<20+1, -1)
	fill("nonsense", -1, 1<<10-1, -1)
	m.Add("listen", "no address", "")
	m.Under("next_hop", errors.Join(&FieldError{Path: "ca", Msg: "a"}, &FieldError{Path: "user", Msg: "b"}))
	var got []string
	for _, fe := range FieldErrors(m.Err()) {
		got = append(got, fe.Error())
	}
	if want := []string{
		`tls.mode: unknown mode "requires" (did you mean "require"?)`,
		"bounds.mails: 11 is out of bounds (between 1 and 10)",
		"bounds.memory: 1048577B is out of bounds (between 1KiB and 1MiB)",
		"timeouts.idle: a timeout cannot be negative (leave it out for the default)",
		`tls.mode: unknown mode "nonsense" (one of off, require)`,
		"bounds.mails: -1 is out of bounds (between 1 and 10)",
		"bounds.memory: 1023B is out of bounds (between 1KiB and 1MiB)",
		"timeouts.idle: a timeout cannot be negative (leave it out for the default)",
		"listen: no address",
		"next_hop.ca: a",
		"next_hop.user: b",
	}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

package demo

import (
	"bytes"
	"testing"
)

func TestScreen(t *testing.T) {
	var out, other bytes.Buffer
	width := 20
	s := &screen{out: &out, width: func() int { return width }}
	expect := func(what, want string) {
		t.Helper()
		if got := out.String(); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
		out.Reset()
	}
	s.clear()
	expect("nothing to clear", "")
	s.draw([]string{"\x1b[31mtwelve chars\x1b[0m", ""})
	expect("the first frame", "\x1b[?25l\x1b[31mtwelve chars\x1b[0m\x1b[K\n\x1b[K\n\x1b[J")
	s.draw([]string{"twelve chars", "b"})
	expect("the second goes over it", "\x1b[2A\rtwelve chars\x1b[K\nb\x1b[K\n\x1b[J")
	width = 5
	s.draw([]string{"a"})
	expect("a narrower terminal has broken the first line in three", "\x1b[4A\ra\x1b[K\n\x1b[J")
	if n, err := (&aside{s, &other}).Write([]byte("careful\n")); n != 8 || err != nil || other.String() != "careful\n" {
		t.Errorf("aside: %d %v %q", n, err, &other)
	}
	expect("a warning stands above", "\x1b[1A\r\x1b[J\x1b[?25la\x1b[K\n\x1b[J")
	s.clear()
	expect("the end", "\x1b[1A\r\x1b[J\x1b[?25h")
}

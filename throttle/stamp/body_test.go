package stamp

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestBodyID: line ends and empty lines at the end do not matter, everything else does; in one piece or byte by byte.
func TestBodyID(t *testing.T) {
	for name, same := range map[string][]string{
		"nothing":         {"", "\r\n", "\n\n\r\n", "\n"},
		"a line":          {"a\r\n", "a\n", "a", "a\r\n\r\n\n", "a\r"},
		"a space more":    {"a \r\n"},
		"a line between":  {"a\r\n\r\nb", "a\n\nb\n\n"},
		"no line between": {"a\r\nb", "a\nb\n"},
		"an empty one":    {"\r\na", "\na\n"},
		"a return inside": {"a\rb\n"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, body := range same {
				d := NewBodyDigest()
				for i := range len(body) {
					_, _ = d.Write([]byte{body[i]})
				}
				if one, pieces, want := BodyID([]byte(body)), d.ID(), BodyID([]byte(same[0])); one != want ||
					pieces != want {
					t.Errorf("%q: %s and %s, want %s", body, one, pieces, want)
				}
			}
		})
	}
	ids := map[string]bool{}
	for _, body := range []string{"", "a", "a ", "a\nb", "a\n\nb", "\na", "a\rb"} {
		ids[BodyID([]byte(body))] = true
	}
	if len(ids) != 7 {
		t.Errorf("%d ids", len(ids))
	}
	// As it always was: stamps made by an older client are good.
	if got := BodyID([]byte("hello\r\n")); got != "sha256:"+
		"cd2eca3535741f27a8ae40c31b0c41d4057a7a7b912b33b9aed86485d1c84676" {
		t.Error(got)
	}
}

func TestTakeMail(t *testing.T) {
	for name, c := range map[string]struct{ header, stamps, rest string }{
		"none":          {"From: a\r\nTo: b\r\n", "", "From: a\r\nTo: b\r\n"},
		"nothing":       {"", "", ""},
		"alone":         {"X-Weir-Stamp: abc\r\n", "abc", ""},
		"first":         {"X-Weir-Stamp: abc\r\nFrom: a\r\n", "abc", "From: a\r\n"},
		"last, no end":  {"From: a\r\nX-Weir-Stamp: abc", "abc", "From: a\r\n"},
		"folded":        {"From: a\n b\nx-weir-stamp : ab\n\tc\n d\nTo: b\n c\n", "abcd", "From: a\n b\nTo: b\n c\n"},
		"two":           {"X-WEIR-STAMP:a\r\nX-Weir-Stamp:b\r\nTo: b\r\nX-Weir-Stamp: c\r\n", "a b c", "To: b\r\n"},
		"another field": {"X-Weir-Stamps: a\r\nX-Weir-Stam: b\r\n", "", "X-Weir-Stamps: a\r\nX-Weir-Stam: b\r\n"},
		"only a line":   {" X-Weir-Stamp: a\r\n", "", " X-Weir-Stamp: a\r\n"},
		"longer than it": {"X-Weir-Stamp: " + strings.Repeat("a", 2*MaxMailStamp) + "\r\nTo: b\r\n",
			strings.Repeat("a", MaxMailStamp+1), "To: b\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			before := strings.Clone(c.header)
			header := []byte(c.header)
			stamps, rest := TakeMail(header)
			if strings.Join(stamps, " ") != c.stamps || string(rest) != c.rest || string(header) != before {
				t.Errorf("%q, %q", stamps, rest)
			}
		})
	}
}

// TestTakeMailBound: one more is taken out like the others, and not looked at.
func TestTakeMailBound(t *testing.T) {
	var b bytes.Buffer
	for i := range MaxMailStamps + 2 {
		fmt.Fprintf(&b, "X-Weir-Stamp: %d\r\n\tx\r\n", i)
	}
	b.WriteString("To: b\r\n")
	stamps, rest := TakeMail(b.Bytes())
	if len(stamps) != MaxMailStamps || stamps[0] != "0x" ||
		stamps[MaxMailStamps-1] != fmt.Sprintf("%dx", MaxMailStamps-1) || string(rest) != "To: b\r\n" {
		t.Errorf("%d stamps to %q, rest %q", len(stamps), stamps[len(stamps)-1], rest)
	}
}

// FuzzTakeMail: what is left has no stamp, and what was no stamp is left, in its order.
func FuzzTakeMail(f *testing.F) {
	for _, seed := range []string{"X-Weir-Stamp: a\r\nTo: b\r\n", "To: b\n c\nX-weir-stamp : a\n b", " \n",
		"\r\nX-Weir-Stamp:"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, header []byte) {
		before := slices.Clone(header)
		stamps, rest := TakeMail(header)
		if !bytes.Equal(before, header) {
			t.Fatal("the header was changed")
		}
		if again, same := TakeMail(rest); len(again) > 0 || !bytes.Equal(same, rest) {
			t.Errorf("%q left %q", header, rest)
		}
		if len(stamps) > MaxMailStamps || len(rest) > len(header) || len(stamps) == 0 && !bytes.Equal(rest, header) {
			t.Errorf("%q: %d stamps, %q", header, len(stamps), rest)
		}
		for _, s := range stamps {
			if len(s) > MaxMailStamp+1 || strings.ContainsAny(s, " \t\r\n") {
				t.Errorf("%q", s)
			}
		}
	})
}

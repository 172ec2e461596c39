package stamp

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// plainDecode is decodeText by the standard library.
func plainDecode(text string, room int) ([]byte, bool) {
	if encoding.DecodedLen(len(text)) > room {
		return nil, false
	}
	b, err := encoding.DecodeString(text)
	return b, err == nil && !strings.ContainsAny(text, "\r\n")
}

func sameText(tb testing.TB, text string, room int) {
	tb.Helper()
	got, err := decodeText(make([]byte, room), text, len(text))
	want, ok := plainDecode(text, room)
	if (err == nil) != ok || ok && string(got) != string(want) {
		tb.Fatalf("%q into %d bytes is %x, %v; want %x, %t", text, room, got, err, want, ok)
	}
	if err != nil && err != ErrMalformed {
		tb.Fatal(err)
	}
	if n := encoding.DecodedLen(len(text)); n <= room && len(text)%4 != 1 {
		for name, decode := range textDecoders() {
			out := make([]byte, n)
			if right := decode(out, text); right != ok || ok && string(out) != string(want) {
				tb.Fatalf("%s: %q is %x, %t; want %x, %t", name, text, out, right, want, ok)
			}
		}
	}
}

// TestDecodeText: the decoder says what that of the standard library says, for texts of each length, with each
// character in each of the last places, and with as much room as they need, one byte less and some more.
func TestDecodeText(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for n := range 100 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		text := encoding.EncodeToString(b)
		for _, room := range []int{n, n - 1, n + 1, n + 40} {
			if room >= 0 {
				sameText(t, text, room)
				sameText(t, text+"A", room)
			}
		}
		for place := max(0, len(text)-12); place < len(text); place++ {
			for c := range 256 {
				sameText(t, text[:place]+string([]byte{byte(c)})+text[place+1:], n)
			}
		}
	}
	if _, err := decodeText(make([]byte, 100), "AAAA", 3); err != ErrMalformed {
		t.Errorf("more than the most: %v", err)
	}
}

// FuzzDecodeText: the decoder says what that of the standard library says.
func FuzzDecodeText(f *testing.F) {
	f.Add("", 0)
	f.Add("AQGd57ljAAebaAGh3ma5mgAEk-AAAAAAAAEAAE8MK5BPKbLE07ccuQRs", 42)
	f.Add("AAAA\nAAAA", 6)
	f.Add("AB", 1)
	f.Fuzz(func(t *testing.T, text string, room int) { sameText(t, text, min(max(room, 0), 1<<12)) })
}

package http1

import (
	"bytes"
	"net/textproto"
	"strings"
	"testing"
)

// written is what the fields are if each is written by itself.
func written(f *Fields) (b []byte) {
	for i := range f.Len() {
		b = AppendField(b, f.names[i], f.values[i])
	}
	return b
}

// headOf reads a head that is good.
func headOf(t testing.TB, kind Kind, in string) *Head {
	var h Head
	h.Begin(kind)
	if n, err := h.Read([]byte(in), Bounds{Bytes: 1 << 10, Fields: 20}); n != len(in) || err != nil {
		t.Fatal(n, err)
	}
	return &h
}

// Lines that are passed on as they came are the ones that would be written.
func TestRuns(t *testing.T) {
	h := headOf(t, Answer, "HTTP/1.1 200 OK\r\nServer: a\r\nConnection: x\r\nDate: b\r\nX-A: c\r\nx-b: d\r\nX-C:e\r\n"+
		"X-D: f \r\nX-E:\tg\r\nX-F:  h\r\nX-G: \r\nX-H: i\r\n\r\n")
	var runs []string
	for i := 0; i < h.Fields.Len(); {
		lines, n := h.Fields.Run(i)
		if n == 0 {
			name, _ := h.Fields.At(i)
			lines, n = name, 1
		}
		runs, i = append(runs, lines), i+n
	}
	if got := strings.Join(runs, "|"); got !=
		"Server: a\r\nConnection: x\r\nDate: b\r\nX-A: c\r\n|X-B|X-C|X-D|X-E|X-F|X-G: \r\nX-H: i\r\n" {
		t.Errorf("%q", got)
	}
	var f Fields
	f.Add("First", "1")
	for i := range h.Fields.Len() {
		if name, _ := h.Fields.At(i); name != "Connection" {
			f.Copy(&h.Fields, i)
		}
	}
	f.Set("X-A", "2")
	f.Del("X-H")
	if got, want := f.Append(nil), written(&f); !bytes.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	other := headOf(t, Answer, "HTTP/1.1 200 OK\r\nOther: 3\r\n\r\n")
	f.Copy(&other.Fields, 0) // it is not of the same head
	if got, want := f.Append(nil), written(&f); !bytes.Equal(got, want) || !bytes.HasSuffix(got, []byte("Other: 3\r\n")) {
		t.Errorf("%q, want %q", got, want)
	}
	f.Reset()
	f.Copy(&other.Fields, 0)
	if got := string(f.Append(nil)); got != "Other: 3\r\n" || !f.Has("Other") || f.Has("X-A") {
		t.Errorf("%q", got)
	}
}

// FuzzFields compares what is quick with what is plain.
func FuzzFields(f *testing.F) {
	f.Add("X-A", "value", "Server: a\r\nx-b: c\r\nX-C:  d\t\r\n")
	f.Add("x-Forwarded-for", "a\x7fb", "A: \x00\r\n")
	f.Add("X--a-", "123456789\t0123456\x1f", "A: b\r\nA: b\r\nB: c\r\n")
	f.Fuzz(func(t *testing.T, name, value, lines string) {
		end, canonical := nameEnd([]byte(name))
		if end == len(name) != IsToken(name) && name != "" {
			t.Errorf("%q: its name ends at %d", name, end)
		}
		if end > 0 && canonical != (textproto.CanonicalMIMEHeaderKey(name[:end]) == name[:end]) {
			t.Errorf("%q is canonical: %v", name[:end], canonical)
		}
		good := true
		for _, c := range []byte(value) {
			good = good && (c >= ' ' && c != 0x7f || c == '\t')
		}
		if IsValue(value) != good || IsValue([]byte(value)) != good {
			t.Errorf("%q is a value: %v", value, !good)
		}
		var h Head
		h.Begin(Answer)
		n, err := h.Read([]byte("HTTP/1.1 200 OK\r\n"+lines+"\r\n"), Bounds{Bytes: 2 << 10, Fields: 20})
		if n == 0 || err != nil {
			return
		}
		var to Fields
		for i := range h.Fields.Len() {
			if i != len(name)%8 {
				to.Copy(&h.Fields, i)
			}
		}
		to.Set("X-A", "1")
		for _, f := range []*Fields{&h.Fields, &to} {
			if got, want := f.Append(nil), written(f); !bytes.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			for _, name := range f.names {
				if !f.Has(name) || len(f.Values(name)) == 0 {
					t.Errorf("%q is not there", name)
				}
			}
		}
	})
}

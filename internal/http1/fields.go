package http1

import (
	"maps"
	"net/http"
	"slices"
)

// Fields are the header fields of a message, in the order in which they came. Names are in canonical form, as in an
// http.Header. The zero value has none, and so has nil.
type Fields struct {
	names, values []string
	lines         []span // where they are in text; a field that was added by itself is nowhere
	text          string // the head that they came with
	marks         uint64 // of all names: one whose mark is missing is not there
}

// A span is where a line is, with its end.
type span struct{ from, to uint32 }

// mark is a bit that few other names have.
func mark(name string) uint64 {
	if name == "" {
		return 1
	}
	return 1 << ((uint(name[0])*5 + uint(len(name))*3) % 64)
}

func (f *Fields) lacks(name string) bool { return f == nil || f.marks&mark(name) == 0 }

// Len returns how many there are. A name that comes twice counts twice.
func (f *Fields) Len() int {
	if f == nil {
		return 0
	}
	return len(f.names)
}

// At returns the i-th field.
func (f *Fields) At(i int) (name, value string) { return f.names[i], f.values[i] }

// Values returns the values of a name, in order. They must not be changed.
func (f *Fields) Values(name string) []string {
	if f.lacks(name) {
		return nil
	}
	return f.valuesOf(name)
}

func (f *Fields) valuesOf(name string) []string {
	for i, is := range f.names {
		if is != name {
			continue
		}
		end := i + 1
		for end < len(f.names) && f.names[end] == name {
			end++
		}
		all := f.values[i:end:end]
		for ; end < len(f.names); end++ {
			if f.names[end] == name {
				all = append(all, f.values[end])
			}
		}
		return all
	}
	return nil
}

// Get returns the first value of a name, or "".
func (f *Fields) Get(name string) string {
	if f.lacks(name) {
		return ""
	}
	if i := slices.Index(f.names, name); i >= 0 {
		return f.values[i]
	}
	return ""
}

// Has reports whether there is a field of that name.
func (f *Fields) Has(name string) bool { return !f.lacks(name) && slices.Contains(f.names, name) }

// Add adds a field. The name must be canonical.
func (f *Fields) Add(name, value string) {
	f.add(name, value, span{})
}

func (f *Fields) add(name, value string, line span) {
	f.names, f.values, f.lines = append(f.names, name), append(f.values, value), append(f.lines, line)
	f.marks |= mark(name)
}

// grow makes room for n more.
func (f *Fields) grow(n int) {
	f.names, f.values, f.lines = slices.Grow(f.names, n), slices.Grow(f.values, n), slices.Grow(f.lines, n)
}

// Copy adds the i-th field of others. It stays a line of the head that it came with, as long as all others are of that
// head too.
func (f *Fields) Copy(from *Fields, i int) {
	line := from.lines[i]
	if f.text == "" {
		f.text = from.text
	} else if f.text != from.text {
		line = span{}
	}
	f.add(from.names[i], from.values[i], line)
}

// Run returns the lines of as many fields from the i-th on as came in one piece, and how many they are: none if that
// one did not come with a head, or was not written there as AppendField would write it. They have been checked.
func (f *Fields) Run(i int) (lines string, n int) {
	first := f.lines[i]
	end := first.to
	if end == 0 {
		return "", 0
	}
	for n = 1; i+n < len(f.lines) && f.lines[i+n].from == end; n++ {
		end = f.lines[i+n].to
	}
	return f.text[first.from:end], n
}

// Set gives a name one value.
func (f *Fields) Set(name, value string) {
	f.Del(name)
	f.add(name, value, span{})
}

// Del removes a name.
func (f *Fields) Del(name string) {
	if f.lacks(name) {
		return
	}
	first := slices.Index(f.names, name)
	if first < 0 {
		return
	}
	kept := first
	for i := first; i < len(f.names); i++ {
		if f.names[i] != name {
			f.names[kept], f.values[kept], f.lines[kept] = f.names[i], f.values[i], f.lines[i]
			kept++
		}
	}
	f.cut(kept)
}

// Reset removes all. The memory is used again.
func (f *Fields) Reset() {
	f.cut(0)
	f.text, f.marks = "", 0
}

// cut leaves the first n.
func (f *Fields) cut(n int) {
	clear(f.names[n:])
	clear(f.values[n:])
	f.names, f.values, f.lines = f.names[:n], f.values[:n], f.lines[:n]
}

// AddHeader adds all of a header, sorted by name, so that equal headers become equal fields.
func (f *Fields) AddHeader(h http.Header) {
	var room [32]string
	names := slices.AppendSeq(room[:0], maps.Keys(h))
	slices.Sort(names)
	for _, name := range names {
		for _, v := range h[name] {
			f.Add(name, v)
		}
	}
}

// Header returns the fields as net/http has them, in memory of their own.
func (f *Fields) Header() http.Header {
	h := make(http.Header, f.Len())
	values := make([]string, f.Len())
	for i := range values {
		name, value := f.At(i)
		values[i] = value
		if before := h[name]; before != nil {
			h[name] = append(before, value)
		} else {
			h[name] = values[i : i+1 : i+1]
		}
	}
	return h
}

// Append writes the fields as lines. Names and values must be good ones, as those of a Head are.
func (f *Fields) Append(b []byte) []byte {
	for i := 0; i < len(f.names); {
		if lines, n := f.Run(i); n > 0 {
			b = append(b, lines...)
			i += n
			continue
		}
		b = AppendField(b, f.names[i], f.values[i])
		i++
	}
	return b
}

// AppendField writes one line.
func AppendField(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, value...), "\r\n"...)
}

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
}

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
	if f == nil {
		return nil
	}
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
	if f != nil {
		for i, is := range f.names {
			if is == name {
				return f.values[i]
			}
		}
	}
	return ""
}

// Has reports whether there is a field of that name.
func (f *Fields) Has(name string) bool { return f != nil && slices.Contains(f.names, name) }

// Add adds a field. The name must be canonical.
func (f *Fields) Add(name, value string) {
	f.names, f.values = append(f.names, name), append(f.values, value)
}

// Set gives a name one value.
func (f *Fields) Set(name, value string) {
	f.Del(name)
	f.Add(name, value)
}

// Del removes a name.
func (f *Fields) Del(name string) {
	first := slices.Index(f.names, name)
	if first < 0 {
		return
	}
	kept := first
	for i := first; i < len(f.names); i++ {
		if f.names[i] != name {
			f.names[kept], f.values[kept] = f.names[i], f.values[i]
			kept++
		}
	}
	f.cut(kept)
}

// Reset removes all. The memory is used again.
func (f *Fields) Reset() { f.cut(0) }

// cut leaves the first n.
func (f *Fields) cut(n int) {
	clear(f.names[n:])
	clear(f.values[n:])
	f.names, f.values = f.names[:n], f.values[:n]
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
	for i, name := range f.names {
		b = AppendField(b, name, f.values[i])
	}
	return b
}

// AppendField writes one line.
func AppendField(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, value...), "\r\n"...)
}

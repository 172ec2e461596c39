package reach

import "weir/internal/stored"

// A reader reads what was stored, and knows what that is.
type reader struct {
	stored.Reader
	what string
	all  []byte
	err  error // of a part
}

// newReader looks at the first byte, which is the version.
func newReader(what string, b []byte, version byte) (*reader, error) {
	if err := checkVersion(what, b, version); err != nil {
		return nil, err
	}
	return &reader{Reader: stored.Reader{Left: b[1:]}, what: what, all: b}, nil
}

// part reads a part of so many bytes.
func (r *reader) part(n uint64, read func([]byte) error) {
	b := r.Take(n)
	if r.Bad {
		return
	}
	if err := read(b); err != nil {
		r.err = err
		r.Fail()
	}
}

// end returns what was wrong. Something left is wrong, too.
func (r *reader) end() error {
	switch {
	case r.err != nil:
		return r.err
	case r.Bad || len(r.Left) > 0:
		return corrupt(r.what, r.all)
	}
	return nil
}

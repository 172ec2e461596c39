package reach

import "encoding/binary"

// A reader reads what was stored until something is wrong, and nothing but zeroes from then on.
type reader struct {
	what string
	all  []byte
	b    []byte // what is left
	err  error
}

// newReader looks at the first byte, which is the version.
func newReader(what string, b []byte, version byte) (*reader, error) {
	if err := checkVersion(what, b, version); err != nil {
		return nil, err
	}
	return &reader{what: what, all: b, b: b[1:]}, nil
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = corrupt(r.what, r.all)
	}
	r.b = nil
}

// keep notes what was wrong with a part.
func (r *reader) keep(err error) {
	if err != nil && r.err == nil {
		r.err, r.b = err, nil
	}
}

// end returns what was wrong. Something left is wrong, too.
func (r *reader) end() error {
	if len(r.b) > 0 {
		r.fail()
	}
	return r.err
}

// take returns the next n bytes; nil where there are not so many.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	taken := r.b[:n:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) byte() byte     { return byte(r.number(1)) }
func (r *reader) uint16() uint16 { return uint16(r.number(2)) }
func (r *reader) uint32() uint32 { return uint32(r.number(4)) }
func (r *reader) uint64() uint64 { return r.number(8) }

// number reads a number of so many bytes, big-endian.
func (r *reader) number(bytes uint64) (n uint64) {
	for _, b := range r.take(bytes) {
		n = n<<8 | uint64(b)
	}
	return n
}

// count reads a number up to a bound, in as few bytes as it takes.
func (r *reader) count(most uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > 1 && r.b[n-1] == 0 || v > most {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

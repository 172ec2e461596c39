package country

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/oschwald/maxminddb-golang/v2"

	"weir"
	"weir/internal/readfile"
)

// MaxFile is how large a file may be. Those that know countries have about 10 MB, those that know cities up to 150 MB.
const MaxFile weir.Size = 256 << 20

// Errors of Open.
var (
	ErrTooLarge = fmt.Errorf("the file is larger than %s", MaxFile)
	ErrBroken   = errors.New("the file is not in the MaxMind format (MMDB), or is not complete")
	ErrNothing  = errors.New("the file does not say which country addresses are in")
)

// A File knows countries. It is read whole: what happens to the file on disk afterwards does not matter. Goroutines may
// share it. A nil File knows nothing.
type File struct {
	reader *maxminddb.Reader
	// What records say that were looked at lately: the offset of the record, and behind it the two letters.
	seen [seenRecords]atomic.Uint64
}

// seenRecords is how many records are remembered. Files of countries have a few hundred.
const seenRecords = 4096

// Open reads a file.
func Open(path string) (*File, error) {
	return open(path, MaxFile)
}

func open(path string, most weir.Size) (*File, error) {
	data, err := readfile.Read(path, most)
	switch {
	case errors.Is(err, readfile.ErrLarge):
		return nil, ErrTooLarge
	case err != nil:
		return nil, err
	}
	return Parse(data)
}

// Parse reads the contents of a file, which must not be changed afterwards.
func Parse(data []byte) (*File, error) {
	r, err := maxminddb.OpenBytes(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	f := &File{reader: r}
	for _, from := range []netip.Addr{netip.IPv4Unspecified(), netip.MustParseAddr("2000::")} {
		found, err := f.any(from)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrBroken, err)
		case found:
			return f, nil
		}
	}
	return nil, ErrNothing
}

// maxLooks is how many networks may come before the first one with a country.
const maxLooks = 10_000

// any reports whether some network has a country, from an address on. It goes from network to network: a broken file
// may have a tree that nobody could walk through to its end.
func (f *File) any(at netip.Addr) (bool, error) {
	for range maxLooks {
		result := f.reader.Lookup(at)
		if err := result.Err(); err != nil {
			return false, err
		}
		if f.read(result) != "" {
			return true, nil
		}
		var more bool
		if at, more = behind(at, result.Prefix()); !more {
			break
		}
	}
	return false, nil
}

// behind returns the first address behind a network, and whether there is one.
func behind(at netip.Addr, network netip.Prefix) (next netip.Addr, more bool) {
	if !network.IsValid() || network.Addr().BitLen() != at.BitLen() || network.Bits() == 0 {
		return at, false
	}
	last := network.Masked().Addr().AsSlice()
	for i := network.Bits(); i < at.BitLen(); i++ {
		last[i/8] |= 1 << (7 - i%8)
	}
	end, _ := netip.AddrFromSlice(last)
	next = end.Next()
	return next, next.IsValid()
}

// Of returns the country of an address, as two capital letters (ISO 3166), or "" where it is not known. It allocates
// nothing for countries that were asked for before.
func (f *File) Of(addr netip.Addr) string {
	if f == nil || !addr.IsValid() {
		return ""
	}
	result := f.reader.Lookup(addr.Unmap().WithZone(""))
	if result.Err() != nil || !result.Found() {
		return ""
	}
	offset := uint64(result.Offset()) + 1
	slot := &f.seen[offset%seenRecords]
	if known := slot.Load(); known>>16 == offset {
		return letters(uint16(known))
	}
	code := f.read(result)
	slot.Store(offset<<16 | uint64(number(code)))
	return code
}

// paths are where files say a country, in the order in which they count.
var paths = [...][]any{{"country", "iso_code"}, {"registered_country", "iso_code"}, {"country_code"}, {"country"}}

// read reads the country of a record.
func (f *File) read(result maxminddb.Result) string {
	for _, path := range paths {
		var text string
		if result.DecodePath(&text, path...) == nil {
			if n := number(text); n != 0 {
				return letters(n)
			}
		}
	}
	return ""
}

// number is a country as a number, from 1; 0 is for what is not two capital letters.
func number(text string) uint16 {
	if len(text) != 2 || text[0] < 'A' || text[0] > 'Z' || text[1] < 'A' || text[1] > 'Z' {
		return 0
	}
	return uint16(text[0]-'A')*26 + uint16(text[1]-'A') + 1
}

// letters is the country of a number.
func letters(n uint16) string {
	if n == 0 || int(n) > len(codes)/2 {
		return ""
	}
	return codes[2*n-2 : 2*n]
}

// codes has all pairs of letters, so that none has to be made.
var codes = func() string {
	var b []byte
	for first := byte('A'); first <= 'Z'; first++ {
		for second := byte('A'); second <= 'Z'; second++ {
			b = append(b, first, second)
		}
	}
	return string(b)
}()

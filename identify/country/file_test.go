package country

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"weir"
	"weir/internal/testkit/mmdb"
)

func networks(pairs ...string) map[netip.Prefix]string {
	all := map[netip.Prefix]string{}
	for i := 0; i < len(pairs); i += 2 {
		all[netip.MustParsePrefix(pairs[i])] = pairs[i+1]
	}
	return all
}

var small = mmdb.Write(networks("192.0.2.0/24", "DE", "192.0.2.128/25", "FR", "198.51.100.0/24", "",
	"2001:db8::/32", "JP", "203.0.113.0/24", "xx"))

func TestCountries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "countries.mmdb")
	if err := os.WriteFile(path, small, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is remembered
		for addr, want := range map[string]string{
			"192.0.2.1": "DE", "192.0.2.200": "FR", "::ffff:192.0.2.1": "DE", "2001:db8:1::5": "JP", "2001:db8::1%eth0": "JP",
			"198.51.100.1": "", "203.0.113.1": "", "10.0.0.1": "", "2001:db9::1": "",
		} {
			if got := f.Of(netip.MustParseAddr(addr)); got != want {
				t.Errorf("%s: %q, want %q", addr, got, want)
			}
		}
	}
	if got := f.Of(netip.Addr{}); got != "" {
		t.Errorf("no address: %q", got)
	}
	var none *File
	if got := none.Of(netip.MustParseAddr("192.0.2.1")); got != "" {
		t.Errorf("no file: %q", got)
	}
}

func TestCountriesAllocateNothing(t *testing.T) {
	f, err := Parse(small)
	if err != nil {
		t.Fatal(err)
	}
	addrs := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1"),
		netip.MustParseAddr("10.0.0.1")}
	if n := testing.AllocsPerRun(100, func() {
		for _, a := range addrs {
			_ = f.Of(a)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestBrokenFiles(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none.mmdb")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for name, c := range map[string]struct {
		data []byte
		err  error
	}{
		"empty":          {nil, ErrBroken},
		"text":           {[]byte("this is no database"), ErrBroken},
		"half of it":     {small[:len(small)/2], ErrBroken},
		"the end is cut": {small[:len(small)-9], ErrBroken},
		"no countries":   {mmdb.Write(networks("192.0.2.0/24", "")), ErrNothing},
		"no networks":    {mmdb.Write(nil), ErrNothing},
	} {
		if _, err := Parse(c.data); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
	}
}

func TestFileBound(t *testing.T) {
	size, path := weir.Size(len(small)), filepath.Join(t.TempDir(), "mmdb")
	write := func(data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(small)
	if _, err := open(path, size); err != nil {
		t.Errorf("at the bound: %v", err)
	}
	write(append(small[:size:size], 0))
	if _, err := open(path, size); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}

// FuzzFile: whatever a file has in it, asking it neither panics nor hangs.
func FuzzFile(f *testing.F) {
	f.Add(small, []byte{192, 0, 2, 1})
	f.Fuzz(func(t *testing.T, data, address []byte) {
		file, err := Parse(data)
		if err != nil {
			return
		}
		if addr, ok := netip.AddrFromSlice(address); ok {
			if got := file.Of(addr); got != "" && len(got) != 2 {
				t.Errorf("%q", got)
			}
		}
	})
}

package identify

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"
)

const aDay = 24 * time.Hour

func TestClients(t *testing.T) {
	c := NewClients([]byte("a secret that nobody knows"))
	seen := map[string]bool{}
	for range 100 {
		id, cookie := c.New(today)
		if got, err := c.Read(cookie, today); got != id || err != nil {
			t.Fatalf("%q: %q, %v", cookie, got, err)
		}
		if raw, err := base64.RawURLEncoding.Strict().DecodeString(id); err != nil || len(raw) != 16 ||
			strings.HasPrefix(id, AddressPrefix) {
			t.Errorf("%q is not an id", id)
		}
		if seen[id] {
			t.Errorf("%q twice", id)
		}
		seen[id] = true
		if strings.Trim(cookie, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Errorf("%q needs quotes", cookie)
		}
	}
}

func TestClientAges(t *testing.T) {
	c := NewClients([]byte("a secret that nobody knows"))
	id, cookie := c.New(today)
	for after, want := range map[time.Duration]error{
		0:                   nil,
		399 * aDay:          nil,
		ClientCookie:        nil,
		ClientCookie + aDay: ErrClientOld,
		-aDay:               nil, // the neighbour who issued it is ahead
		-2 * aDay:           ErrClientOld,
	} {
		if got, err := c.Read(cookie, today.Add(after)); !errors.Is(err, want) || (got == id) != (err == nil) {
			t.Errorf("after %s: %q, %v", after, got, err)
		}
	}
	for _, now := range []time.Time{{}, time.Unix(-1, 0), time.Unix(1<<60, 0)} {
		id, cookie := c.New(now)
		if got, err := c.Read(cookie, now); got != id || err != nil {
			t.Errorf("at %s: %v", now, err)
		}
	}
}

func TestClientSecrets(t *testing.T) {
	a, b, long := []byte("secret a, secret a"), []byte("secret b, secret b"), bytes.Repeat([]byte("x"), 100)
	id, cookie := NewClients(a).New(today)
	for name, c := range map[string]*Clients{"the same": NewClients(a), "old": NewClients(b, a),
		"older": NewClients(b, long, a)} {
		if got, err := c.Read(cookie, today); got != id || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, c := range map[string]*Clients{"another": NewClients(b), "others": NewClients(b, long),
		"random": NewClients(nil)} {
		if got, err := c.Read(cookie, today); got != "" || !errors.Is(err, ErrClientForged) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	// Without a secret there is a random one, and no old one that everybody knows.
	c := NewClients(nil, nil, []byte{})
	if len(c.keys) != 1 || c.keys[0] == newClientKey(nil) || c.keys[0] == NewClients(nil).keys[0] {
		t.Error("the secret is nothing, or no secret")
	}
}

// TestClientForged: no bit can be turned, and there is one way to write a cookie.
func TestClientForged(t *testing.T) {
	c := NewClients([]byte("a secret that nobody knows"))
	_, cookie := c.New(today)
	for i := range len(cookie) {
		for bit := range 8 {
			forged := []byte(cookie)
			forged[i] ^= 1 << bit
			if id, err := c.Read(string(forged), today); id != "" || !errors.Is(err, ErrClientForged) &&
				!errors.Is(err, ErrClientMalformed) {
				t.Errorf("bit %d of %q: %q, %v", bit, forged[i], id, err)
			}
		}
	}
	for _, wrong := range []string{"", "1", cookie[:cookieChars-1], cookie + "A", cookie + "=", "2" + cookie[1:],
		" " + cookie,
		cookie[:30] + "\n" + cookie[31:], cookie[:dayAt-1] + "\n" + cookie[dayAt:],
		strings.Repeat("@", cookieChars), "1" + strings.Repeat("=", cookieChars-1), strings.Repeat("1", 1<<20)} {
		if id, err := c.Read(wrong, today); id != "" || !errors.Is(err, ErrClientMalformed) {
			t.Errorf("%.60q: %q, %v", wrong, id, err)
		}
	}
	if _, err := c.Read("1"+strings.Repeat("A", cookieChars-1), today); !errors.Is(err, ErrClientForged) {
		t.Error(err)
	}
	// Parts of genuine ones do not make a genuine one.
	_, other := c.New(today.Add(9 * aDay))
	for _, at := range []int{dayAt, tagAt} {
		if _, err := c.Read(cookie[:at]+other[at:], today); !errors.Is(err, ErrClientForged) {
			t.Error(err)
		}
	}
	// Old and forged is forged: who did not get it here learns nothing about its age.
	forged := []byte(cookie)
	forged[5] ^= 1
	if _, err := c.Read(string(forged), today.Add(1000*aDay)); !errors.Is(err, ErrClientForged) &&
		!errors.Is(err, ErrClientMalformed) {
		t.Error(err)
	}
}

// TestClientTag holds the tag against package crypto/hmac.
func TestClientTag(t *testing.T) {
	sum := func(key []byte, text ...byte) []byte {
		h := hmac.New(sha256.New, key)
		h.Write(text)
		return h.Sum(nil)
	}
	for _, n := range []int{1, 16, 63, 64, 65, 200} {
		secret := bytes.Repeat([]byte{byte(n)}, n)
		k := newClientKey(secret)
		key := sum(secret, []byte(clientLabel)...)
		id, day := [idBytes]byte{1, 2, 3}, uint32(0x010203)
		want := sum(key, append(append([]byte{'1'}, id[:]...), 1, 2, 3)...)
		if got := k.tag(id, day); !bytes.Equal(got[:], want) {
			t.Errorf("secret of %d bytes: %x, want %x", n, got, want)
		}
		for _, m := range []int{0, 63, 64, 65, 300} {
			text, hk := bytes.Repeat([]byte{7}, m), hmacKey(secret)
			if got := hk.sum(text); !bytes.Equal(got[:], sum(secret, text...)) {
				t.Errorf("secret of %d bytes, text of %d: wrong", n, m)
			}
		}
	}
}

func TestAddressID(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1":           "@192.0.2.1",
		"::ffff:192.0.2.1":    "@192.0.2.1",
		"2001:db8:1:2:3::4":   "@2001:db8:1:2::",
		"2001:db8:1:2:ffff::": "@2001:db8:1:2::",
		"fe80::1%eth0":        "@fe80::",
		"255.255.255.255":     "@255.255.255.255",
	} {
		if got := AddressID(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %s", addr, got)
		}
	}
	if got := AddressID(netip.Addr{}); got != "" {
		t.Errorf("nobody is %q", got)
	}
}

func TestClientsAllocate(t *testing.T) {
	c := NewClients([]byte("a secret that nobody knows"), []byte("an older one"))
	_, cookie := c.New(today)
	forged := "1" + strings.Repeat("A", cookieChars-1)
	for name, text := range map[string]string{"malformed": cookie[1:] + "x", "encoding": "1==" + cookie[3:],
		"forged": forged} {
		if n := testing.AllocsPerRun(100, func() { _, _ = c.Read(text, today) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = c.Read(cookie, today.Add(500*aDay)) }); n > 0 {
		t.Errorf("old: %v allocations", n)
	}
}

// FuzzClients: nothing but a cookie that was made here is read, and it is read as what it was made for.
func FuzzClients(f *testing.F) {
	c := NewClients([]byte("a secret that nobody knows"))
	_, cookie := c.New(today)
	f.Add(cookie, uint32(20514))
	f.Add("1"+strings.Repeat("A", cookieChars-1), uint32(0))
	f.Add("", uint32(1<<24-1))
	f.Fuzz(func(t *testing.T, text string, day uint32) {
		var raw [idBytes]byte
		var sealed [cookieChars]byte
		day %= 1 << (8 * dayBytes)
		id, err := c.Read(text, time.Unix(int64(day)*24*60*60, 0))
		switch {
		case err != nil && id != "":
			t.Errorf("%q with %v", id, err)
		case err == nil:
			// The fuzzer knows a genuine cookie. It is genuine in one spelling only.
			_, _ = base64url.Decode(raw[:], []byte(id))
			var days [dayBytes]byte
			_, _ = base64url.Decode(days[:], []byte(text[dayAt:tagAt]))
			if c.seal(&sealed, raw, uint32(days[0])<<16|uint32(days[1])<<8|uint32(days[2])); string(sealed[:]) != text {
				t.Errorf("%q is read as %q", text, sealed)
			}
		}
		// Whatever is sealed is read again.
		copy(raw[:], text)
		c.seal(&sealed, raw, day)
		id, err = c.Read(string(sealed[:]), time.Unix(int64(day)*24*60*60, 0))
		if err != nil || id != base64.RawURLEncoding.EncodeToString(raw[:]) || strings.HasPrefix(id, AddressPrefix) {
			t.Errorf("%q: %q, %v", sealed, id, err)
		}
	})
}

// FuzzAddressID: the ids of addresses and of cookies never meet, and a /64 has one.
func FuzzAddressID(f *testing.F) {
	f.Add([]byte{192, 0, 2, 1})
	f.Add([]byte("0123456789abcdef"))
	f.Fuzz(func(t *testing.T, source []byte) {
		addr, ok := netip.AddrFromSlice(source)
		id := AddressID(addr)
		if !ok {
			if id != "" {
				t.Errorf("nobody is %q", id)
			}
			return
		}
		back, err := netip.ParseAddr(strings.TrimPrefix(id, AddressPrefix))
		if id[0] != '@' || err != nil || !Network(addr, 32, 64).Contains(back) || AddressID(back) != id {
			t.Errorf("%s is %q", addr, id)
		}
	})
}

func BenchmarkClients(b *testing.B) {
	c := NewClients([]byte("a secret that nobody knows"))
	_, cookie := c.New(today)
	forged := "1" + strings.Repeat("A", cookieChars-1)
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.New(today)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = c.Read(cookie, today)
		}
	})
	b.Run("forged", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = c.Read(forged, today)
		}
	})
	b.Run("hmac", func(b *testing.B) { // what crypto/hmac takes for the tag alone
		key, text := make([]byte, 32), make([]byte, 20)
		b.ReportAllocs()
		for b.Loop() {
			h := hmac.New(sha256.New, key)
			h.Write(text)
			h.Sum(nil)
		}
	})
	b.Run("address", func(b *testing.B) {
		addr := netip.MustParseAddr("2001:db8:1:2:3::4")
		b.ReportAllocs()
		for b.Loop() {
			AddressID(addr)
		}
	})
}

// TestClientAt: what is held against the id of a cookie holds at an address. Ids that gates make themselves stay.
func TestClientAt(t *testing.T) {
	id, _ := NewClients(nil).New(today)
	here, there := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	if got := ClientAt(id, here); got != id+"@192.0.2.1" || ClientAt(id, there) != id+"@2001:db8::" ||
		ClientAt(id, netip.Addr{}) != id {
		t.Error(got)
	}
	for _, id := range []string{"", "@192.0.2.1", "mail:ann", "mail:ann.of.22.letters", "abc"} {
		if got := ClientAt(id, here); got != id {
			t.Errorf("%q became %q", id, got)
		}
	}
}

package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseBanKey(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1":            "192.0.2.1",
		"192.0.2.1/32":         "192.0.2.1",
		"192.0.2.77/24":        "192.0.2.0/24",
		"::ffff:192.0.2.1":     "192.0.2.1",
		"::ffff:192.0.2.1/120": "192.0.2.0/24",
		"2001:db8::1":          "2001:db8::1",
		"fe80::1%eth0":         "fe80::1",
		"2001:db8::1/32":       "2001:db8::/32",
		"client:abc":           "client:abc",
		"client:192.0.2.1":     "client:192.0.2.1",
		"client:client:a":      "client:client:a",
	} {
		key, err := ParseBanKey(text)
		if err != nil || key.String() != want {
			t.Errorf("%s: %s, want %s (%v)", text, key, want, err)
		}
		if again, err := ParseBanKey(key.String()); err != nil || again != key {
			t.Errorf("%s: read again, it is %s (%v)", key, again, err)
		}
	}
	for text, want := range map[string]error{
		"": ErrInvalid, "client:": ErrInvalid, "abc": ErrInvalid, "192.0.2.0/33": ErrInvalid, "192.0.2": ErrInvalid,
		"client:\xff":  ErrInvalid,
		"client:a\x00": ErrInvalid,
		"client:" + strings.Repeat("x", MaxClient+1): ErrTooLarge,
		strings.Repeat("9", 1_000_000):               ErrInvalid,
	} {
		if key, err := ParseBanKey(text); !errors.Is(err, want) {
			t.Errorf("%.50q: %s, %v, want %v", text, key, err, want)
		} else if len(err.Error()) > 300 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
}

func FuzzParseBanKey(f *testing.F) {
	for _, seed := range []string{"192.0.2.1", "2001:db8::/32", "client:abc", "::ffff:10.0.0.0/104", "fe80::1%x",
		"client:\x00", "0.0.0.0/0", "::ffff:0:0/95"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := ParseBanKey(text)
		if err != nil {
			return
		}
		if err := key.Validate(); err != nil {
			t.Errorf("%q is read and makes no sense: %v", text, err)
		}
		if again, err := ParseBanKey(key.String()); err != nil || again != key {
			t.Errorf("%q: read again, %s is %s (%v)", text, key, again, err)
		}
	})
}

func TestKeysAreInOrder(t *testing.T) {
	var keys []BanKey
	for _, text := range []string{"client:b", "2001:db8::/32", "10.0.0.0/16", "client:a", "10.0.0.0/8", "9.9.9.9"} {
		key, err := ParseBanKey(text)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, BanKey.Compare)
	if got := fmt.Sprint(keys); got != "[9.9.9.9 10.0.0.0/8 10.0.0.0/16 2001:db8::/32 client:a client:b]" {
		t.Error(got)
	}
}

func TestABanEnds(t *testing.T) {
	now := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	b := Ban{Until: now}
	if b.Holds(now) || !b.Holds(now.Add(-1)) {
		t.Error("it ends at that very moment")
	}
	if b.Until = (time.Time{}); !b.Holds(now) {
		t.Error("it is for good")
	}
}

func TestABanAsJSON(t *testing.T) {
	since := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for want, b := range map[string]Ban{
		`{"client":"a","reason":"forged stamp","by":"stamp","since":"2026-03-02T00:00:00Z","until":"2026-03-02T01:00:00Z"}`: {
			BanKey: BanKey{Client: "a"}, Reason: "forged stamp", By: "stamp", Since: since,
			Until: since.Add(time.Hour)},
		`{"prefix":"192.0.2.0/24","by":"alice","operator":true,"since":"2026-03-02T00:00:00Z"}`: {
			BanKey: BanKey{Prefix: netip.MustParsePrefix("192.0.2.0/24")}, By: "alice", Operator: true, Since: since},
	} {
		got, err := json.Marshal(b)
		if err != nil || string(got) != want {
			t.Errorf("%s, want %s (%v)", got, want, err)
		}
		var back Ban
		if err := json.Unmarshal(got, &back); err != nil || !back.Equal(&b) {
			t.Errorf("%+v, want %+v (%v)", back, b, err)
		}
	}
}

func TestCounterEnds(t *testing.T) {
	a := Counter{Throttle: "t", Rule: "r", Account: "a", Period: time.Unix(1, 0), Used: 1}
	if a.Until = time.Unix(5, 0); a.Counts(time.Unix(5, 0)) || !a.Counts(time.Unix(4, 0)) {
		t.Error("it ends at that very moment")
	}
}

// What is wrong is told without showing an id, which may be a secret.
func TestMistakesShowNoID(t *testing.T) {
	secret := "s3cr3t\x00"
	for _, err := range []error{
		Ban{BanKey: BanKey{Client: secret}}.Validate(),
		Counter{Throttle: "t", Rule: "r", Account: secret}.Validate(),
	} {
		if !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "s3cr3t") {
			t.Error(err)
		}
	}
}

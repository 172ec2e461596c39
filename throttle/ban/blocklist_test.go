package ban

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/needs"
	"weir/store"
)

func prefixes(all ...string) (p []netip.Prefix) {
	for _, text := range all {
		p = append(p, netip.MustParsePrefix(text))
	}
	return p
}

func TestParseList(t *testing.T) {
	got, err := ParseList(strings.NewReader("\xef\xbb\xbf; a list\r\n# more\n\n192.0.2.7\n 198.51.100.9/24 ; SBL1\n"+
		"2001:db8::1/32# x\n192.0.2.7/32\n::ffff:203.0.113.5\n192.0.2.7 # again"), 4)
	if want := prefixes("192.0.2.7/32", "198.51.100.0/24", "203.0.113.5/32", "2001:db8::/32"); err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"192.0.2.1\n192.0.2.300\n":   `line 2: "192.0.2.300" is neither an address nor a network (write 192.0.2.1, `,
		"10.0.0.1-10.0.0.9":          `line 1: "10.0.0.1-10.0.0.9" is not a network; a range has to be written as networks`,
		"\n\nclient:abc":             "line 3: a block list has no clients",
		"0.0.0.0/0":                  "line 1: 0.0.0.0/0 is wider than /4, which is a large part of everybody",
		"128.0.0.0/1":                "wider than /4",
		"<html>":                     `line 1: "<html>" is neither`,
		"192.0.2.1 192.0.2.2":        `line 1: "192.0.2.1 192.0.2.2" is neither`,
		strings.Repeat("x", 600):     "line 1: longer than 512 bytes",
		strings.Repeat("bad\n", 100): "line 20: ",
		"\x00\xff":                   "line 1: ",
	} {
		all, err := ParseList(strings.NewReader(text), 100)
		if err == nil || !strings.Contains(err.Error(), want) || all != nil {
			t.Errorf("%.40q: %v, %v, want %s", text, all, err, want)
		}
		if strings.Contains(fmt.Sprint(err), "line 21:") {
			t.Errorf("more mistakes than anybody reads: %v", err)
		}
	}
	var many strings.Builder
	for i := range 101 {
		fmt.Fprintf(&many, "10.0.0.%d\n10.0.0.%d\n", i, i)
	}
	if _, err := ParseList(strings.NewReader(many.String()), 100); !errors.Is(err, ErrListLong) {
		t.Errorf("one more than the bound: %v", err)
	}
	if all, err := ParseList(strings.NewReader(many.String()), 101); err != nil || len(all) != 101 {
		t.Errorf("at the bound: %d, %v", len(all), err)
	}
}

func FuzzParseList(f *testing.F) {
	f.Add("192.0.2.1\n# x\n2001:db8::/32 ; y\n")
	f.Add("\xef\xbb\xbf10.0.0.0/8\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseList(strings.NewReader(text), 50)
		if err != nil && all != nil || len(all) > 50 {
			t.Fatalf("%d entries, %v", len(all), err)
		}
		for i, p := range all {
			if p != p.Masked() || p.Bits() < minListBits || (store.BanKey{Prefix: p}).Validate() != nil ||
				i > 0 && all[i-1].Compare(p) >= 0 {
				t.Errorf("%v in %v", p, all)
			}
		}
	})
}

func replace(t *testing.T, l *List, name string, now time.Time, all ...string) Replaced {
	t.Helper()
	r, err := l.Replace(BlockList{Name: name, Entries: prefixes(all...), Reason: "feed " + name}, now, false)
	must(t, err)
	return r
}

// is wants the list to have exactly these, each with who banned it.
func is(t *testing.T, l *List, now time.Time, want ...string) {
	t.Helper()
	var got []string
	for _, b := range l.All(now) {
		got = append(got, b.BanKey.String()+" "+b.By)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestReplaceAList(t *testing.T) {
	l := newList(t, Options{})
	own := store.Ban{BanKey: store.BanKey{Prefix: netip.MustParsePrefix("192.0.2.1/32")}, Operator: true, By: "ann"}
	must(t, l.Add(own, epoch))
	if r := replace(t, l, "drop", epoch, "192.0.2.1/32", "192.0.2.2/32", "198.51.100.0/24"); r !=
		(Replaced{Entries: 3, Added: 2, ByOthers: 1}) {
		t.Errorf("%+v", r)
	}
	is(t, l, epoch, "192.0.2.1 ann", "192.0.2.2 list: drop", "198.51.100.0/24 list: drop")
	replace(t, l, "other", epoch, "198.51.100.0/24", "203.0.113.0/24")
	is(t, l, epoch, "192.0.2.1 ann", "192.0.2.2 list: drop", "198.51.100.0/24 list: drop, other",
		"203.0.113.0/24 list: other")

	before := l.All(epoch)
	dry, err := l.Replace(BlockList{Name: "drop"}, epoch, true)
	if err != nil || dry.Removed != 1 || !slices.EqualFunc(before, l.All(epoch),
		func(a, b store.Ban) bool { return a.Equal(&b) }) {
		t.Errorf("a rehearsal: %+v, %v", dry, err)
	}
	if r := replace(t, l, "drop", epoch, "192.0.2.2/32", "192.0.2.3/32"); r !=
		(Replaced{Entries: 2, Added: 1, Same: 1}) {
		t.Errorf("%+v", r)
	}
	is(t, l, epoch, "192.0.2.1 ann", "192.0.2.2 list: drop", "192.0.2.3 list: drop", "198.51.100.0/24 list: other",
		"203.0.113.0/24 list: other")
	if sizes := l.ListSizes(epoch); len(sizes) != 2 || sizes["drop"] != 2 || sizes["other"] != 2 {
		t.Errorf("%v", sizes)
	}
	replace(t, l, "drop", epoch)
	replace(t, l, "other", epoch)
	is(t, l, epoch, "192.0.2.1 ann")

	// A list with an end goes by itself; with another one that has none, it stays.
	_, err = l.Replace(BlockList{Name: "short", Entries: prefixes("192.0.2.8/32", "192.0.2.9/32"),
		Until: epoch.Add(time.Hour)}, epoch, false)
	must(t, err)
	replace(t, l, "long", epoch, "192.0.2.9/32")
	is(t, l, epoch.Add(time.Hour), "192.0.2.1 ann", "192.0.2.9 list: short, long")
}

// In exempt networks only what an operator has banned by hand holds.
func TestListsSpareExemptNetworks(t *testing.T) {
	l := newList(t, Options{Exempt: prefixes("192.0.2.0/28")})
	replace(t, l, "drop", epoch, "192.0.2.0/24")
	for source, want := range map[string]bool{"192.0.2.5": false, "192.0.2.99": true} {
		if _, banned := l.Find("", netip.MustParseAddr(source), epoch); banned != want {
			t.Errorf("%s banned: %v", source, banned)
		}
	}
}

func TestListsThatMakeNoSense(t *testing.T) {
	l := newList(t, Options{Max: 3})
	replace(t, l, "drop", epoch, "192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32")
	now := epoch
	for _, c := range []struct {
		list BlockList
		want error
	}{
		{BlockList{Name: ""}, ErrListName},
		{BlockList{Name: "a b"}, ErrListName},
		{BlockList{Name: strings.Repeat("x", MaxListName+1)}, ErrListName},
		{BlockList{Name: "more", Entries: prefixes("192.0.2.4/32")}, ErrFull},
		{BlockList{Name: "drop", Entries: prefixes("10.0.0.0/8", "11.0.0.0/8", "12.0.0.0/8", "13.0.0.0/8")}, ErrFull},
		{BlockList{Name: "drop", Reason: strings.Repeat("x", store.MaxReason+1)}, store.ErrTooLarge},
		{BlockList{Name: "drop", Until: epoch}, store.ErrInvalid},
	} {
		if _, err := l.Replace(c.list, now, false); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.list, err, c.want)
		}
	}
	is(t, l, epoch, "192.0.2.1 list: drop", "192.0.2.2 list: drop", "192.0.2.3 list: drop")
	replace(t, l, "drop", epoch, "10.0.0.0/8", "11.0.0.0/8", "12.0.0.0/8") // a full list is replaced as a whole
	is(t, l, epoch, "10.0.0.0/8 list: drop", "11.0.0.0/8 list: drop", "12.0.0.0/8 list: drop")
	wide := newList(t, Options{})
	for i := range 4 {
		name := fmt.Sprint(i) + strings.Repeat("x", MaxListName-1)
		_, err := wide.Replace(BlockList{Name: name, Entries: prefixes("10.0.0.0/8")}, now, false)
		if (i < 3) != (err == nil) || i == 3 && !errors.Is(err, ErrListCrowded) {
			t.Errorf("list %d of one network: %v", i, err)
		}
	}
}

// What is imported at one node holds at all, and so does what is no longer on the list; also where more is said at once
// than fits.
func TestListsTravel(t *testing.T) {
	needs.Unwatched(t)
	a, b, c := newMember(t, Options{}), newMember(t, Options{}), newMember(t, Options{})
	var many []string
	for i := range maxOutbox + 50 {
		many = append(many, fmt.Sprintf("10.%d.%d.%d/32", i>>16, i>>8&255, i&255))
	}
	replace(t, a.List, "drop", epoch, many...)
	b.hears(t, epoch, a.take(t)...)
	if a.Dropped() == 0 {
		t.Error("nothing was dropped: the test is too small")
	}
	b.hears(t, epoch, a.snapshot(epoch)...)
	if got := b.List.Stats().Networks; got != len(many) {
		t.Errorf("%d networks, want %d", got, len(many))
	}
	replace(t, b.List, "drop", epoch.Add(time.Second), many[:3]...) // another node replaces it
	a.hears(t, epoch.Add(time.Second), append(b.take(t), b.snapshot(epoch.Add(time.Second))...)...)
	c.hears(t, epoch.Add(time.Second), a.snapshot(epoch.Add(time.Second))...)
	for _, m := range []*member{a, b, c} {
		is(t, m.List, epoch.Add(time.Second), "10.0.0.0 list: drop", "10.0.0.1 list: drop", "10.0.0.2 list: drop")
	}
}

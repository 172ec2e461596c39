package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/console"
	"weir/internal/testkit/needs"
)

func (b *bench) imports(o console.ListOrder) console.ListResult {
	b.t.Helper()
	r, err := b.client.ImportList(b.t.Context(), o)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// TestABlockListIsReplaced: as a whole, without touching what operators have banned; over a restart; or not at all.
func TestABlockListIsReplaced(t *testing.T) {
	t.Parallel()
	b := startGuarded(t, "bans: {max: 20, exempt: [198.51.100.16/28]}\n")
	b.ban(console.BanOrder{Who: "192.0.2.1", Reason: "by hand"})
	r := b.imports(console.ListOrder{Name: "drop", Reason: "a feed", Text: "# drop\n192.0.2.1\n192.0.2.2 ; SBL\n" +
		"198.51.100.0/24\n127.0.0.0/8\n10.0.0.0/8\n"})
	if r.Entries != 4 || r.Added != 3 || r.ByOthers != 1 || !r.Kept || fmt.Sprint(r.LeftOut) != "[127.0.0.0/8]" ||
		len(r.Warnings) != 3 {
		t.Errorf("%+v", r)
	}
	b.wants("on the list", b.from("192.0.2.2"), 403)
	b.wants("in a network of the list", b.from("198.51.100.99"), 403)
	b.wants("exempt", b.from("198.51.100.17"), 200)
	b.wants("by hand", b.from("192.0.2.1"), 403)
	b.wants("somebody else", b.from("203.0.113.1"), 200)

	// A list with a mistake changes nothing, and neither does an empty one, or one that does not fit.
	for text, want := range map[string]string{
		"192.0.2.9\n192.0.2.300\n": "nothing was changed:\nline 2: \"192.0.2.300\" is neither an address nor a network",
		"# nothing\n":              "a download may have failed; nothing was changed",
		many(21):                   "has more entries than bans.max allows (20)",
		many(20):                   "does not fit",
	} {
		if _, err := b.client.ImportList(t.Context(), console.ListOrder{Name: "drop", Text: text}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want %s", text, err, want)
		}
	}
	b.wants("on the list still", b.from("192.0.2.2"), 403)
	dry := b.imports(console.ListOrder{Name: "drop", Text: "192.0.2.3", Dry: true})
	if dry.Added != 1 || dry.Removed != 3 {
		t.Errorf("a rehearsal: %+v", dry)
	}
	b.wants("after a rehearsal", b.from("192.0.2.3"), 200)

	b.imports(console.ListOrder{Name: "drop", Text: "192.0.2.3\n", For: weir.Duration(time.Hour)})
	for _, when := range []string{"replaced", "after a restart"} {
		b.wants(when+": new", b.from("192.0.2.3"), 403)
		b.wants(when+": no longer listed", b.from("192.0.2.2"), 200)
		b.wants(when+": by hand", b.from("192.0.2.1"), 403)
		all, err := console.BlockListsCall.Ask(t.Context(), b.client, console.None{})
		if err != nil || len(all.Lists) != 1 || all.Lists[0].Banned != 1 || all.Lists[0].By == "" ||
			all.Lists[0].Until.IsZero() {
			t.Errorf("%s: %+v, %v", when, all, err)
		}
		if when == "replaced" {
			b.again(nil)
		}
	}
	b.clock.Advance(time.Hour)
	b.wants("a list that is over", b.from("192.0.2.3"), 200)
	b.imports(console.ListOrder{Name: "drop", Text: "192.0.2.3\n"})
	b.imports(console.ListOrder{Name: "drop", Remove: true})
	b.wants("a list that was removed", b.from("192.0.2.3"), 200)
	b.wants("by hand", b.from("192.0.2.1"), 403)
	if _, err := b.client.ImportList(t.Context(), console.ListOrder{Name: "drop", Remove: true}); err == nil ||
		!strings.Contains(err.Error(), `there is no block list "drop"`) {
		t.Errorf("removed twice: %v", err)
	}
	b.audited("ban-import", "", `"banned":1`, `"removed":1`)
}

func many(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "203.0.113.%d\n", i)
	}
	return text.String()
}

// TestFarmBlockLists: a list that is imported at one node holds on all.
func TestFarmBlockLists(t *testing.T) {
	t.Parallel()
	f := newFold(t)
	banned := func(node int, name string) int {
		for _, l := range (backend{f.nodes[node]}).BlockLists() {
			if l.Name == name {
				return l.Banned
			}
		}
		return -1
	}
	for round, n := range []int{200, 3} { // the second time by another node
		if _, err := (backend{f.nodes[round]}).ImportList(t.Context(), console.ListOrder{Name: "drop", Text: many(n)},
			"ann"); err != nil {
			t.Fatal(err)
		}
		for node := range f.nodes {
			needs.Wait(f.t, "all nodes have the list", func() bool { return banned(node, "drop") == n })
		}
	}
}

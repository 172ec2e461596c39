package pages

import (
	"bytes"
	"testing"
	"time"

	"weir/internal/words"
)

// TestFrame: a page that is put together is the page that the template makes.
func TestFrame(t *testing.T) {
	assets, pages := NewAssets(nil), new(Rooms)
	rooms := []Room{
		{Puzzle: "AQH-_x", RequestID: "m7f5zmqs8jxh0zq8", Cookie: "weir-stamp", CookieAge: 300,
			Reload: 5 * time.Second, Takes: time.Second, Assets: assets},
		{Puzzle: "other", RequestID: "x", Cookie: "weir-stamp", CookieAge: 300,
			Reload: 5 * time.Second, Takes: time.Second, Assets: assets},
		{Puzzle: "AQH", RequestID: "y", Cookie: "weir-stamp-abc", CookieAge: 60, Reload: time.Second,
			Takes: time.Minute, Secure: true, Assets: assets},
		{Puzzle: "AQH", RequestID: "y", Cookie: "weir-stamp-abc", CookieAge: 60, Reload: time.Second,
			Takes: time.Minute, Secure: true, Cross: true, Assets: assets},
		{Puzzle: "AQH", RequestID: "z", Cookie: "weir-stamp", Limit: "The limit <b> is used up.", Full: true},
		{Puzzle: "AQH", RequestID: "z", Cookie: "weir-stamp", TooMany: true, Reload: time.Second},
		{Puzzle: "AQH", RequestID: "z", Cookie: "weir-stamp", Reload: time.Second, Assets: assets,
			Look: Look{Language: words.Find("de")}},
		{Puzzle: "AQH", RequestID: "z", Cookie: "weir-stamp", Reload: time.Second, Assets: assets,
			Look: Look{words.Find("de"), "<b>Shop", `"It's" & more`}},
		{Puzzle: `"><script>`, RequestID: "<i>", Cookie: "weir-stamp"},
		{RequestID: "z", Cookie: "weir-stamp", Reload: time.Second},
		{Puzzle: "AQH", RequestID: "z", InLine: true, Ahead: 3, Reload: time.Second},
		{Puzzle: "AQH", RequestID: "z", Form: &Form{"/x", []FormField{{"a", "b"}}}},
		{Puzzle: "AQH", RequestID: "z", Lost: "It was not kept."},
	}
	for range 2 {
		for i := range rooms {
			if got, want := pages.Render(&rooms[i]), renderRoom(&rooms[i]); !bytes.Equal(got, want) {
				t.Errorf("%+v:\n%s\nwant\n%s", rooms[i], got, want)
			}
		}
	}
}

// TestPreparedPerLanguage: visitors who speak different languages do not take each other's prepared page.
func TestPreparedPerLanguage(t *testing.T) {
	var pages Rooms
	var kept []*preparedRoom
	for range 2 {
		for _, l := range words.All() {
			kept = append(kept, pages.prepared(&Room{Puzzle: "AQH", RequestID: "z", Look: Look{Language: l}}))
		}
	}
	for i, n := 0, len(kept)/2; i < n; i++ {
		if kept[i] == nil || kept[i] != kept[i+n] {
			t.Errorf("%s is prepared again", words.All()[i].Tag())
		}
	}
}

func BenchmarkRoom(b *testing.B) {
	r := &Room{Puzzle: "AQHDIYV6AAebaAGh3mRm2QAEk-AAAAAAAAEAAOkqB5xcqr_wxtbyoNWwquQ", RequestID: "m7f5zmqs8jxh0zq8",
		Cookie:    "weir-stamp",
		CookieAge: 300, Reload: 5 * time.Second, Takes: 66 * time.Millisecond, Assets: NewAssets(nil)}
	b.Run("frame", func(b *testing.B) {
		b.ReportAllocs()
		var pages Rooms
		for b.Loop() {
			pages.Render(r)
		}
	})
	b.Run("template", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			renderRoom(r)
		}
	})
}

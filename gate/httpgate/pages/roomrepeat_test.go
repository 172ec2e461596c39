package pages

import (
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
)

// TestRoomStays: where the answer leaves the page where it is, as a download does, the page says that it can be left,
// and leads back.
func TestRoomStays(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.stays = true
	p := browser.Open(t)
	p.Show(browser.Screen{Name: "320", Width: 320, Height: 568, Phone: true})
	p.Visit(d.url + "/form")
	p.Visit(d.url + "/file")
	p.Wait("document.querySelector('#go')?.checkVisibility()")
	for _, scheme := range browser.Schemes {
		p.Prefer(scheme)
		p.Screenshot("room-stays-" + scheme)
		for _, fault := range p.Faults() {
			t.Errorf("%s: %s", scheme, fault)
		}
	}
	for _, found := range p.Axe(browser.Contrast) {
		t.Error(found)
	}
	if text, title := p.Text("main"), browser.Eval[string](p, "document.title"); !strings.Contains(text,
		"you can go back then") || title != p.Text("h1") {
		t.Errorf("reads %q under %q", text, title)
	}
	p.Click("#go")
	p.Wait("location.pathname === '/form'")
	if visits := d.seen(); len(visits) != 2 {
		t.Errorf("visits %q", visits)
	}
}

// TestRoomEveryByte: whatever charset a form was in, each byte of it becomes the same byte again.
func TestRoomEveryByte(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	every := make([]byte, 0, 256)
	for b := 1; b < 256; b++ {
		if b != '\r' && b != '\n' {
			every = append(every, byte(b))
		}
	}
	d := newDoor(t)
	d.dress = func(_ int, r *Room) {
		r.Form = &Form{Action: "/", Fields: []FormField{{string(every), "\r\n" + string(every)},
			{"_charset_", "koi8-r"}, {"_CharSet_", ""}}}
	}
	p := browser.Open(t)
	p.Visit(d.url + "/")
	p.Wait(isIn)
	sent, _ := strings.CutPrefix(d.seen()[1], "POST / ")
	fields, ok := FormFields(post(formKind, sent), []byte(sent))
	if want := []FormField{{string(every), "\r\n" + string(every)}, {"_charset_", "koi8-r"}, {"_CharSet_", ""}}; !ok ||
		!slices.Equal(fields, want) {
		t.Errorf("%q, want %q", fields, want)
	}
}

// TestRoomLostAndExpired: what was not kept is not sent by a reload either, when the puzzle has expired.
func TestRoomLostAndExpired(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.ask.Work, d.ask.Lifetime = 1<<40, time.Millisecond
	d.dress = func(_ int, r *Room) { r.Lost, r.Form = "What you sent was not kept.", nil }
	p := browser.Open(t)
	p.Visit(d.url + "/form")
	p.Click("button")
	p.Wait("document.querySelector('#go')?.checkVisibility()")
	if text := p.Text("main"); !strings.Contains(text, "Please go back, and send it again.") {
		t.Errorf("reads %q", text)
	}
	p.Click("#go")
	p.Wait("location.pathname === '/form'")
	if visits := d.seen(); len(visits) != 1 {
		t.Errorf("visits %q", visits)
	}
}

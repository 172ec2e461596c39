package pages

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/gate/refusal"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
	"weir/internal/words"
)

func TestOptions(t *testing.T) {
	for _, good := range []Options{{}, {Site: "Füchse & Söhne <3", Note: "☎ 555-0100 'now'", Language: "de"},
		{Site: strings.Repeat("ü", maxSite), Note: strings.Repeat("ü", maxNote), Language: "en"}} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for want, bad := range map[string]Options{
		"site: 61 characters are too many":  {Site: strings.Repeat("x", maxSite+1)},
		"note: 301 characters are too many": {Note: strings.Repeat("x", maxNote+1)},
		"site: U+000A cannot be shown":      {Site: "a\nb"},
		"note: U+FFFD cannot be shown":      {Note: "a\xffb"},
		"note: U+202E cannot be shown":      {Note: "a\u202eb"},
		`language: unknown language "fr"`:   {Language: "fr"},
	} {
		err := bad.Validate()
		if field, ok := errors.AsType[*weir.FieldError](err); !ok || !strings.HasPrefix(err.Error(), want) ||
			field.Hint == "" {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestLook(t *testing.T) {
	o := Options{Site: "Shop", Note: "Call.", Language: "de"}
	for accepted, want := range map[string]string{"": "de", "fr": "de", "en-GB": "en", "de": "de"} {
		look := o.Look(&http.Request{Header: http.Header{"Accept-Language": {accepted}}})
		if look.Language.Tag() != want || look.Site != "Shop" || look.Note != "Call." {
			t.Errorf("%q: %+v", accepted, look)
		}
		h := http.Header{}
		look.Head(h)
		refusal.Content(&refusal.Singles{Of: h}, "text/html", 1)
		if h.Get("Content-Language") != want || !slices.Equal(h["Vary"], []string{"Accept-Language", "Accept"}) {
			t.Errorf("%q: %v", accepted, h)
		}
	}
	h := http.Header{"Vary": {"Origin"}}
	new(Look).Head(h)
	if !slices.Equal(h["Vary"], []string{"Origin", "Accept-Language"}) || !slices.Equal(byLanguage, []string{"Accept-Language"}) {
		t.Error(h, byLanguage)
	}
}

// TestOwnWords: the name of the site and the operator's line are on both pages, and cannot break out of them. The style
// is the one that the policy names, in every language.
func TestOwnWords(t *testing.T) {
	for _, l := range words.All() {
		look := Look{l, `<b>"Shop"`, "</style><script>alert(1)</script> & more"}
		doc := refusal.Problem(http.StatusBadGateway, "The service behind the gate cannot be reached.")
		for _, page := range [][]byte{renderRoom(&Room{Look: look}), Refusal(&doc, look)} {
			text := string(page)
			if strings.Contains(text, "<b>") || strings.Contains(text, "<script>") ||
				strings.Count(text, "&lt;b&gt;&#34;Shop&#34;") != 2 ||
				strings.Count(text, "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more") != 1 ||
				!strings.Contains(text, `<html lang="`+l.Tag()+`">`) || strings.Contains(text, "say") {
				t.Errorf("%s: %s", l.Tag(), text)
			}
		}
		if hash := styleHash(renderRoom(&Room{Look: look})); !strings.Contains(RoomPolicy, "'"+hash+"'") {
			t.Errorf("%s: the style %s is not that of the policy", l.Tag(), hash)
		}
	}
}

func TestRefusalInGerman(t *testing.T) {
	a := &weir.Answer{Verdict: weir.Refuse, Reason: weir.OverLimit, Figure: weir.Figure{By: "plans", Rule: "per-day",
		Unit: "requests", Limit: 5, Window: weir.Window(24 * time.Hour), Reset: epoch.Add(50 * time.Hour)}}
	doc := refusal.Of(a, epoch, false)
	page := string(Refusal(&doc, Look{Language: words.Find("de")}))
	for _, want := range []string{"<h1>Zu viele Anfragen</h1>", "Das Limit von 5 Anfragen pro Tag ist ausgeschöpft.",
		"Bitte versuchen Sie es in 3 Tagen noch einmal.", "per-day von plans", "5 Anfragen, davon noch 0 übrig"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	if text := string(doc.AppendJSON(nil)); !strings.Contains(text, `"The limit of 5 requests per day is used up."`) {
		t.Errorf("programs read %s", text)
	}
}

// inGerman is what people read in each state of the room.
var inGerman = map[string][]string{
	"solving": {"stark ausgelastet", "kleine Rechenaufgabe", "Fortschritt", "nennen Sie die Anfrage 0000-id"},
	"form":    {"Die Seite öffnet sich von selbst"},
	"lost":    {"wurde nicht aufgehoben. Sie müssen es noch einmal senden."},
	"line":    {"Vor Ihnen warten noch 1234 Personen, es dauert etwa 11 Minuten."},
	"full":    {"Die Warteschlange ist gerade voll.", "versucht es alle 10 Minuten von selbst noch einmal"},
	"no-line": {"Es gibt keine Warteschlange.", "Noch einmal versuchen"},
	"off-first": {"Sie werden in die Warteschlange eingereiht.", "Mit JavaScript", "Öffnen Sie sie in einem eigenen Tab",
		"Ein Download beginnt von selbst."},
	"off-line": {"Sie sind als Nächstes an der Reihe. Wie lange"},
	"off-form": {"in dieser Seite aufgehoben", "Jetzt noch einmal versuchen"},
	"off-lost": {"Aus Ihrem Netz warten schon zu viele", "Bitte gehen Sie in 10 Minuten zurück"},
}

// TestRoomInGerman: a browser that prefers German gets the room in German, in every state, and nothing overflows on a
// small phone. The site's name and the operator's line are there.
func TestRoomInGerman(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	d := newDoor(t)
	d.look = Options{Site: "Donaudampfschifffahrtsgesellschaft", Note: "Wenn es länger dauert: 0800 555-0100."}
	d.idle()
	p := browser.Open(t)
	p.Speaks("de-AT,de,en")
	screens := []browser.Screen{{Name: "320", Width: 320, Height: 568, Phone: true}}
	if needs.Long() {
		screens = append(screens, browser.Screens...)
	}
	for _, screen := range screens {
		p.Show(screen)
		for name := range states {
			at := "room-de-" + name + "-" + screen.Name
			d.inState(p, name)
			text := p.Text("body")
			for _, want := range append(inGerman[name], d.look.Site, d.look.Note) {
				if !strings.Contains(text, want) {
					t.Errorf("%s: no %q in %q", at, want, text)
				}
			}
			if lang := browser.Eval[string](p, "document.documentElement.lang"); lang != "de" ||
				strings.Contains(text, " the ") || strings.Contains(text, " you") {
				t.Errorf("%s: the language is %q, and the page says %q", at, lang, text)
			}
			p.Screenshot(at)
			for _, fault := range p.Faults() {
				t.Errorf("%s: %s", at, fault)
			}
		}
	}
}

// TestRoomPaysInGerman: the work is done and the page opens, with the script in German as well. What only the script
// says is in German, too.
func TestRoomPaysInGerman(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	d := newDoor(t)
	p := browser.Open(t)
	p.Speaks("de")
	if status, header := p.Visit(d.url + "/"); status != 503 || header.Get("Content-Security-Policy") != RoomPolicy {
		t.Errorf("status %d, %v", status, header)
	}
	p.Wait(isIn)
	d.change(func() { d.opens = func(int, bool) bool { return false } })
	p.Cookies(false)
	p.Visit(d.url + "/")
	p.Wait("document.querySelector('#go')?.checkVisibility()")
	if got := p.Text("h1") + "|" + p.Text("#news") + "|" + p.Text("#go"); !strings.HasPrefix(got,
		"Cookies sind ausgeschaltet|Diese Website ist ausgelastet, und Ihr Browser") ||
		!strings.HasSuffix(got, "|Noch einmal versuchen") {
		t.Error(got)
	}
	p.Screenshot("room-de-no-cookies")
}

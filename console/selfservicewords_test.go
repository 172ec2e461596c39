package console

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
	"weir/internal/words"
)

// getIn gets a page with the languages of a browser.
func getIn(t *testing.T, at, accept string) (header http.Header, body string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		r.Header.Set("Accept-Language", accept)
	}
	r.Close = true
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.Header, string(text)
}

// TestSelfServiceLanguage: the language that the user chose goes first, then that of the browser, then that of the
// configuration. Strangers get the browser's.
func TestSelfServiceLanguage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ chosen, accept, usual, want, stranger string }{
		{"", "", "", "en", "en"}, {"", "", "de", "de", "de"}, {"", "de-CH", "", "de", "de"}, {"", "en", "de", "en", "en"},
		{"", "fr", "de", "de", "de"}, {"de", "en", "", "de", "en"}, {"en", "de", "de", "en", "de"},
		{"xx", "de", "", "de", "de"}, // one that weir does not speak any more
	} {
		d := newMailbox()
		d.view.Language = c.chosen
		site, _ := pagesOf(t, d, SelfServiceOptions{Language: c.usual})
		for path, want := range map[string]string{"/t/" + goodTicket: c.want, "/t/forged": c.stranger, "/": c.stranger} {
			header, body := getIn(t, site+path, c.accept)
			title := map[string]string{"en": "Your held mail", "de": "Ihre zurückgehaltenen E-Mails"}[want]
			if header.Get("Content-Language") != want || header.Get("Vary") != "Accept-Language" ||
				!strings.Contains(body, `<html lang="`+want+`">`) ||
				strings.HasPrefix(path, "/t/"+goodTicket) && !strings.Contains(body, title) {
				t.Errorf("%+v: %s: %v\n%s", c, path, header, body)
			}
		}
	}
}

// TestSelfServiceChoosesLanguage: a user chooses a language, without JavaScript; one that there is none of changes
// nothing.
func TestSelfServiceChoosesLanguage(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	d := newMailbox()
	site, _ := pagesOf(t, d, SelfServiceOptions{})
	p := browser.Open(t)
	p.Speaks("en")
	p.Scripts(false)
	p.Show(browser.Screens[0])
	p.Visit(site + "/weir/t/" + goodTicket)
	browser.Eval[bool](p, "document.getElementById('language').value = 'de', true")
	p.Click("button[value=language]")
	p.Wait("document.readyState === 'complete' && document.title === 'Die Sprache ist geändert.'")
	if got := browser.Eval[string](p, "document.documentElement.lang + document.getElementById('language').value"); got != "dede" {
		t.Error(got)
	}
	browser.Eval[bool](p, "document.getElementById('language').value = '', true")
	p.Click("button[value=language]")
	p.Wait("document.readyState === 'complete' && document.title === 'The language is changed.'")

	_, body := getIn(t, site+"/t/"+goodTicket, "")
	v := with(formIn(t, body), "do", "language", "language", "xx")
	if code, body, _ := send(t, site+"/t/"+goodTicket, v); code != 400 || d.view.Language != "" {
		t.Errorf("%d %q %s", code, d.view.Language, body)
	}
	d.view.Known = false
	if _, body = getIn(t, site+"/t/"+goodTicket, ""); strings.Contains(body, `value="language"`) {
		t.Error("somebody who is no user of the store can choose")
	}
}

// TestSelfServiceOptionLanguage: an unknown language is an error, with a hint.
func TestSelfServiceOptionLanguage(t *testing.T) {
	o := SelfServiceOptions{URL: "https://mail.example.org", Language: "dee"}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), `language: unknown language "dee"`) {
		t.Error(err)
	}
	o.Language = "de"
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
}

// TestSelfServiceInGerman: the page in German is as good as the one in English, and its longer words fit a phone.
func TestSelfServiceInGerman(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	delayed, tried, operator, strangers := standings()
	for i := range strangers.view.Mails {
		strangers.view.Mails[i].Held = true
	}
	empty := &mailbox{view: PageView{User: "ann@example.org", Known: true}}
	said := newForms([]byte("0123456789abcdef"))
	good := "/t/" + goodTicket
	inspects(t, "de", "selfservice-de-", true, map[string]lookCase{
		"stopped": {newMailbox(), good, 200, []string{"Sie können keine E-Mails senden gesperrt am 01.05.2024, 12:04 UTC",
			"E-Mails an 28 Empfänger warten. Nichts davon ist verloren.", "Senden wieder erlauben", "aktuelles Passwort",
			"Sie funktioniert bis 08.05.2024, 12:04 UTC."}},
		"delayed": {delayed, good, 200, []string{"deshalb warten einige Ihrer E-Mails", "Es gibt mehr E-Mails, als hier",
			"Es ist keine Kontaktadresse bekannt", "Wenn E-Mails an mehr als 20 Empfänger verzögert sind"}},
		"tried":    {tried, good, 200, []string{"Ab 02.05.2024, 12:04 UTC können Sie wieder senden"}},
		"operator": {operator, good, 200, []string{"Ihr E-Mail-Betreiber hat Ihr Konto gesperrt"}},
		"new":      {strangers, good, 200, []string{"zurückgehalten, neuer Empfänger", "Auswahl freigeben"}},
		"empty":    {empty, good, 200, []string{"Es warten keine E-Mails von Ihnen.", "Sprache ändern"}},
		"done": {newMailbox(), good + "?said=" + said.write(goodTicket, result{Code: saidReleased, N: 12}), 200,
			[]string{"Freigegeben: Die E-Mails an 12 Empfänger sind unterwegs."}},
		"bad": {newMailbox(), good + "?said=" + said.write(goodTicket, result{Code: saidWrong}), 200,
			[]string{"Das aktuelle Passwort ist nicht richtig"}},
		"forged": {newMailbox(), "/t/forged", 403, []string{"Dieser Link ist nicht gültig"}},
	})
}

// TestEverythingSaid: every result has words in every language, and sizes and times are as people write them.
func TestEverythingSaid(t *testing.T) {
	for _, l := range words.All() {
		for code := range sentences {
			if r := (&result{Code: code}); r.In(l) == "" {
				t.Errorf("%s: %s", l.Tag(), code)
			}
		}
	}
	de := speech{words.Find("de")}
	for want, got := range map[string]string{"0 Byte": de.Size(0), "1 Byte": de.Size(1), "999 Byte": de.Size(999),
		"1 KB": de.Size(1499), "2 KB": de.Size(1500), "999 KB": de.Size(999_499), "1,0 MB": de.Size(999_500),
		"1.0 MB": speech{}.Size(999_500), "1 byte": speech{}.Size(1)} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := de.around("It works until {time}.", "{time}", de.time(time.Unix(0, 0))); got !=
		`Sie funktioniert bis <time datetime="1970-01-01T00:00:00Z">01.01.1970, 00:00 UTC</time>.` {
		t.Error(got)
	}
}

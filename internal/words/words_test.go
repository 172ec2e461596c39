package words

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// german is a language of its own, so that tests need not change with the catalogue.
var german = &Language{tag: "de", name: "Deutsch", at: 1, texts: map[Text]string{
	"{a} of {b}": "von {b}: {a}", "{n} day": "{n} Tag", "{n} days": "{n} Tage", `Say "<now>" & go`: `„<jetzt>“ & los`,
	"{whole}.{tenth}": "{whole},{tenth}", "it's": "'s ist"}}

func TestSay(t *testing.T) {
	var none *Language
	for got, want := range map[string]string{
		german.Say("{a} of {b}", "a", "{b}", "b", int64(2)):      "von 2: {b}", // a value is not looked through
		none.Say("{a} of {b}", "a", 1, "b", "2"):                 "1 of 2",
		none.Say("{a} of {b}", "a", 1):                           "1 of {b}",
		none.Say("{a", "a", 1):                                   "{a",
		none.Say("a} {a}", "a", 1):                               "a} 1",
		none.Say("{a}", "a", 1.5):                                "{a}", // a test finds such calls
		german.Say("{a} and more"):                               "{a} and more",
		german.Count(1, "{n} day", "{n} days"):                   "1 Tag",
		german.Count(0, "{n} day", "{n} days"):                   "0 Tage",
		german.Count(2, "{n} day", "{a} of {b}", "a", 7, "b", 8): "von 8: 7",
		german.Tenths(1234.56):                                   "1234,6",
		none.Tenths(0.04):                                        "0.0",
		none.Tag() + none.Name():                                 "enEnglish",
		german.Say("nobody said"):                                "nobody said",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if none.Index() != 0 || English.Index() != 0 || german.Index() != 1 {
		t.Error("an index is wrong")
	}
}

func TestSources(t *testing.T) {
	if got, want := german.Template(`<p title="{{say "x"}}">{{.A}}{{say "{n} days"}}</p>`),
		`<p title="x">{{.A}}{n} Tage</p>`; got != want {
		t.Errorf("%s", got)
	}
	danger := &Language{texts: map[Text]string{"x": `<b> & "c"`}}
	if got, want := danger.Template(`{{say "x"}}`), `&lt;b&gt; &amp; &#34;c&#34;`; got != want {
		t.Errorf("%s", got)
	}
	danger.texts["x"] = "</script>'\"\\\n„ß“"
	if got, want := string(danger.Script([]byte(`f(word('x') + word('y'), sword('x'))`))),
		`f("</script>'\"\\\n\u201e\u00df\u201c" + "y", sword('x'))`; got != want {
		t.Errorf("%s", got)
	}
}

func TestAccepted(t *testing.T) {
	de := Find("de")
	if de == nil {
		t.Fatal("no German")
	}
	for header, want := range map[string]*Language{
		"": nil, "de": de, "DE-at": de, "de-AT,de;q=0.9,en;q=0.8": de, "en-US,en;q=0.9,de;q=0.8": English,
		"fr,de;q=0.5": de, "fr": nil, "fr;q=0.9, en;q=0.2, de;q=0.3": de, "en;q=0.5, de;q=0.5": English,
		"de;q=0, en": English, "de;q=0": nil, "de;q=0.000": nil, "*": nil, "fr, *;q=0.5, de;q=0.4": nil,
		"de;q=0.4, *;q=0.5": nil, "*;q=0.1,de": de, "de;q=2": nil, "de;q=1.001": nil, "de;q=1.000": de,
		"de;q=.5": nil, "de;q=0.1234": nil, "de;q=-1": nil, "de;q=x": nil, "de;q=0.x": nil, "de; Q=0.5 ": de,
		"de;level=1": nil, "d": nil, "deu": nil, "-": nil, ";;,,=": nil, " de ": de, "den": nil, "de_DE": nil,
		"en;q=0.001,de;q=0.002": de,
	} {
		if got := Accepted([]string{header}, nil); got != want {
			t.Errorf("%q: %v, want %v", header, got.Tag(), want.Tag())
		}
	}
	if got := Accepted([]string{"fr", "en;q=0.1", "de;q=0.2"}, nil); got != de {
		t.Error("of several lines:", got.Tag())
	}
	if got := Accepted(nil, de); got != de {
		t.Error("of none:", got.Tag())
	}
	// At the bounds, and one beyond.
	if got := Accepted([]string{strings.Repeat("fr,", maxRanges-1) + "de"}, nil); got != de {
		t.Error("the last range is not read")
	}
	if got := Accepted([]string{strings.Repeat("fr,", maxRanges) + "de"}, nil); got != nil {
		t.Error("a range too many is read")
	}
	long := "de-" + strings.Repeat("x", maxRange-3)
	if got := Accepted([]string{long}, nil); got != de {
		t.Error("the longest range is not read")
	}
	if got := Accepted([]string{long + "x"}, nil); got != nil {
		t.Error("a range that is too long is read")
	}
}

func FuzzAccepted(f *testing.F) {
	for _, header := range []string{"de-AT,de;q=0.9,en;q=0.8", "*;q=0.1", ";q=1,", "-,de-", "de;q=0.999"} {
		f.Add(header)
	}
	de := Find("de")
	f.Fuzz(func(t *testing.T, header string) {
		got := Accepted([]string{header}, nil)
		if got != nil && got != English && got != de {
			t.Error(got)
		}
		if got != nil && !strings.Contains(strings.ToLower(header), got.Tag()) {
			t.Errorf("%s for %q", got.Tag(), header)
		}
		if Accepted([]string{header}, de) != got && got != nil {
			t.Error("what is wanted depends on the other")
		}
	})
}

// TestLoad: broken catalogues, and one too many, are found when the program starts.
func TestLoad(t *testing.T) {
	file := &fstest.MapFile{Data: []byte(`{"name":"X","texts":{"a":"b"}}`)}
	many := fstest.MapFS{}
	for i := range Most - 1 {
		many[fmt.Sprintf("catalogues/x%c%c.json", 'a'+i/26, 'a'+i%26)] = file
	}
	if all, err := load(many); err != nil || len(all) != Most || all[Most-1].Index() != Most-1 {
		t.Error(len(all), err)
	}
	many["catalogues/yy.json"] = file
	if _, err := load(many); !errors.Is(err, ErrTooMany) {
		t.Error(err)
	}
	for name, text := range map[string]string{"de": "{", "en": `{"name":"X"}`, "DE": `{"name":"X"}`, "fr": `{}`,
		"pt-br": `{"name":"X"}`} {
		from := fstest.MapFS{"catalogues/" + name + ".json": {Data: []byte(text)}}
		if _, err := load(from); !errors.Is(err, ErrCatalogue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, err := load(fstest.MapFS{"catalogues/pt-BR.json": file}); err != nil || all[1].Say("a") != "b" {
		t.Error(err)
	}
}

func BenchmarkAccepted(b *testing.B) {
	header := []string{"de-AT,de;q=0.9,en-US;q=0.8,en;q=0.7"}
	b.ReportAllocs()
	for b.Loop() {
		Accepted(header, nil)
	}
}

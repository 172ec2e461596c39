package notice

import (
	"encoding/base64"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"weir/internal/words"
)

const head = "From: ann@example.com\r\nTo: weir+x@mail.example.org\r\nMessage-ID: <42@laptop>\r\nSubject: " +
	"=?utf-8?q?Re:_Gr=C3=BC=C3=9Fe?=\r\n"

func TestCommands(t *testing.T) {
	all := Command{ReleaseAll: true}
	for name, c := range map[string]struct {
		text string
		want Command
		err  string // part of it; "nothing" for ErrNothing
	}{
		"all":               {"release all", all, ""},
		"in German":         {"Freigeben 1, 3 und 4-5\nlöschen 2\nFortsetzen!", Command{Release: []int{1, 3, 4, 5}, Delete: []int{2}, Resume: true}, ""},
		"all in German":     {"FREIGEBEN ALLE", all, ""},
		"without umlauts":   {"loeschen alle.", Command{DeleteAll: true}, ""},
		"of two languages":  {"delete alle\nfortsetzen", Command{DeleteAll: true, Resume: true}, ""},
		"German, all but":   {"freigeben alle außer 2", Command{}, `cannot read "alle"`},
		"German, below":     {"Danke\n---- Um per E-Mail zu antworten, schreiben Sie oberhalb dieser Zeile ----\nlöschen alle", Command{}, "nothing"},
		"in any case":       {"\r\n  RELEASE   All  \r\n", all, ""},
		"one":               {"release 1", Command{Release: []int{1}}, ""},
		"some":              {"release 3 1\ndelete 2", Command{Release: []int{1, 3}, Delete: []int{2}}, ""},
		"commas":            {"release 1,3, 5;7", Command{Release: []int{1, 3, 5, 7}}, ""},
		"and":               {"Release 1, 2 and 4.", Command{Release: []int{1, 2, 4}}, ""},
		"range":             {"delete 1-3 5 – 6", Command{Delete: []int{1, 2, 3, 5, 6}}, ""},
		"twice":             {"release 1 1 1-2\nrelease 2", Command{Release: []int{1, 2}}, ""},
		"resume":            {"delete all\nresume", Command{DeleteAll: true, Resume: true}, ""},
		"all and resume":    {"Release all!\nResume!", Command{ReleaseAll: true, Resume: true}, ""},
		"polite":            {"Hello,\n\nthese are mine.\n\nrelease all\n\nThank you\nAnn", all, ""},
		"list":              {"- release 1\n* delete 2", Command{Release: []int{1}, Delete: []int{2}}, ""},
		"quoted command":    {"\"release all\"", all, ""},
		"broken line":       {"release 1 2 3\n4 5\n\n6", Command{Release: []int{1, 2, 3, 4, 5}}, ""},
		"no-break space":    {"release\u00a01\u00a0\u200b3", Command{Release: []int{1, 3}}, ""},
		"up to the bound":   {"release 100", Command{Release: []int{100}}, ""},
		"bound+1":           {"release 101", Command{}, "no message 101"},
		"zero":              {"release 0", Command{}, "no message 0"},
		"huge":              {"release 1-99999999999999999999", Command{}, "no message 999"},
		"backwards":         {"release 3-1", Command{}, "backwards"},
		"negative":          {"release -1", Command{}, "cannot read"},
		"word":              {"release 1 two", Command{}, `cannot read "two"`},
		"all but":           {"release all but 2", Command{}, `cannot read "all"`},
		"which":             {"release", Command{}, "say which"},
		"which, later":      {"resume\ndelete", Command{}, "say which"},
		"both":              {"release 1-3\ndelete 3", Command{}, "mail 3 cannot be both released and deleted"},
		"both, all":         {"release all\ndelete all", Command{}, "everything cannot be"},
		"both, all of one":  {"release all\ndelete 2", Command{}, "mail 2 cannot be"},
		"both, all another": {"delete all\nrelease 7", Command{}, "mail 7 cannot be"},
		"too long a line":   {"release 1" + strings.Repeat(" 1", maxLine), Command{}, "cannot read"},
		"empty":             {"", Command{}, "nothing"},
		"prose":             {"Please release me.\nI want my mail to be released.\nDelete it!", Command{}, "nothing"},
		"resume something":  {"resume sending", Command{}, "nothing"},
		"numbers alone":     {"1 2 3", Command{}, "nothing"},
		"in a sentence":     {"please release all", Command{}, "nothing"},
		"both in a line":    {"release all, resume", Command{ReleaseAll: true, Resume: true}, ""},
		"the other way":     {"Resume, release all.", Command{ReleaseAll: true, Resume: true}, ""},
		"no comma":          {"resume release all", Command{ReleaseAll: true, Resume: true}, ""},
		"no space":          {"release all,resume", Command{ReleaseAll: true, Resume: true}, ""},
		"and resume":        {"delete 2, release 1 and 3-4 and resume!", Command{Release: []int{1, 3, 4}, Delete: []int{2}, Resume: true}, ""},
		"two sentences":     {"Release all. Resume.", Command{ReleaseAll: true, Resume: true}, ""},
		"both, in German":   {"alle\nfreigeben alle und fortsetzen", Command{ReleaseAll: true, Resume: true}, ""},
		"numbers go on":     {"resume, release 1,\n2 3", Command{Release: []int{1, 2, 3}, Resume: true}, ""},
		"verbs last":        {"Alle freigeben, fortsetzen!", Command{ReleaseAll: true, Resume: true}, ""},
		"each verb last":    {"1-2 und 4 löschen und 3 freigeben", Command{Release: []int{3}, Delete: []int{1, 2, 4}}, ""},
		"verbs everywhere":  {"1 löschen 2", Command{}, "nothing"},
		"last, after more":  {"freigeben 1 2\n3 löschen", Command{Release: []int{1, 2}}, ""},
		"half a command":    {"release all, resume please", Command{}, `cannot read "please"`},
		"prose, then one":   {"release them and resume", Command{}, `cannot read "them"`},
		"which, and resume": {"release and resume", Command{}, "say which"},
		"both in one line":  {"release all delete 2", Command{}, "mail 2 cannot be"},
		"a verb is no list": {"release delete 2", Command{}, "say which"},
	} {
		got, err := readCommands(c.text)
		var wrong *CommandError
		switch {
		case c.err == "" && err != nil, c.err == "nothing" && !errors.Is(err, ErrNothing):
			t.Errorf("%s: %v", name, err)
		case c.err != "" && c.err != "nothing" && (!errors.As(err, &wrong) || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestOnlyWhatIsAboveTheQuoteCounts(t *testing.T) {
	for name, quote := range map[string]string{
		"quoted":          "> delete all",
		"quoted, no line": ">delete all\n",
		"indented":        "  > hello\ndelete all",
		"on wrote":        "On Mon, 2 Mar 2026 at 09:00, Mail service <weir@mail.example.org> wrote:\ndelete all",
		"on wrote broken": "On Mon, 2 Mar 2026 at 09:00, Mail service\n<weir+" + ticket +
			"@mail.example.org>\nwrote:\n\ndelete all",
		"schrieb":      "Am 02.03.26 um 09:00 Mail service schrieb:\ndelete all",
		"original":     "-----Original Message-----\ndelete all",
		"ursprünglich": "-----Ursprüngliche Nachricht-----\ndelete all",
		"underscores":  "________________________________\nFrom: Mail service\ndelete all",
		"from":         "From: Mail service <weir@mail.example.org>\nSent: Monday\n\ndelete all",
		"von":          "*Von:* Mail service\n*Gesendet:* Montag\n\ndelete all",
		"signature":    "-- \nAnn\ndelete all",
		"mark": "Il giorno 2 marzo Mail service ha scritto:\n\n---- To act by mail, write above this line " +
			"----\n\ndelete all",
	} {
		got, err := readCommands("release 1\n\n" + quote)
		if err != nil || !reflect.DeepEqual(got, Command{Release: []int{1}}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if _, err := readCommands(quote); !errors.Is(err, ErrNothing) {
			t.Errorf("%s alone: %v", name, err)
		}
	}
}

// A notice that comes back as it is, however it is quoted, is no command.
func TestNoticeItselfSaysNothing(t *testing.T) {
	for i := range 2 * int(Answer+1) {
		n, kind := sample(Kind(i/2)), i/2
		if i%2 == 1 {
			n.Language = words.Find("de")
		}
		text := written(t, n)
		_, body := read(t, text)
		for _, body := range []string{body, "Hello,\r\n\r\n" + body, strings.ReplaceAll(body, n.Language.Say(Mark), "")} {
			_, err := ReadReply(strings.NewReader(head + "Content-Type: text/plain; charset=utf-8\r\n\r\n" + body))
			var wrong *CommandError
			if !errors.Is(err, ErrNothing) && !errors.As(err, &wrong) {
				t.Errorf("%d: %v", kind, err)
			}
		}
		if _, err := ReadReply(strings.NewReader(text)); !errors.Is(err, ErrAuto) {
			t.Errorf("%d: %v", kind, err)
		}
	}
}

// TestCommandWords: in every language, words of commands are single words in small letters, and no word means two
// things.
func TestCommandWords(t *testing.T) {
	means := map[string]words.Text{}
	for _, l := range words.All() {
		for _, text := range []words.Text{wordRelease, wordDelete, wordResume, wordAll, wordAnd} {
			word := l.Say(text)
			if got := tokens(word); len(got) != 1 || got[0] != word || means[word] != "" && means[word] != text {
				t.Errorf("%s: %q is %q", l.Tag(), text, word)
			}
			means[word] = text
		}
		for line := range strings.Lines(Usage(l)) {
			if _, err := readCommands(line); err != nil {
				t.Errorf("%s: %q: %v", l.Tag(), line, err)
			}
		}
	}
	_, err := readCommands("löschen 3-1")
	wrong, ok := errors.AsType[*CommandError](err)
	if !ok || wrong.In(words.Find("de")) != `"löschen 3-1": 3-1 zählt rückwärts` ||
		wrong.Error() != `notice: "löschen 3-1": 3-1 goes backwards` {
		t.Error(err)
	}
}

func multi(kind string, parts ...string) string {
	boundary := "b" + kind
	return "Content-Type: multipart/" + kind + "; boundary=" + boundary + "\r\n\r\n--" + boundary + "\r\n" +
		strings.Join(parts, "\r\n--"+boundary+"\r\n") + "\r\n--" + boundary + "--\r\n"
}

func TestReadReply(t *testing.T) {
	one := Command{Release: []int{1}}
	const plainPart = "Content-Type: text/plain\r\n\r\nrelease 1"
	const htmlPart = "Content-Type: text/html; charset=utf-8\r\n\r\n<html><head><style>p {release " +
		"9}</style><title>release 8</title></head><!-- \r\nrelease 7\r\n-->" +
		"<body><p>Hello,<br>release&nbsp;1</p><div class=\"gmail_quote\">On Monday<br>delete all</div></body></html>"
	file := "Content-Type: text/plain; name=x\r\nContent-Disposition: attachment\r\n\r\ndelete all"
	for name, c := range map[string]struct {
		text string
		want Command
		err  error
	}{
		"no type":        {"\r\nrelease 1\r\n", one, nil},
		"plain":          {plainPart, one, nil},
		"bare line ends": {"Content-Type: text/plain\n\nrelease 1\n", one, nil},
		"quoted-printable": {"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: " +
			"quoted-printable\r\n\r\nGr=C3=BC=C3=9Fe\r\nrele=\r\nase 1=20\r\n", one, nil},
		"base64": {"Content-Transfer-Encoding: base64\r\n\r\n" +
			base64.StdEncoding.EncodeToString([]byte("Grüße\nrelease 1\n")) + "\r\n", one, nil},
		"latin 1": {"Content-Type: text/plain; charset=iso-8859-1\r\n\r\nGr\xfc\xdfe\r\nrelease\xa01\r\n",
			one, nil},
		"windows-1252": {"Content-Type: text/plain; charset=\"Windows-1252\"\r\n\r\n\x93x\x94\r\nrelease 1\r\n",
			one, nil},
		"byte order mark": {"\r\n\xef\xbb\xbfrelease 1\r\n", one, nil},
		"alternative":     {multi("alternative", plainPart, htmlPart), one, nil},
		"HTML first":      {multi("alternative", htmlPart, plainPart), one, nil},
		"HTML alone":      {htmlPart, one, nil},
		"only HTML":       {multi("alternative", htmlPart), one, nil},
		"empty plain":     {multi("alternative", "Content-Type: text/plain\r\n\r\n\r\n", htmlPart), one, nil},
		"nested": {multi("mixed", multi("related", multi("alternative", plainPart, htmlPart)), file), one,
			nil},
		"file first":  {multi("mixed", file, plainPart), one, nil},
		"only a file": {multi("mixed", file), Command{}, ErrNothing},
		"attached mail": {multi("mixed", "Content-Type: message/rfc822\r\n\r\nSubject: x\r\n\r\ndelete all",
			plainPart), one, nil},
		"picture": {"Content-Type: image/png\r\n\r\ndelete all", Command{}, ErrNothing},
		"HTML, quoted": {"Content-Type: text/html\r\n\r\nrelease 1<BLOCKQUOTE type=cite>delete all</BLOCKQUOTE>",
			one, nil},
		"HTML, not closed": {"Content-Type: text/html\r\n\r\nrelease 1<style>delete all", one, nil},
		"HTML, broken tag": {"Content-Type: text/html\r\n\r\nrelease 1<div", one, nil},
		"long, commands up": {multi("mixed", plainPart,
			"Content-Type: image/png\r\n\r\n"+strings.Repeat("x\r\n", MaxReply)), one, nil},
		"long, HTML up": {multi("mixed", htmlPart,
			"Content-Type: image/png\r\n\r\n"+strings.Repeat("x\r\n", MaxReply)), one, nil},
		"long, commands low": {multi("mixed", "Content-Type: image/png\r\n\r\n"+strings.Repeat("x\r\n", MaxReply),
			plainPart), Command{}, ErrLarge},
		"long text":     {"\r\nrelease 1\r\n" + strings.Repeat("x\r\n", MaxReply), Command{}, ErrLarge},
		"long header":   {"X: " + strings.Repeat("x", MaxReply) + "\r\n\r\nrelease 1", Command{}, ErrLarge},
		"broken base64": {"Content-Transfer-Encoding: base64\r\n\r\ncmVsZWFzZSAx*\r\n", Command{}, ErrMail},
		"broken off": {strings.TrimSuffix(multi("alternative", plainPart), "--balternative--\r\n"), Command{},
			ErrMail},
		"no boundary":    {"Content-Type: multipart/mixed\r\n\r\nrelease 1", Command{}, ErrMail},
		"nothing at all": {"\r\n", Command{}, ErrNothing},
		"no header":      {"release 1", Command{}, ErrMail},
		"many parts": {multi("mixed",
			append(strings.Split(strings.Repeat("Content-Type: image/png\r\n\r\nx|", maxParts), "|")[:maxParts],
				plainPart)...), Command{}, ErrMail},
	} {
		for _, slow := range []bool{false, true} {
			var in io.Reader = strings.NewReader(head + c.text)
			if slow {
				in = iotest.HalfReader(iotest.DataErrReader(in))
			}
			got, err := ReadReply(in)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || !reflect.DeepEqual(got.Command, c.want) {
				t.Errorf("%s: %+v, %v", name, got.Command, err)
			}
			if (err == nil || errors.Is(err, ErrNothing)) &&
				(got.MessageID != "42@laptop" || got.Subject != "Re: Grüße") {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
}

func TestDepthIsBounded(t *testing.T) {
	text := "Content-Type: text/plain\r\n\r\nrelease 1"
	for range maxDepth {
		text = deeper(text)
	}
	if _, err := ReadReply(strings.NewReader(head + text)); err != nil {
		t.Errorf("at the bound: %v", err)
	}
	if _, err := ReadReply(strings.NewReader(head + deeper(text))); !errors.Is(err, ErrMail) {
		t.Errorf("bound+1: %v", err)
	}
}

// deeper puts a part into a multipart, with a boundary of its own.
func deeper(part string) string {
	b := strings.Repeat("b", 1+strings.Count(part, "multipart/"))
	return "Content-Type: multipart/mixed; boundary=" + b + "\r\n\r\n--" + b + "\r\n" + part + "\r\n--" + b + "--\r\n"
}

func TestSizeIsBounded(t *testing.T) {
	text := head + "\r\nrelease 1\r\n"
	text += strings.Repeat("\n", MaxReply-len(text))
	if _, err := ReadReply(strings.NewReader(text)); err != nil {
		t.Errorf("at the bound: %v", err)
	}
	if _, err := ReadReply(strings.NewReader(text + "\n")); !errors.Is(err, ErrLarge) {
		t.Errorf("bound+1: %v", err)
	}
}

func TestMachinesAreNotObeyed(t *testing.T) {
	for field, auto := range map[string]bool{
		"Auto-Submitted: auto-replied":               true,
		"Auto-Submitted: auto-generated; owner=x":    true,
		"Auto-Submitted: No (a person)":              true, // not worth a parser
		"Auto-Submitted: no":                         false,
		"Auto-Submitted: NO ; x=y":                   false,
		"Auto-Submitted:":                            false,
		"Precedence: bulk":                           true,
		"Precedence: LIST":                           true,
		"Precedence: junk":                           true,
		"Precedence: auto_reply":                     true,
		"Precedence: first-class":                    false,
		"Return-Path: <>":                            true,
		"Return-Path:":                               true,
		"Return-Path: <ann@example.com>":             false,
		"X-Autoreply: yes":                           true,
		"X-Autoreply: no":                            false,
		"X-Autorespond: vacation":                    true,
		"Content-Type: multipart/report; boundary=x": true,
		"X-Auto-Response-Suppress: All":              false, // people's programs write it too
	} {
		_, err := ReadReply(strings.NewReader(head + field + "\r\n\r\nrelease all\r\n"))
		if errors.Is(err, ErrAuto) != auto || !auto && err != nil {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestReplyThatCannotBeRead(t *testing.T) {
	for _, before := range []string{"", head, head + "\r\nrelease 1\r\n"} {
		in := io.MultiReader(strings.NewReader(before), iotest.ErrReader(io.ErrClosedPipe))
		if _, err := ReadReply(in); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after %d bytes: %v", len(before), err)
		}
	}
}

// FuzzReadReply: a command is within its bounds and does not contradict itself, whatever comes.
func FuzzReadReply(f *testing.F) {
	f.Add([]byte(head + "\r\nrelease 1-3, 5\r\ndelete 4\r\nresume\r\n"))
	f.Add([]byte(head + multi("alternative", "Content-Type: text/plain\r\n\r\nrelease all",
		"Content-Type: text/html\r\n\r\n<p>release all")))
	f.Add([]byte(head + "Content-Type: text/html\r\n\r\n<style></STYLE><!----><br>delete&#32;all<blockquote"))
	f.Add([]byte(head + "Content-Transfer-Encoding: base64\r\n\r\nZGVsZXRlIGFsbA=="))
	f.Add([]byte(deeper(deeper(deeper("Content-Type: text/plain; charset=x\r\n\r\n\xff\xfe\r\ndelete 100")))))
	f.Add([]byte("Auto-Submitted: x\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ReadReply(strings.NewReader(string(text)))
		if r.MessageID != messageID(r.MessageID) || clean(r.Subject, maxSubject+1) != r.Subject {
			t.Fatalf("%+v", r)
		}
		c := r.Command
		if err != nil {
			var wrong *CommandError
			if !errors.Is(err, ErrAuto) && !errors.Is(err, ErrNothing) && !errors.Is(err, ErrMail) &&
				!errors.Is(err, ErrLarge) && !errors.As(err, &wrong) {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(c, Command{}) {
				t.Fatalf("%+v with %v", c, err)
			}
			return
		}
		if reflect.DeepEqual(c, Command{}) || c.contradiction() != nil {
			t.Fatalf("%+v", c)
		}
		for _, list := range [][]int{c.Release, c.Delete} {
			for i, n := range list {
				if n < 1 || n > MaxLines || i > 0 && n <= list[i-1] {
					t.Fatalf("%+v", c)
				}
			}
		}
	})
}

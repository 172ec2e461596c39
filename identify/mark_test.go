package identify

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var (
	markSecret = []byte("a secret of the test")
	markTime   = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
)

func TestMark(t *testing.T) {
	until := markTime.Add(5 * 24 * time.Hour)
	for _, c := range []struct{ user, mail string }{
		{"ann", "40fa.6af99224.b8b9e.0"},
		{"ann@example.org", ""},
		{"2001:db8::1", "x"},
		{"jörg müller\r\nBcc: eve", "4.5"}, // whatever it is, it is one line of harmless characters
		{strings.Repeat("u", MaxAccount), strings.Repeat("m", MaxMarkedMail)},
	} {
		mark := Mark(markSecret, c.user, c.mail, until)
		if len(mark) > MaxMark || strings.Trim(mark,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
			t.Errorf("%q is no word of %d bytes", mark, MaxMark)
		}
		user, mail, err := ReadMark(mark, markTime, []byte("a newer one"), markSecret)
		if user != c.user || mail != c.mail || err != nil {
			t.Errorf("%q, %q: read %q, %q, %v", c.user, c.mail, user, mail, err)
		}
		for what, c := range map[string]struct {
			mark   string
			at     time.Time
			secret []byte
			want   error
		}{
			"the last second":  {mark, until.Add(-time.Second), markSecret, nil},
			"too late":         {mark, until, markSecret, ErrMarkOld},
			"before the epoch": {mark, time.Unix(-1, 0), markSecret, ErrMarkOld},
			"another secret":   {mark, markTime, []byte("another"), ErrMarkForged},
			"no secret":        {mark, markTime, nil, ErrMarkForged},
			"another version":  {"2" + mark[1:], markTime, markSecret, ErrMarkMalformed},
			"cut off":          {mark[:len(mark)-1], markTime, markSecret, ErrMarkMalformed},
			"something behind": {mark + ".", markTime, markSecret, ErrMarkMalformed},
			"a line break":     {mark[:5] + "\n" + mark[5:], markTime, markSecret, ErrMarkMalformed},
			"another user": {"1.Ym9i" + mark[strings.IndexByte(mark[2:], '.')+2:], markTime, markSecret,
				ErrMarkForged},
			"nothing":           {"", markTime, markSecret, ErrMarkMalformed},
			"more than is read": {strings.Repeat("A", MaxMark+1), markTime, markSecret, ErrMarkMalformed},
		} {
			if _, _, err := ReadMark(c.mark, c.at, c.secret); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%s: %v, want %v", what, err, c.want)
			}
		}
	}
}

func TestMarkRefusesToSign(t *testing.T) {
	until := markTime.Add(time.Hour)
	for what, mark := range map[string]string{
		"without a secret": Mark(nil, "ann", "m", until),
		"without a user":   Mark(markSecret, "", "m", until),
		"a long user":      Mark(markSecret, strings.Repeat("u", MaxAccount+1), "m", until),
		"a long mail":      Mark(markSecret, "ann", strings.Repeat("m", MaxMarkedMail+1), until),
		"a time of no era": Mark(markSecret, "ann", "m", time.Time{}),
	} {
		if mark != "" {
			t.Errorf("%s: %q", what, mark)
		}
	}
}

func FuzzReadMark(f *testing.F) {
	f.Add(Mark(markSecret, "ann", "4.5", markTime.Add(time.Hour)))
	f.Add(Mark([]byte("another"), "ann", "4.5", markTime.Add(time.Hour)))
	f.Add("1....")
	f.Add("1.YW5u.NC41.AAAAAGmliIA.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, mark string) {
		user, mail, err := ReadMark(mark, markTime, markSecret)
		if err != nil {
			if user != "" || mail != "" {
				t.Errorf("%q: %q and %q along with %v", mark, user, mail, err)
			}
			return
		}
		// Nobody guesses a tag: what is genuine was made here, and has one spelling.
		if again := Mark(markSecret, user, mail, markTime.Add(time.Hour)); again != mark {
			t.Errorf("%q is taken for genuine", mark)
		}
	})
}

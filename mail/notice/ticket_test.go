package notice

import (
	"errors"
	"strings"
	"testing"
	"time"

	"weir/internal/shown"
)

func TestTickets(t *testing.T) {
	s, nonce, until := NewSigner([]byte("secret")), NewNonce(), start.Add(time.Hour)
	text := s.Sign(ForMail, nonce, until)
	if len(text) != MaxTicket || MaxTicket > 50 || strings.Trim(text, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		t.Fatalf("%q", text)
	}
	for name, c := range map[string]struct {
		s       *Signer
		purpose string
		text    string
		now     time.Time
		want    error
	}{
		"good":             {s, ForMail, text, start, nil},
		"same secret":      {NewSigner([]byte("secret")), ForMail, text, start, nil},
		"in capitals":      {s, ForMail, strings.ToUpper(text), start, nil},
		"last second":      {s, ForMail, text, until, nil},
		"old":              {s, ForMail, text, until.Add(time.Second), ErrOld},
		"another purpose":  {s, ForPage, text, start, ErrForged},
		"another secret":   {NewSigner([]byte("Secret")), ForMail, text, start, ErrForged},
		"no secret":        {NewSigner(nil), ForMail, text, start, ErrForged},
		"shorter":          {s, ForMail, text[1:], start, ErrForged},
		"longer":           {s, ForMail, text + "a", start, ErrForged},
		"a line end":       {s, ForMail, text[:len(text)-1] + "\n", start, ErrForged},
		"no letter":        {s, ForMail, text[:len(text)-1] + "1", start, ErrForged},
		"nothing":          {s, ForMail, "", start, ErrForged},
		"forged and old":   {s, ForPage, text, until.Add(time.Hour), ErrForged},
		"a letter of many": {s, ForMail, "\u212a" + text[3:], start, ErrForged},
	} {
		got, err := c.s.Read(c.purpose, c.text, c.now)
		if !errors.Is(err, c.want) || (err == nil) != (got == nonce) || err != nil && got != "" {
			t.Errorf("%s: %q, %v, want %v", name, got, err, c.want)
		}
	}
	for i := range text { // every letter counts
		other := []byte(text)
		if other[i]++; text[i] == 'z' || text[i] == '7' {
			other[i] = 'a'
		}
		if _, err := s.Read(ForMail, string(other), start); !errors.Is(err, ErrForged) {
			t.Errorf("letter %d changed: %v", i, err)
		}
	}
}

func TestOddTickets(t *testing.T) {
	s := NewSigner([]byte("secret"))
	for _, nonce := range []string{"", "a", "aaaaaaaaaaaaaaaaa", "AAAAAAAAAAAAAAAA", "aaaaaaaaaaaaaaa1",
		"aaaaaaaa\naaaaaaaa", "ä"} {
		if text := s.Sign(ForMail, nonce, start); text != "" {
			t.Errorf("%q: %q", nonce, text)
		}
	}
	for _, until := range []time.Time{{}, time.Unix(-1, 0), time.Unix(1<<60, 0),
		time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)} {
		text := s.Sign(ForMail, NewNonce(), until)
		_, err := s.Read(ForMail, text, start)
		if want := map[bool]error{true: ErrOld}[until.Before(start)]; !errors.Is(err, want) {
			t.Errorf("until %s: %v", until, err)
		}
	}
	if one, two := NewNonce(), NewNonce(); one == two || len(one)*5 < 80 {
		t.Error("nonces are no chance")
	}
	if one, two := NewSigner(nil), NewSigner(nil); one.Sign(ForMail, "aaaaaaaaaaaaaaaa", start) == two.Sign(ForMail,
		"aaaaaaaaaaaaaaaa", start) {
		t.Error("without a secret everybody has the same")
	}
}

func TestSplitDetail(t *testing.T) {
	for _, c := range []struct {
		address, command, ticket string
		ok                       bool
	}{
		{"weir+abc@example.org", "weir@example.org", "abc", true},
		{"WEIR+Abc@Example.ORG", "weir@example.org", "abc", true},
		{"weir@example.org", "weir@example.org", "", true},
		{"weir+@example.org", "weir@example.org", "", true},
		{"weir+a+b@example.org", "weir@example.org", "a+b", true},
		{"weir+a@b@example.org", "weir@example.org", "a@b", true},
		{"weirabc@example.org", "weir@example.org", "", false},
		{"wei@example.org", "weir@example.org", "", false},
		{"weir+abc@example.net", "weir@example.org", "", false},
		{"weir+abc", "weir@example.org", "", false},
		{"", "weir@example.org", "", false},
		{"weir+abc@example.org", "", "", false},
		{"+abc@example.org", "@example.org", "", false},
		{"@", "@", "", false},
	} {
		if ticket, ok := SplitDetail(c.address, c.command); ticket != c.ticket || ok != c.ok {
			t.Errorf("%s of %s: %q %v", c.address, c.command, ticket, ok)
		}
	}
	text := NewSigner(nil).Sign(ForMail, NewNonce(), start)
	address := Detail("weir@example.org", text)
	if got, ok := SplitDetail(address, "weir@example.org"); !ok || got != text || strings.IndexByte(address, '@') > 64 {
		t.Errorf("%q of %s", got, address)
	}
	if Detail("weir", text) != "" || Detail("@example.org", text) != "" {
		t.Error("no address, no detail")
	}
}

// FuzzSigner: nothing is genuine but what was signed.
func FuzzSigner(f *testing.F) {
	s := NewSigner([]byte("secret"))
	good := s.Sign(ForMail, "aaaaaaaaaaaaaaaa", start)
	f.Add(good)
	f.Add(s.Sign(ForPage, "aaaaaaaaaaaaaaaa", start))
	f.Add(good[:40])
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		nonce, err := s.Read(ForMail, text, start)
		if (err == nil) != strings.EqualFold(text, good) {
			t.Fatalf("%q: %v", text, err)
		}
		if err == nil && s.Sign(ForMail, nonce, start) != good {
			t.Fatalf("%q is read as %q", text, nonce)
		}
	})
}

// FuzzSplitDetail: what is split can be put together again.
func FuzzSplitDetail(f *testing.F) {
	f.Add("weir+abc@example.org", "weir@example.org")
	f.Add("weir@example.org", "weir@example.org")
	f.Add("+@", "@")
	f.Fuzz(func(t *testing.T, address, command string) {
		ticket, ok := SplitDetail(address, command)
		if !ok {
			if ticket != "" {
				t.Fatalf("%q, and not ok", ticket)
			}
			return
		}
		if again := Detail(command, ticket); shown.ASCII(address) && ticket != "" && !strings.EqualFold(again, address) {
			t.Fatalf("%q of %q is %q, which is %q", address, command, ticket, again)
		}
	})
}

// TestTicketsOfOldSecrets are good while these are listed, also when the list changes. The first secret signs.
func TestTicketsOfOldSecrets(t *testing.T) {
	a, b := []byte("the old one"), []byte("the new one")
	now, nonce := time.Unix(1_800_000_000, 0), NewNonce()
	s := NewSigner(a)
	was := s.Sign(ForMail, nonce, now)
	for step, list := range [][][]byte{{a, b}, {b, a}, {b, nil, {}}} {
		s.Configure(list[0], list[1:]...)
		got, err := s.Read(ForMail, was, now)
		if step < 2 && (err != nil || got != nonce) || step == 2 && err != ErrForged {
			t.Errorf("step %d: %q, %v", step, got, err)
		}
		if s.Sign(ForMail, nonce, now) != NewSigner(list[0]).Sign(ForMail, nonce, now) {
			t.Errorf("step %d: another secret than the first one signs", step)
		}
		if n := len(*s.secrets.Load()); step == 2 && n != 1 {
			t.Errorf("%d secrets: an empty one is honoured", n)
		}
	}
}

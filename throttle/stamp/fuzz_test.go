package stamp

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzParseChallenge: what decodes is written in exactly one way.
func FuzzParseChallenge(f *testing.F) {
	o := NewIssuer(Parts{})
	for _, alg := range Algorithms {
		c, err := o.Issue(start, ask(alg, 1<<12))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(c)
	}
	f.Add("")
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseChallenge(text)
		if err != nil {
			return
		}
		b := c.appendHead(nil)
		b = append(append(b, byte(len(c.Data))), c.Data...)
		b = append(b, c.tag[:]...)
		if again := encoding.EncodeToString(b); again != text {
			t.Fatalf("%q is read and written %q", text, again)
		}
	})
}

// FuzzVerify: nothing but the stamps that were made is accepted, whatever comes.
func FuzzVerify(f *testing.F) {
	o := NewIssuer(Parts{Keys: NewKeyring(1<<40, []byte("fuzz"))})
	a := ask(SHA256K, 1<<12)
	for _, alg := range Algorithms {
		b := a
		b.Algorithm = alg
		s := solved(f, o, b)
		f.Add(s)
		f.Add(s[:len(s)-1])
		f.Add(strings.Replace(s, ".", "..", 1))
	}
	d := demand(a)
	d.Covers = 1 << 30
	f.Fuzz(func(t *testing.T, s string) {
		r, err := o.Verify(bg, start, s, d)
		if err == nil {
			if c, err := ParseChallenge(strings.Split(s, ".")[0]); err != nil || c.Nonce != r.Nonce ||
				c.Client != a.Client {
				t.Fatalf("%q is accepted: %v", s, err)
			}
		}
	})
}

// FuzzParseWork: what is read can be written and read again.
func FuzzParseWork(f *testing.F) {
	for _, s := range []string{"16 bits", "65536", "1.5 bits", "0", "999999999999999999999 bits", ". bits"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		w, err := ParseWork(s)
		if err != nil {
			return
		}
		if again, err := ParseWork(w.String()); err != nil || again != w || w > MaxWork {
			t.Fatalf("%q is %d, then %d, %v", s, w, again, err)
		}
	})
}

// FuzzMailStamp: nothing is accepted twice, nor for somebody else.
func FuzzMailStamp(f *testing.F) {
	d := newMailIssuer(f, SHA256K, 1<<12)
	l := MailBinding{Message: "m", Recipient: "a@example.com"}
	good := mailStampFor(f, d.Params(start), l)
	f.Add(good)
	f.Add(FoldMailHeader(good))
	f.Add(good[:len(good)-2])
	other := MailBinding{Message: "m", Recipient: "b@example.com"}
	f.Fuzz(func(t *testing.T, s string) {
		_, foreign := d.Verify(bg, start, s, other)
		if foreign == nil {
			t.Fatalf("%q is accepted for somebody else", s)
		}
		if _, err := d.Verify(bg, start, s, l); err != nil {
			return
		}
		if _, err := d.Verify(bg, start, s, l); err != ErrReplayed || foreign != ErrForeign {
			t.Fatalf("%q is accepted; then %v, and for somebody else %v", s, err, foreign)
		}
	})
}

// FuzzMailParams: what is read can be written and read again.
func FuzzMailParams(f *testing.F) {
	f.Add([]byte(`{"version":1,"algorithm":"sha256-k","work":1048576,"hour":492348,"seed":"mHWmV2sHmHrgI1rhhS6Hpg"}`))
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p, again MailParams
		if json.Unmarshal(data, &p) != nil {
			return
		}
		text, err := json.Marshal(p)
		if err == nil {
			err = json.Unmarshal(text, &again)
		}
		if err != nil || again != p {
			t.Fatalf("%s is %+v, then %+v, %v", data, p, again, err)
		}
	})
}

package store

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestMailIDs(t *testing.T) {
	now := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	ids := MailIDs{Start: [2]byte{0xff, 0xff}}
	seen, last := map[MailID]bool{}, MailID(0)
	for i := range 1000 {
		id := ids.Next(now.Add(time.Duration(i) * time.Millisecond))
		if !id.Valid() || seen[id] || id <= last {
			t.Fatalf("%s after %s", id, last)
		}
		seen[id], last = true, id
		if back, err := ParseMailID(strings.ToLower(id.String())); err != nil || back != id {
			t.Fatalf("%s is read as %s (%v)", id, back, err)
		}
	}
	for _, at := range []time.Time{{}, time.Unix(-1, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if id := ids.Next(at); !id.Valid() {
			t.Errorf("at %s it is %d", at, id)
		}
	}
	for id, valid := range map[MailID]bool{0: false, 1: true, 1<<63 - 1: true, 1 << 63: false, 1<<64 - 1: false} {
		if id.Valid() != valid {
			t.Errorf("%d is valid: %t", id, id.Valid())
		}
	}
	for _, text := range []string{"", "0", "00000000000000", "G000000000000", "000000000000U", "000000000000ü",
		strings.Repeat("0", 1_000_000)} {
		if id, err := ParseMailID(text); !errors.Is(err, ErrInvalid) || len(err.Error()) > 300 {
			t.Errorf("%.20q is read as %s (%.300v)", text, id, err)
		}
	}
}

func FuzzParseMailID(f *testing.F) {
	for _, seed := range []string{"0000000000000", "FZZZZZZZZZZZZ", "0CNK1AYS00001", "g000000000000", "0CNK1AYS0000I",
		"", "0CNK1AYS0000\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseMailID(text)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || len(err.Error()) > 400 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if id.String() != strings.ToUpper(text) {
			t.Errorf("%q is %s", text, id)
		}
		var back MailID
		if err := back.UnmarshalText([]byte(id.String())); err != nil || back != id {
			t.Errorf("%s is read as %s (%v)", id, back, err)
		}
	})
}

func TestStates(t *testing.T) {
	for _, s := range States {
		var back State
		if text, err := s.MarshalText(); err != nil || back.UnmarshalText(text) != nil || back != s || !s.Valid() {
			t.Errorf("%s is read as %s", text, back)
		}
	}
	var s State
	for _, text := range []string{"", "state(0)", "READY", strings.Repeat("x", 1000)} {
		if err := s.UnmarshalText([]byte(text)); !errors.Is(err, ErrInvalid) || len(err.Error()) > 200 {
			t.Error(err)
		}
	}
	if State(0).Valid() || State(7).Valid() || State(7).String() != "state(7)" {
		t.Error("what is no state passes for one")
	}
}

func TestMailAsJSON(t *testing.T) {
	at := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	q := Queued{Message{ID: 1, Gate: "g", User: "ann", Sender: "ann@example.org", Subject: "Hi", Received: at, Size: 5,
		Filed: "secret"},
		[]Addressee{{Mail: 1, Address: "bob@example.org", State: Held}}}
	want := `{"id":"0000000000001","gate":"g","user":"ann","sender":"ann@example.org","subject":"Hi","received":"2026-03-02T00:00:00Z","size":5,` +
		`"to":[{"mail":"0000000000001","number":0,"address":"bob@example.org","state":"held","attempt":0}]}`
	got, err := json.Marshal(q)
	if err != nil || string(got) != want {
		t.Errorf("%s, want\n%s (%v)", got, want, err)
	}
	var back Queued
	if err := json.Unmarshal(got, &back); err != nil || len(back.To) != 1 || back.To[0] != q.To[0] {
		t.Errorf("%+v (%v)", back, err)
	}
	if got, err := json.Marshal(User{Name: "ann", Password: "$argon2id$", Made: at, Changed: at}); err != nil ||
		strings.Contains(string(got), "argon") {
		t.Errorf("%s (%v)", got, err)
	}
}

// What is wrong is told without showing what may be a secret.
func TestMistakesInMailShowNoSecret(t *testing.T) {
	secret := "s3cr3t\x00"
	for _, err := range []error{
		(&User{Name: "ann", Password: secret}).Validate(), (&User{Name: secret}).Validate(),
		(&Ticket{Nonce: secret, User: "a"}).Validate(),
		(&Memory{Throttle: "t", User: secret}).Validate(), (&Sketch{Throttle: "t", User: secret}).Validate(),
		CheckKnown("t", secret, nil),
		(&Message{ID: 1, Gate: "g", Subject: secret}).Validate(),
		(&Addressee{Mail: 1, Address: secret, State: Ready}).Validate(),
		(&Entry{By: "a", What: "b", Text: secret}).Validate(),
	} {
		if !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "s3cr3t") {
			t.Error(err)
		}
	}
}

package admission

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"
)

func ticket() Ticket {
	return Ticket{Number: 1234567, Issued: epoch, By: epoch.Add(12 * time.Second), Client: "client-1"}
}

func TestTicketComesBack(t *testing.T) {
	tickets := NewTickets([]byte("secret"))
	for _, client := range []string{"client-1", "", strings.Repeat("x", MaxClient)} {
		want := ticket()
		want.Client = client
		text := tickets.Sign(want)
		if len(text) == 0 || len(text) > MaxTicket {
			t.Fatalf("%d characters", len(text))
		}
		for _, now := range []time.Time{epoch, want.By} {
			got, err := tickets.Parse(text, client, now)
			if err != nil || got.Number != want.Number || !got.Issued.Equal(want.Issued) || !got.By.Equal(want.By) ||
				got.Client != client {
				t.Errorf("%+v, %v", got, err)
			}
		}
		if _, err := NewTickets([]byte("secret")).Parse(text, client, epoch); err != nil {
			t.Errorf("another with the same key: %v", err)
		}
	}
	if text := tickets.Sign(Ticket{Client: strings.Repeat("x", MaxClient+1)}); text != "" {
		t.Errorf("signed %q", text)
	}
	if len(tickets.Sign(Ticket{Client: strings.Repeat("x", MaxClient)})) != MaxTicket {
		t.Error("MaxTicket is not the length of the longest")
	}
}

func TestTicketRefused(t *testing.T) {
	tickets := NewTickets([]byte("secret"))
	good := tickets.Sign(ticket())
	late := ticket().By.Add(time.Millisecond)
	for name, c := range map[string]struct {
		text, client string
		now          time.Time
		want         error
	}{
		"empty":         {"", "client-1", epoch, ErrTicketMalformed},
		"short":         {good[:20], "client-1", epoch, ErrTicketMalformed},
		"cut":           {good[:len(good)-4], "client-1", epoch, ErrTicketMalformed},
		"longer":        {good + "AAAA", "client-1", epoch, ErrTicketMalformed},
		"too long":      {strings.Repeat("A", MaxTicket+1), "client-1", epoch, ErrTicketMalformed},
		"padded":        {good + "=", "client-1", epoch, ErrTicketMalformed},
		"line end":      {good[:4] + "\n" + good[4:], "client-1", epoch, ErrTicketMalformed},
		"other version": {"Ag" + good[2:], "client-1", epoch, ErrTicketMalformed},
		"other key":     {NewTickets([]byte("other")).Sign(ticket()), "client-1", epoch, ErrTicketForged},
		"random key":    {NewTickets(nil).Sign(ticket()), "client-1", epoch, ErrTicketForged},
		"other client":  {good, "client-2", epoch, ErrTicketForeign},
		"no client":     {good, "", epoch, ErrTicketForeign},
		"late":          {good, "client-1", late, ErrTicketLapsed},
	} {
		if got, err := tickets.Parse(c.text, c.client, c.now); !errors.Is(err, c.want) || got != (Ticket{}) {
			t.Errorf("%s: %+v, %v, want %v", name, got, err, c.want)
		}
	}
}

// A ticket with any bit turned is none, and neither is what is signed with the same secret for something else.
func TestTicketForged(t *testing.T) {
	tickets := NewTickets([]byte("secret"))
	good, err := ticketText.DecodeString(tickets.Sign(ticket()))
	must(t, err)
	for bit := range 8 * len(good) {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		_, err := tickets.Parse(ticketText.EncodeToString(b), "client-1", epoch)
		if !errors.Is(err, ErrTicketForged) && !errors.Is(err, ErrTicketMalformed) {
			t.Errorf("bit %d: %v", bit, err)
		}
	}
	plain := hmac.New(sha256.New, []byte("secret"))
	plain.Write(good[:len(good)-ticketTag])
	b := append(bytes.Clone(good[:len(good)-ticketTag]), plain.Sum(nil)[:ticketTag]...)
	if _, err := tickets.Parse(ticketText.EncodeToString(b), "client-1", epoch); !errors.Is(err, ErrTicketForged) {
		t.Error("the secret itself signs tickets")
	}
}

func TestIssueAndRenew(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1, Reload: 3e9})
	a, b := r.l.Issue("a", r.now), r.l.Issue("b", r.now)
	if b.Number <= a.Number || a.Client != "a" || !a.Issued.Equal(r.now) || !a.By.Equal(r.now.Add(8*time.Second)) {
		t.Errorf("%+v, %+v", a, b)
	}
	again := r.l.Renew(a, r.now.Add(5*time.Second))
	if again.Number != a.Number || !again.Issued.Equal(a.Issued) || !again.By.Equal(r.now.Add(13*time.Second)) {
		t.Errorf("%+v", again)
	}
	// After a restart, numbers are larger than all before.
	after, err := New(Options{Concurrent: 1}, epoch.Add(time.Second))
	must(t, err)
	if after.Number(epoch.Add(time.Second)) <= b.Number {
		t.Error("somebody who comes after a restart goes before those who came earlier")
	}
}

// FuzzTicket: whatever comes, nothing but what was signed is a ticket, and it is written in exactly one way.
func FuzzTicket(f *testing.F) {
	tickets := NewTickets([]byte("secret"))
	good := tickets.Sign(ticket())
	for _, s := range []string{good, good[:len(good)-1], good + "A", "", "AQ", strings.Repeat("A", MaxTicket)} {
		f.Add(s, "client-1")
	}
	f.Fuzz(func(t *testing.T, text, client string) {
		k, err := tickets.Parse(text, client, epoch)
		if err == nil && (text != good || client != "client-1" || k.Number != ticket().Number) {
			t.Fatalf("%q of %q is accepted: %+v", text, client, k)
		}
		// What the client is called does not get into the other fields.
		if text := tickets.Sign(Ticket{Number: 7, By: epoch, Client: client}); text != "" {
			if k, err := tickets.Parse(text, client, epoch); err != nil || k.Number != 7 || k.Client != client {
				t.Fatalf("%q: %+v, %v", client, k, err)
			}
			if _, err := tickets.Parse(text, client+"x", epoch); !errors.Is(err, ErrTicketForeign) {
				t.Fatalf("%q: %v", client, err)
			}
		}
	})
}

// TestTicketsOfOldSecrets are good while these are listed. The first secret signs.
func TestTicketsOfOldSecrets(t *testing.T) {
	a, b := []byte("the old one"), []byte("the new one")
	was := NewTickets(a).Sign(ticket())
	for name, c := range map[string]struct {
		tickets *Tickets
		want    error
	}{
		"before":  {NewTickets(a, b), nil},
		"after":   {NewTickets(b, a), nil},
		"dropped": {NewTickets(b), ErrTicketForged},
		"empty":   {NewTickets(b, nil, []byte{}), ErrTicketForged},
	} {
		if _, err := c.tickets.Parse(was, ticket().Client, epoch); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if NewTickets(b, a).Sign(ticket()) != NewTickets(b).Sign(ticket()) {
		t.Error("an old secret signs")
	}
	if nobodys := NewTickets(nil, nil); len(nobodys.keys) != 1 {
		t.Error("an empty secret is honoured")
	}
}

package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"weir/internal/words"
	"weir/mail/spool"
	"weir/store"
)

// forms signs forms, so that forms of others are recognised.
type forms struct{ key []byte }

func newForms(secret []byte) forms {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("weir: pages of mail users"))
	return forms{m.Sum(nil)}
}

// sign binds texts to a ticket.
func (f forms) sign(purpose, ticket string, texts ...string) string {
	m := hmac.New(sha256.New, f.key)
	for _, t := range append([]string{purpose, ticket}, texts...) {
		m.Write(binary.BigEndian.AppendUint32(nil, uint32(len(t))))
		m.Write([]byte(t))
	}
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil)[:16])
}

// A form is what identifies a genuine form.
type form struct{ Nonce, Token string }

func (f forms) fresh(ticket string) form {
	nonce := rand.Text()
	return form{nonce, f.sign("form", ticket, nonce)}
}

// genuine reports whether a form was made here, for this ticket.
func (f forms) genuine(ticket string, sent form) bool {
	return len(sent.Nonce) <= maxTicket && hmac.Equal([]byte(sent.Token), []byte(f.sign("form", ticket, sent.Nonce)))
}

// A result is what a user is told after an action.
type result struct {
	Code string
	N    int
	Text string // what a SelfServiceBackend said
}

// What a result can be about.
const (
	saidReleased = "released"
	saidFlagged  = "flagged" // released, and the flag still holds
	saidDeleted  = "deleted"
	saidResumed  = "resumed"
	saidPassword = "password"
	saidContact  = "contact"
	saidTwice    = "twice"
	saidNothing  = "nothing"
	saidWrong    = "wrong"
	saidLate     = "late"
	saidUnequal  = "unequal"
	saidLength   = "length"
	saidAddress  = "address"
	saidLanguage = "language"
	saidText     = "text"

	saidLink      = "link"
	saidNoContact = "no-contact"
)

// maxSaid bounds the text of a result in an address.
const maxSaid = 1024

// write makes a result part of an address, so that the page after a form can be reloaded. It is signed: otherwise a
// link could show a user any text on their own page.
func (f forms) write(ticket string, r result) string {
	text := r.Text[:min(len(r.Text), maxSaid/2)]
	said := r.Code + "." + strconv.Itoa(r.N) + "." + base64.RawURLEncoding.EncodeToString([]byte(text))
	return said + "." + f.sign("said", ticket, said)
}

// read reads what write wrote; nil for anything else.
func (f forms) read(ticket, text string) *result {
	cut := strings.LastIndexByte(text, '.')
	if cut < 0 || len(text) > maxSaid || !hmac.Equal([]byte(text[cut+1:]), []byte(f.sign("said", ticket, text[:cut]))) {
		return nil
	}
	parts := strings.Split(text[:cut], ".")
	if len(parts) != 3 {
		return nil
	}
	n, err := strconv.Atoi(parts[1])
	said, err2 := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || err2 != nil {
		return nil
	}
	return &result{parts[0], n, strings.ToValidUTF8(string(said), "")}
}

// Bad reports whether the action failed.
func (r *result) Bad() bool {
	switch r.Code {
	case saidReleased, saidFlagged, saidDeleted, saidResumed, saidPassword, saidLanguage, saidLink:
		return false
	}
	return true
}

// An ask is a form that a user sent.
type ask struct {
	do                     string
	form                   form
	mails                  []store.MailID
	upTo                   store.MailID
	password, fresh, again string
	contact, language      string
}

// errForm is returned for values that no form of ours sends.
var errForm = errors.New("the form makes no sense")

func readAsk(v url.Values) (a ask, err error) {
	a = ask{
		do: v.Get("do"), form: form{v.Get("form"), v.Get("token")},
		password: v.Get("password"), fresh: v.Get("new"), again: v.Get("again"),
		contact: strings.TrimSpace(v.Get("contact")), language: v.Get("language"),
	}
	if last := v.Get("upto"); last != "" {
		if a.upTo, err = store.ParseMailID(last); err != nil {
			return a, errForm
		}
	}
	for _, text := range v["mail"] {
		id, err := store.ParseMailID(text)
		if err != nil || len(a.mails) >= MaxMailOrder {
			return a, errForm
		}
		if !slices.Contains(a.mails, id) { // there are few: a form is short
			a.mails = append(a.mails, id)
		}
	}
	return a, nil
}

// fromElsewhere reports whether a page of another site sent a form. Our Referrer-Policy makes browsers send the origin
// null. Then the token alone shows that the form is ours.
func fromElsewhere(r *http.Request, base string) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" || origin == "null" {
		return false
	}
	sent, err := url.Parse(origin)
	if err != nil {
		return true
	}
	ours, err := url.Parse(base)
	return sent.Host != r.Host && (err != nil || sent.Host != ours.Host)
}

// maxForm is how long a form may be.
const maxForm = 64 << 10

// submit carries out a form and sends the user back to their page.
func (s *SelfService) submit(w http.ResponseWriter, r *http.Request) {
	ticket := r.PathValue("ticket")
	if !ticketLike(ticket) {
		s.fail(w, r, notGenuine)
		return
	}
	v, ok := s.readForm(w, r, ticket)
	if !ok {
		return
	}
	a, err := readAsk(v)
	switch {
	case err != nil:
		s.fail(w, r, noSense)
	case a.do == "ask-delete" || a.do == "ask-delete-all":
		s.confirm(w, r, ticket, a)
	default:
		said, err := s.do(r, ticket, a)
		if err != nil {
			s.fail(w, r, s.wrongOf(r, err))
			return
		}
		s.count("done")
		// The link ends with the change: the holder of the old address must not act any more.
		if said.Code == saidContact {
			s.tell(w, s.spoken(r, ""), contactChanged)
			return
		}
		s.sendBack(w, ticket, said)
	}
}

// do carries out a genuine form, and returns what the user is told.
func (s *SelfService) do(r *http.Request, ticket string, a ask) (said result, err error) {
	ctx := r.Context()
	var c spool.Action
	switch a.do {
	case "release":
		c.Release = a.mails
	case "release-all":
		c.ReleaseAll, c.UpTo = true, a.upTo
	case "delete":
		c.Delete = a.mails
	case "delete-all":
		c.DeleteAll, c.UpTo = true, a.upTo
	case "resume":
		c.Resume = true
	case "password":
		if a.fresh != a.again {
			return result{Code: saidUnequal}, nil
		}
		if checkPassword(a.fresh) != nil {
			return result{Code: saidLength, N: MaxPassword}, nil
		}
		if len(a.password) > MaxPassword {
			return result{Code: saidWrong}, nil
		}
		return told(result{Code: saidPassword}, s.backend.ChangePassword(ctx, ticket, a.password, a.fresh))
	case "contact":
		if checkLine("contact", a.contact, maxAddress, false) != nil || !strings.Contains(a.contact, "@") {
			return result{Code: saidAddress}, nil
		}
		if len(a.password) > MaxPassword {
			return result{Code: saidWrong}, nil
		}
		return told(result{Code: saidContact}, s.backend.ChangeContact(ctx, ticket, a.password, a.contact))
	case "language":
		if a.language != "" && words.Find(a.language) == nil {
			return said, errForm
		}
		return told(result{Code: saidLanguage}, s.backend.ChangeLanguage(ctx, ticket, a.language))
	default:
		return said, errForm
	}
	if (a.do == "release" || a.do == "delete") && len(a.mails) == 0 {
		return result{Code: saidNothing}, nil
	}
	out, err := s.backend.Act(ctx, ticket, a.form.Nonce, c)
	switch {
	case c.Resume:
		said = result{Code: saidResumed, N: out.Held}
	case c.ReleaseAll, len(c.Release) > 0:
		said = result{Code: saidReleased, N: out.Released}
		if out.Flagged {
			said.Code = saidFlagged
		}
	default:
		said = result{Code: saidDeleted, N: out.Deleted}
	}
	return told(said, err)
}

// told turns errors that a user can act on into results.
func told(done result, err error) (result, error) {
	if e, known := errors.AsType[*Error](err); known {
		return result{Code: saidText, Text: e.Msg}, nil
	}
	switch {
	case errors.Is(err, ErrTwice):
		return result{Code: saidTwice}, nil
	case errors.Is(err, ErrPassword):
		return result{Code: saidWrong}, nil
	case errors.Is(err, ErrLate):
		return result{Code: saidLate}, nil
	case err != nil:
		return result{}, fmt.Errorf("a form: %w", err)
	}
	return done, nil
}

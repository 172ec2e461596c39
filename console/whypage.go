package console

import (
	_ "embed"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"weir"
	"weir/console/access"
	"weir/store"
)

//go:embed whypage.html
var whyHTML string

// Bounds of what the page looks up and shows.
const (
	maxSought   = 256
	maxWhyBans  = 20
	maxWhyGates = 20
	maxWhyMails = 20
	maxWhyTimes = 20 // refusals
)

// whyPage finds what weir knows of somebody, and what can be done about it.
func whyPage() *page {
	return newPage(page{path: "why", name: "Why", role: access.View, show: showWhy}, whyHTML)
}

// A whyShown is what is known of what was sought.
type whyShown struct {
	Sought  string
	Wrong   string
	Found   bool
	Address bool // it is an address, a network or a client, which can be banned
	Banned  bool // by itself
	Account *Account
	Bans    []Ban
	More    int // bans that are not shown
	User    *UserView
	Reach   []ReachView
	Flagged bool
	Mails   []MailLine // of the user
	Mail    *MailView
	CanAct  bool // on the message
	Answers []whyAnswer
	// The last refusals of who was sought, or the one with this request id.
	Refusals []Refusal
}

// A whyAnswer is what would happen at a gate now.
type whyAnswer struct {
	Explanation
	Word string
}

func showWhy(v *visit) (any, error) {
	s := &whyShown{Sought: strings.TrimSpace(v.query.Get("q"))}
	if s.Sought == "" {
		return s, nil
	}
	if err := checkLine("search", s.Sought, maxSought, false); err != nil {
		s.Wrong, s.Sought = err.Error(), ""
		return s, nil
	}
	for _, look := range []func(*visit) error{s.lookForAccount, s.lookForBans, s.lookForUser, s.lookForReach,
		s.lookForMail, s.lookForRefusals} {
		if err := look(v); err != nil && !unknown(err) {
			return nil, err
		}
	}
	s.Found = s.Account != nil || len(s.Bans) > 0 || s.User != nil || len(s.Reach) > 0 || s.Mail != nil ||
		len(s.Refusals) > 0
	if s.Mail == nil && s.User == nil && !s.request() {
		s.ask(v)
	}
	return s, nil
}

// unknown reports whether an error says that there is no such thing, or that it cannot be one.
func unknown(err error) bool {
	e, known := errors.AsType[*Error](err)
	return known && (e.Code == http.StatusNotFound || e.Code == http.StatusBadRequest)
}

func (s *whyShown) lookForAccount(v *visit) error {
	a, err := AccountGetCall.on(v.Request, Name{s.Sought})
	if err == nil {
		s.Account = &a
	}
	return err
}

func (s *whyShown) lookForBans(v *visit) error {
	key, err := store.ParseBanKey(s.Sought)
	if err != nil {
		return nil
	}
	s.Address = true
	page, err := BansCall.on(v.Request, BanQuery{Filter: s.Sought, Limit: maxWhyBans})
	s.Bans, s.More = page.Bans, page.Total-len(page.Bans)
	s.Banned = slices.ContainsFunc(page.Bans, func(b Ban) bool { return b.Who == key.String() })
	return err
}

func (s *whyShown) lookForUser(v *visit) error {
	u, err := UserShowCall.on(v.Request, Name{s.Sought})
	if err != nil {
		return err
	}
	s.User = &u
	page, err := QueueListCall.on(v.Request, MailQuery{MailFilter: MailFilter{User: u.Name}, Limit: maxWhyMails})
	s.Mails = page.Mails
	return err
}

func (s *whyShown) lookForReach(v *visit) error {
	found, err := ReachShowCall.on(v.Request, ReachName{Name: s.Sought})
	s.Reach = found.Throttles
	s.Flagged = slices.ContainsFunc(s.Reach, func(r ReachView) bool { return r.Flagged })
	return err
}

func (s *whyShown) lookForMail(v *visit) error {
	id, err := store.ParseMailID(s.Sought)
	if err != nil {
		return nil
	}
	m, err := QueueShowCall.on(v.Request, MailName{id})
	if err == nil {
		s.Mail = &m
		s.CanAct = slices.ContainsFunc(m.To, func(a store.Addressee) bool {
			return a.State == store.Held || a.State == store.Delayed || a.State == store.Withheld
		})
	}
	return err
}

// lookForRefusals finds refusals by the request id that they showed, and by who was refused. Refusals name an account
// as the access log does.
func (s *whyShown) lookForRefusals(v *visit) error {
	queries := []RefusalQuery{{ID: s.Sought}, {Who: s.Sought}}
	if s.Account != nil {
		queries = append(queries, RefusalQuery{Who: s.Account.Logged})
	}
	for _, q := range queries {
		q.Limit = maxWhyTimes
		page, err := RefusalsListCall.on(v.Request, q)
		if err != nil {
			return err
		}
		if s.Refusals = page.Refusals; len(s.Refusals) > 0 {
			return nil
		}
	}
	return nil
}

// request reports whether what was sought is the id of a request.
func (s *whyShown) request() bool { return len(s.Refusals) > 0 && s.Refusals[0].ID == s.Sought }

// ask asks the gates what would happen to a plain request now. A gate that cannot be asked like this is left out.
func (s *whyShown) ask(v *visit) {
	q := Question{Method: http.MethodGet, Path: "/", Account: s.Sought}
	if addr, err := netip.ParseAddr(s.Sought); err == nil {
		q.Account, q.Source = "", addr.String()
	}
	if id, client := strings.CutPrefix(s.Sought, "client:"); client {
		q.Account, q.Client = "", id
	}
	for _, g := range v.status().Gates {
		if len(s.Answers) == maxWhyGates {
			return
		}
		q.Gate = g.Gate
		e, err := WhyAskCall.on(v.Request, q)
		if err != nil {
			continue
		}
		word := "good"
		if e.Verdict != weir.Admit {
			word = "bad"
		}
		s.Answers = append(s.Answers, whyAnswer{e, word})
	}
}

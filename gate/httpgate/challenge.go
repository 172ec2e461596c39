package httpgate

import (
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	"weir"
	"weir/admission"
	"weir/gate/httpgate/pages"
	"weir/gate/refusal"
	"weir/identify"
	"weir/internal/words"
)

// clientAge is how long a browser keeps the id that it was given.
const clientAge = 30 * 24 * time.Hour

// ticket reads the ticket that the request brought.
func (x *exchange) ticket() {
	texts := x.brought(x.setup.ticket)
	if text := x.r.Header.Get(pages.TicketHeader); text != "" {
		texts = []string{text}
	}
	for _, text := range texts {
		if t, err := x.setup.tickets.Parse(text, x.payer(), x.event.Time); err == nil {
			x.place, x.event.Place.Number = t, t.Number
			return
		}
	}
	// Without one that is good, the client is asked for a stamp, and gets a new ticket.
}

// payer identifies the client: the id that it was given, or its address.
func (x *exchange) payer() string {
	return cmp.Or(x.event.Client, identify.AddressID(x.event.Source))
}

// Take reports whether the general pool takes a request that a stamp is asked of. A browser that would have to wait
// gets the page instead, which pays by itself and shows the place in line.
func (x *exchange) Take() bool {
	if x.setup.chain.StampTakerLink().Shadow.Load() { // nothing is asked
		return false
	}
	s, ok := x.setup.lanes.Take(&x.event,
		admission.Taking{Covers: x.terms.Covers, AtOnce: pages.WantsPage(x.fields), Always: x.terms.Always},
		x.gate.env.Clock.Now())
	x.standing = s
	if x.event.Place.Number == 0 { // there was none, or it is used up
		x.place = admission.Ticket{}
	}
	if x.event.Place.Called && x.place.By.Before(s.Until) {
		x.place.By, x.renewed = s.Until, true // for what the page loads
	}
	return ok
}

// pooled reports whether a client that does not pay may wait instead: if the stamp is asked because of the load, and
// not because of a limit of the client's own.
func (x *exchange) pooled() bool {
	return x.setup.lanes != nil && x.setup.chain.ByStampTaker(&x.pass.Answer)
}

// dropped reports whether the general pool took the request and could not keep it. It is then asked for a stamp.
func (x *exchange) dropped() bool {
	a := &x.pass.Answer
	return x.event.Place.Held && x.setup.chain.ByLanes(a) &&
		(a.Reason == weir.LineFull || a.Reason == weir.WaitTooLong || a.Reason == weir.TooMany)
}

// A demand is a problem document with a puzzle.
type demand struct {
	refusal.Refusal
	Challenge string `json:"challenge"`
	Algorithm string `json:"algorithm"`
	Work      uint64 `json:"work"`
	TakesMS   int64  `json:"takes_ms"` // about, on a phone
	Ticket    string `json:"ticket,omitempty"`
	Ahead     *int   `json:"ahead,omitempty"`
	WaitS     int64  `json:"wait_s,omitempty"` // the estimate for the place in line
}

// challenge asks for a stamp, and gives a ticket for the general pool to clients that cannot pay.
func (x *exchange) challenge() {
	a := &x.pass.Answer
	page := pages.WantsPage(x.fields)
	if x.pooled() && x.event.Place.Number == 0 {
		x.setup.lanes.TurnedAway(&x.event, x.gate.env.Clock.Now())
	}
	client := x.event.Client
	if page && !x.terms.Address {
		if client == "" {
			client, x.clientCookie = x.setup.clients.New(x.event.Time)
		}
		x.give(pages.ClientCookie, x.clientCookie, clientAge) // again: another host may have set it, for this path only
	}
	message := ""
	if x.terms.Binds {
		message = x.message()
	}
	var form *pages.Form
	lost := words.Text("")
	if page {
		form, lost = x.repeatable()
	}
	if err := x.bodyErr.Load(); err != nil {
		x.failedByClient(*err)
		return
	}
	puzzle, err := x.setup.taker.Ask(&x.event, client, message)
	if err != nil {
		x.gate.env.Log.Error("no puzzle could be made", "id", x.event.ID, "err", err)
		x.refuse(&weir.Answer{Verdict: weir.Refuse, Reason: weir.Failure, Figure: weir.Figure{By: a.By, Rule: a.Rule}})
		return
	}
	x.event.Client = client
	if x.pooled() && !puzzle.Dear {
		x.setup.lanes.Asked(puzzle.Work)
	}
	ticket := x.renewTicket()
	doc := x.document(a)
	if x.pooled() {
		doc.RetryAfter = refusal.WholeSeconds(x.standing.Reload)
	}
	h := x.w.Header()
	h.Set("X-Robots-Tag", "noindex")
	h.Set(pages.ChallengeHeader, puzzle.Text)
	if ticket != "" {
		h.Set(pages.TicketHeader, ticket)
	}
	doc.RequestID = x.event.ID
	if page {
		room := x.room(&puzzle, message, form, lost)
		x.answerPage(&doc, pages.RoomPolicy, room.Look, x.gate.rooms.Render(room))
		return
	}
	out := demand{Refusal: doc, Challenge: puzzle.Text, Algorithm: puzzle.Algorithm, Work: puzzle.Work,
		TakesMS: puzzle.Takes.Milliseconds(), Ticket: ticket}
	if x.standing.State == admission.InLine && x.event.Place.Number != 0 {
		out.Ahead, out.WaitS = &x.standing.Ahead, refusal.WholeSeconds(x.standing.Estimate)
	}
	body, _ := json.Marshal(&out)
	x.answerBytes(&out.Refusal, "application/problem+json", append(body, '\n'))
}

// renewTicket signs the ticket anew, or a new one, and gives it to the client.
func (x *exchange) renewTicket() string {
	if !x.pooled() {
		return ""
	}
	t := x.place
	if t.Number == 0 {
		t = x.setup.lanes.Issue(x.payer(), x.event.Time)
	} else {
		t.Client = x.payer()
		t = x.setup.lanes.Renew(t, x.event.Time)
	}
	x.standing.Reload = cmp.Or(x.standing.Reload, x.setup.opts.Capacity.Reload.Std())
	if x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		t.By = t.By.Add(formPatience) // somebody has to press a button
	}
	text := x.setup.tickets.Sign(t)
	x.give(x.setup.ticket, text, t.By.Sub(x.event.Time))
	return text
}

// formPatience is how much longer a place is kept for somebody who sends a form by hand.
const formPatience = time.Minute

// repeatable returns the form that the page can send again as it was, if any. If something else was sent, it says why
// that cannot be sent again.
func (x *exchange) repeatable() (form *pages.Form, lost words.Text) {
	switch x.r.Method {
	case http.MethodGet, http.MethodHead:
		return nil, ""
	case http.MethodPost:
	default:
		return nil, "What you sent was not kept."
	}
	// Sent again from here, it would come from the site itself, with cookies that other sites cannot send. That would
	// undo the protection by SameSite and by checks of Origin.
	if new(http.CrossOriginProtection).Check(x.r) != nil {
		return nil, "What you sent came from another site, and can only be sent again from there."
	}
	body := x.keep()
	if !x.keptAll {
		return nil, "What you sent is too large to be kept here."
	}
	fields, ok := pages.FormFields(x.r, body)
	if !ok && len(body) > 0 {
		return nil, "What you sent is not a simple form, and was not kept."
	}
	return &pages.Form{Action: x.r.URL.RequestURI(), Fields: fields}, ""
}

// room is the page for a challenge.
func (x *exchange) room(p *weir.Puzzle, message string, form *pages.Form, lost words.Text) *pages.Room {
	cookie, limit, s, look := pages.StampCookie, "", x.standing, x.setup.opts.Pages.Look(x.r)
	if x.terms.Binds {
		cookie = pages.MessageCookie(message)
	}
	if !x.pooled() {
		limit = refusal.Detail(look.Language, &x.pass.Answer)
	}
	return &pages.Room{
		Look:  look,
		Limit: limit, Puzzle: p.Text, Takes: p.Takes, Form: form, Lost: lost, RequestID: x.event.ID,
		Cookie: pages.CookieName(cookie, x.secure()), Secure: x.secure(),
		CookieAge: int(p.Expires.Sub(x.event.Time) / time.Second),
		Cross:     pages.Crosses(x.r), InLine: x.event.Place.Number != 0 && s.State == admission.InLine, Ahead: s.Ahead,
		Estimate: s.Estimate, Reload: s.Reload, Full: s.State == admission.Full, TooMany: s.State == admission.TooMany,
		Assets: x.gate.assets, Dear: p.Dear,
	}
}

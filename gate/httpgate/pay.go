package httpgate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"time"

	"weir"
	"weir/admission"
	"weir/gate/httpgate/pages"
	"weir/identify"
)

// maxKept is how much of a request's body the gate keeps: to recognize a request that a stamp was made for, and to have
// a form sent again.
const maxKept = 64 << 10

// A payment is the part of an exchange for gates that take stamps.
type payment struct {
	terms       weir.Terms
	place       admission.Ticket // the ticket that it brought, if that is good
	standing    admission.Standing
	renewed     bool // the ticket has been renewed, and goes with the answer
	messageID   string
	kept        []byte // the beginning of the body
	keptAll     bool   // it is all of the body
	spentCookie bool   // the stamp came in a cookie that is good for this request only

	clientCookie string // with the client's id
}

// known fills in the load, and where stamps are taken the id that the client was given and what it pays with.
func (x *exchange) known() {
	s := x.setup
	if s.lanes != nil {
		share, delay := s.lanes.Load(x.event.Time)
		x.event.Load = weir.Load{Of: s.of, Share: share, Delay: delay}
		x.event.Holder = x
	}
	if s.taker == nil {
		return
	}
	x.event.Agent = x.full().UserAgent()
	x.payment = &payment{terms: s.taker.Terms()}
	if x.terms.Address {
		x.event.Client = identify.AddressID(x.event.Source)
	} else {
		for _, cookie := range x.brought(pages.ClientCookie) {
			if x.event.Client, _ = x.setup.clients.Read(cookie, x.event.Time); x.event.Client != "" {
				x.clientCookie = cookie
				break
			}
		}
	}
	x.event.Purse = weir.NewPurse(x.pay)
	if s.lanes != nil {
		x.event.Pool = x
		x.ticket()
	}
}

// accepted tells the lanes whether the upstream accepts an account. A redirect may lead to a login, and an error says
// nothing.
func (x *exchange) accepted(status int) {
	good := status >= 200 && status < 300 || status == http.StatusNotModified
	if x.setup.lanes != nil && (good || status == http.StatusUnauthorized || status == http.StatusForbidden) {
		x.setup.lanes.Accepted(x.event.Source, x.event.Account, good, x.event.Time)
	}
}

// pay is called when a throttle asks for payment. A header is the client's own. A cookie may be of somebody else, such
// as a host beside this one: one that is worth nothing is no fault of the client, who is asked for another stamp.
func (x *exchange) pay(ctx context.Context, ev *weir.Event) (paid weir.Paid, refund func()) {
	stamp := x.r.Header.Get(pages.StampHeader)
	name, message := pages.StampCookie, ""
	if x.terms.Binds && (stamp != "" || strings.Contains(strings.Join(x.r.Header["Cookie"], ";"), pages.StampCookie)) {
		message = x.message()
		name = pages.MessageCookie(message)
	}
	if paid, refund = x.setup.taker.Receive(ctx, ev, stamp, message); stamp != "" || paid.First() {
		return paid, refund
	}
	for _, stamp := range x.brought(name) {
		x.spentCookie = x.terms.Binds
		if paid, refund = x.setup.taker.Receive(ctx, ev, stamp, message); paid.First() || paid.Fault == weir.Overload {
			return paid, refund
		}
	}
	return weir.Paid{}, nil
}

// message is the id of a request: a hash of method, URL and body. Of a form the fields count and not how they are
// escaped, as a browser that sends a form again may escape it differently. Of a large body the beginning and the length
// count.
func (x *exchange) message() string {
	if x.messageID != "" {
		return x.messageID
	}
	r, h := x.r, sha256.New()
	part := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	part([]byte(r.Method))
	part([]byte(x.event.Route.Host))
	part([]byte(r.URL.RequestURI()))
	body := x.keep()
	if fields, ok := pages.FormFields(r, body); ok && x.keptAll {
		for _, f := range fields {
			part([]byte(f.Name))
			part([]byte(f.Value))
		}
	} else {
		part(body)
		if !x.keptAll {
			part(binary.BigEndian.AppendUint64(nil, uint64(r.ContentLength)))
		}
	}
	x.messageID = base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:24])
	return x.messageID
}

// keep reads the body, or the beginning of a large one, and puts it back for the next reader.
func (x *exchange) keep() []byte {
	if x.kept != nil || !x.hasBody() {
		x.keptAll = x.keptAll || !x.hasBody()
		return x.kept
	}
	r := x.r
	x.readDeadline(time.Now().Add(x.setup.opts.Timeouts.Progress.Std()))
	// The buffer grows with what comes, not with what is announced.
	b := bytes.NewBuffer(make([]byte, 0, bytes.MinRead))
	n, err := io.Copy(b, io.LimitReader(r.Body, maxKept+1))
	x.kept = b.Bytes()
	switch {
	case err != nil:
		x.bodyErr.CompareAndSwap(nil, &err)
	case n <= maxKept:
		x.keptAll = true
		x.bodyRead.Store(true)
		x.readDeadline(time.Time{})
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(x.kept), r.Body), r.Body}
	return x.kept
}

// paymentHeaders are added to every answer: a cookie whose stamp is used is deleted, a renewed ticket is given.
func (x *exchange) paymentHeaders() {
	if x.spentCookie {
		x.give(pages.MessageCookie(x.messageID), "", -time.Second)
	}
	if x.renewed {
		x.give(x.setup.ticket, x.setup.tickets.Sign(x.place), x.place.By.Sub(x.event.Time))
	}
}

// secure reports whether the client came over TLS, as far as the gate can tell.
func (x *exchange) secure() bool {
	return x.r.TLS != nil || x.origin.Proxied && x.fields.Get("X-Forwarded-Proto") == "https"
}

// brought are the values of a cookie of the gate's own, the likeliest first.
func (x *exchange) brought(name string) []string { return pages.Brought(x.r, x.secure(), name) }

// give sets a cookie of the gate's own.
func (x *exchange) give(name, value string, age time.Duration) {
	pages.Give(x.w, x.r, x.secure(), name, value, age)
}

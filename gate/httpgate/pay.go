package httpgate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"weir"
	"weir/admission"
	"weir/identify"
)

// What a client pays with, and what it is given. Cookies are for browsers, headers for everybody else.
const (
	stampHeader     = "Stamp"
	challengeHeader = "Stamp-Challenge"
	ticketHeader    = "Stamp-Ticket"
	clientCookie    = "weir-client"
	stampCookie     = "weir-stamp"
	ticketCookie    = "weir-ticket"
	cookiePrefix    = "weir-"
	crossSuffix     = "-cross" // of a cookie that also goes where those of the site itself do not: see crosses
)

// maxKept is how much of a request's body the gate reads itself: to know it again where a stamp pays for that very
// request, and to have a form sent again.
const maxKept = 64 << 10

// A payment is what an exchange knows where stamps are taken.
type payment struct {
	terms       weir.Terms
	place       admission.Ticket // the ticket that it brought, if that is good
	standing    admission.Standing
	renewed     bool // the ticket has been renewed, and goes with the answer
	messageID   string
	kept        []byte // of the body: what was read of it to know it again
	keptAll     bool   // and that is all of it
	spentCookie bool   // the stamp came in a cookie that is good for this request only
}

// known fills in what the event has to say where stamps are taken: the id that the client was given, the load, what it
// pays with.
func (x *exchange) known() {
	s := x.setup
	if s.lanes != nil {
		share, delay := s.lanes.Load(x.event.Time)
		x.event.Load = weir.Load{Of: s.opts.Listen, Share: share, Delay: delay}
	}
	if s.till == nil {
		return
	}
	x.event.Agent = x.r.UserAgent()
	x.payment = &payment{terms: s.till.Terms()}
	if x.terms.Address {
		x.event.Client = identify.AddressID(x.event.Source)
	} else if id := x.brought(clientCookie); id != "" {
		x.event.Client, _ = x.setup.clients.Read(id, x.event.Time)
	}
	x.event.Purse = weir.NewPurse(x.pay)
	if s.lanes != nil {
		x.event.Pool, x.event.Holder = x, x
		x.breakable() // it may lose its place
		x.ticket()
	}
}

// accepted tells the lanes what the upstream thinks of an account. A redirect may be one to a login, and an error says
// nothing.
func (x *exchange) accepted(status int) {
	good := status >= 200 && status < 300 || status == http.StatusNotModified
	if x.setup.lanes != nil && (good || status == http.StatusUnauthorized || status == http.StatusForbidden) {
		x.setup.lanes.Accepted(x.event.Source, x.event.Account, good, x.event.Time)
	}
}

// pay puts down what the request brought. It is called when a throttle asks for it.
func (x *exchange) pay(ctx context.Context, ev *weir.Event) (weir.Paid, func()) {
	stamp := x.r.Header.Get(stampHeader)
	name, message := stampCookie, ""
	if x.terms.Binds && (stamp != "" || strings.Contains(strings.Join(x.r.Header["Cookie"], ";"), stampCookie)) {
		message = x.message()
		name = messageCookie(message)
	}
	if stamp == "" {
		stamp = x.brought(name)
		x.spentCookie = x.terms.Binds && stamp != ""
	}
	return x.setup.till.Receive(ctx, ev, stamp, message)
}

// messageCookie is the cookie for a stamp that pays for one message only, so that two tabs do not overwrite each
// other's.
func messageCookie(message string) string { return stampCookie + "-" + message[:12] }

// message is the id of what is asked: method, URL and body. A single space more makes another one. Of a form it is the
// fields that count and not how they are escaped, as a browser that sends a form again may escape it in its own way. A
// body of which only the beginning is read is known by that, and by its length.
func (x *exchange) message() string {
	if x.messageID != "" {
		return x.messageID
	}
	r, h := x.r, sha256.New()
	part := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	part([]byte(r.Method))
	part([]byte(x.event.Route.Host))
	part([]byte(r.URL.RequestURI()))
	body := x.keep()
	if fields, ok := formFields(r, body); ok && x.keptAll {
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

// keep reads the body, or its beginning where it is large, and puts it back for whoever reads it next.
func (x *exchange) keep() []byte {
	if x.kept != nil || !x.hasBody() {
		x.keptAll = x.keptAll || !x.hasBody()
		return x.kept
	}
	r := x.r
	x.readDeadline(time.Now().Add(x.setup.opts.Timeouts.Progress.Std()))
	// The buffer grows with what comes, not with what is announced: who sends nothing costs nothing.
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
	r.Body = &keptBody{io.MultiReader(bytes.NewReader(x.kept), r.Body), r.Body}
	return x.kept
}

// A keptBody is a body that begins with what was read of it already.
type keptBody struct {
	io.Reader
	io.Closer
}

// formFields returns the fields of a form, in order, if the body is one that a browser would send again as it was.
// Browsers leave out fields without a name.
func formFields(r *http.Request, body []byte) ([]formField, bool) {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if r.Method != http.MethodPost || !strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded") {
		return nil, false
	}
	var fields []formField
	for pair := range strings.SplitSeq(string(body), "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		f := formField{}
		var errs [2]error
		f.Name, errs[0] = url.QueryUnescape(name)
		f.Value, errs[1] = url.QueryUnescape(value)
		if errors.Join(errs[:]...) != nil || !sendable(f.Name) || !sendable(f.Value) || f.Name == "" {
			return nil, false
		}
		fields = append(fields, f)
	}
	return fields, true
}

// sendable reports whether a browser sends a text again just as it is: it must be without zeros, and break lines as
// forms do. Which charset it is in does not matter: see formField.
func sendable(s string) bool {
	if strings.IndexByte(s, 0) >= 0 {
		return false
	}
	return strings.Count(s, "\r") == strings.Count(s, "\r\n") && strings.Count(s, "\n") == strings.Count(s, "\r\n")
}

// paymentHeaders go with every answer: a cookie whose stamp is used is taken back, and a ticket that was renewed is
// given.
func (x *exchange) paymentHeaders() {
	if x.spentCookie {
		x.give(messageCookie(x.messageID), "", -time.Second)
	}
	if x.renewed {
		x.keepTicket()
	}
}

// secure reports whether the client came over TLS, as far as the gate can tell.
func (x *exchange) secure() bool {
	return x.r.TLS != nil || x.origin.Proxied && x.r.Header.Get("X-Forwarded-Proto") == "https"
}

// give sets a cookie of the gate's own.
func (x *exchange) give(name, value string, age time.Duration) {
	c := http.Cookie{Name: name, Value: value, Path: "/", MaxAge: int(age / time.Second), HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: x.secure()}
	http.SetCookie(x.w, &c)
	if x.crosses() {
		c.Name, c.SameSite, c.Secure, c.Partitioned = name+crossSuffix, http.SameSiteNoneMode, true, true
		http.SetCookie(x.w, &c)
	}
}

// brought is the value of a cookie of the gate's own, or empty.
func (x *exchange) brought(name string) string {
	for _, name := range []string{name, name + crossSuffix} {
		if c, err := x.r.Cookie(name); err == nil {
			return c.Value
		}
	}
	return ""
}

// crosses reports whether cookies that are SameSite=Lax may be of no use to the request: in a frame, which another site
// may show, and with a form that another site sends. Then each has a twin that is partitioned (CHIPS). The twin has a
// name of its own, as a browser that has use for both would send two of the same name. Without TLS there are no such
// cookies, and browsers say nothing of frames and sites.
func (x *exchange) crosses() bool {
	switch x.r.Header.Get("Sec-Fetch-Dest") {
	case "iframe", "frame", "embed", "object":
		return true
	}
	return x.r.Method == http.MethodPost && x.r.Header.Get("Sec-Fetch-Site") == "cross-site" && wantsPage(x.r)
}

// withoutOurs takes out of a request what concerns the gate alone.
func withoutOurs(h http.Header) {
	h.Del(stampHeader)
	h.Del(ticketHeader)
	lines := h["Cookie"]
	if len(lines) == 0 || !strings.Contains(strings.Join(lines, ";"), cookiePrefix) {
		return
	}
	var kept []string
	for _, line := range lines {
		for c := range strings.SplitSeq(line, ";") {
			if c = strings.TrimSpace(c); c != "" && !ours(c) {
				kept = append(kept, c)
			}
		}
	}
	if len(kept) == 0 {
		h.Del("Cookie")
		return
	}
	h["Cookie"] = []string{strings.Join(kept, "; ")}
}

// ours reports whether a cookie is one that the gate gave.
func ours(c string) bool {
	name, _, _ := strings.Cut(c, "=")
	name = strings.TrimSuffix(name, crossSuffix)
	return name == clientCookie || name == ticketCookie || name == stampCookie ||
		strings.HasPrefix(name, stampCookie+"-")
}

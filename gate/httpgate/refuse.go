package httpgate

import (
	"net/http"
	"strings"
	"time"

	"weir"
	"weir/gate/httpgate/pages"
	"weir/gate/refusal"
	"weir/internal/words"
)

// refuse answers a verdict.
func (x *exchange) refuse(a *weir.Answer) { x.answer(x.document(a)) }

// document describes the verdict. A client without an account is told how to name one.
func (x *exchange) document(a *weir.Answer) refusal.Refusal {
	chain := x.setup.chain
	unpayable := a.Verdict == weir.Challenge && x.setup.taker == nil
	doc := refusal.Of(a, x.onward, unpayable || chain.ByStampTaker(a) || chain.ByLanes(a))
	if doc.Status == http.StatusUnauthorized {
		for _, challenge := range x.setup.accounts.Challenges() {
			if x.tokenErr != nil && strings.HasPrefix(challenge, "Bearer ") { // RFC 6750, section 3
				challenge += `, error="invalid_token", error_description="` + quotable.Replace(refusal.Sentence(x.tokenErr)) + `"`
			}
			x.w.Header().Add("WWW-Authenticate", challenge)
		}
	}
	return doc
}

// quotable makes text fit for a quoted string.
var quotable = strings.NewReplacer(`\`, "", `"`, "'")

// problem answers a request that no throttle refused.
func (x *exchange) problem(status int, detail words.Text) {
	x.answer(refusal.Problem(status, string(detail)))
}

// answer writes the refusal as a page for people, and as a problem document for programs.
func (x *exchange) answer(doc refusal.Refusal) {
	doc.RequestID = x.event.ID
	if pages.WantsPage(x.fields) {
		look := x.setup.opts.Pages.Look(x.full())
		x.answerPage(&doc, pages.RefusalPolicy, look, pages.Refusal(&doc, look))
		return
	}
	var buffer [768]byte
	x.answerBytes(&doc, "application/problem+json", append(doc.AppendJSON(buffer[:0]), '\n'))
}

// answerPage writes a page.
func (x *exchange) answerPage(doc *refusal.Refusal, policy string, look pages.Look, body []byte) {
	x.w.Header().Set("Content-Security-Policy", policy)
	look.Head(x.w.Header())
	x.answerBytes(doc, "text/html; charset=utf-8", body)
}

// answerBytes writes an answer of the gate's own.
func (x *exchange) answerBytes(doc *refusal.Refusal, kind string, body []byte) {
	x.answered = true
	if x.judged && !x.reached { // it is not charged, and the figures of the answer say so
		x.pass.Settle(weir.Outcome{Time: x.gate.env.Clock.Now()})
	}
	h := x.header()
	doc.Head(h)
	if called := x.fields.Get("Content-Type"); refusal.IsGRPC(called) {
		doc.HeadGRPC(h, called)
		x.leaveBody()
		x.WriteHeader(http.StatusOK)
		return
	}
	refusal.Content(h, kind, len(body))
	x.leaveBody()
	x.WriteHeader(doc.Status)
	if x.r.Method != http.MethodHead {
		x.offer()
		if n, err := x.w.Write(body); err != nil {
			x.writeErr = err
		} else {
			x.out.Add(int64(n))
		}
		x.taken()
	}
}

// smallBody is how much of a refused request's body is read to keep its connection.
const smallBody = 16 << 10

// leaveBody is called before a request is answered whose body has not been read. A small body will be read, so that the
// client may keep its connection. With a larger one, the answer is the last.
func (x *exchange) leaveBody() {
	r := x.r
	if r.ProtoMajor != 1 || r.Body == nil || r.Body == http.NoBody || x.bodyRead.Load() {
		return
	}
	started := x.in.Load() > 0 || x.bodyErr.Load() != nil
	if !started && r.ContentLength > 0 && r.ContentLength <= smallBody && !x.fields.Has("Expect") {
		x.readDeadline(time.Now().Add(x.setup.opts.Timeouts.Progress.Std()))
		return
	}
	x.w.Header().Set("Connection", "close")
	if x.conn != nil {
		x.conn.hangUp()
	}
}

package httpgate

import (
	"net/netip"

	"weir/identify"
)

// A clientSide is what the options say about the side that faces the clients.
type clientSide struct {
	tls            *tlsFront // nil without TLS
	headerFrom     []netip.Prefix
	headerOnSocket bool
	tokens         *tokens // nil where tokens say nothing
	request        rules
	response       rules
}

// newFront reads the files that the options name. What came before, if anything, is kept where nothing changed for it.
func newFront(o *Options, accounts *identify.Accounts, env Env, before *setup) (f clientSide, err error) {
	var old clientSide
	if before != nil {
		old = before.clientSide
	}
	for _, prefix := range o.ProxyProtocol.From {
		f.headerFrom = append(f.headerFrom, identify.PlainPrefix(prefix))
	}
	f.headerOnSocket = o.ProxyProtocol.Socket
	f.request, f.response = o.Headers.Request.ready(), o.Headers.Response.ready()
	if f.tokens, err = newTokens(o.JWT, accounts, env, old.tokens, before != nil); err != nil {
		return f, err
	}
	if f.tls, err = newTLS(o.TLS, env, old.tls); err != nil && f.tokens != old.tokens {
		f.tokens.end()
	}
	return f, err
}

// begin starts what goes on in the background.
func (f *clientSide) begin() {
	if f.tls != nil && f.tls.orders != nil {
		f.tls.orders.begin()
	}
}

// replaces ends what the one before did and this one does not.
func (f *clientSide) replaces(old *clientSide, running bool) {
	if running {
		f.begin()
	}
	if account := old.account(); account != nil && account != f.account() {
		account.stop()
	}
	if old.tokens != f.tokens {
		old.tokens.end()
	}
}

// drop ends what the one before did not do either: this one is not to be.
func (f *clientSide) drop(before *setup) {
	if before == nil {
		f.end()
		return
	}
	before.clientSide.replaces(f, false)
}

// end ends what goes on in the background.
func (f *clientSide) end() {
	if account := f.account(); account != nil {
		account.stop()
	}
	f.tokens.end()
}

func (f *clientSide) account() *acmeAccount {
	if f.tls == nil || f.tls.orders == nil {
		return nil
	}
	return f.tls.orders.acmeAccount
}

// authority answers an authority that comes to see whether a domain belongs to this weir, and reports whether it did.
func (x *exchange) authority() bool {
	text := x.gate.env.Challenges.answer(x.r)
	if text == nil {
		return false
	}
	x.answered = true
	x.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = x.Write(text)
	return true
}

package httpgate

import (
	"net/http"
	"strings"

	"weir"
	"weir/identify"
	"weir/policy"
	behind "weir/upstream"
)

// seePrice notes what the headers of the upstream's answer say that the request has cost. What is no number counts as
// nothing said.
func (x *exchange) seePrice(h identify.Fields) {
	name := x.setup.costHeader
	if name == "" {
		return
	}
	x.price.Known = weir.Unpriced
	values := h.Values(name)
	if len(values) == 0 {
		return
	}
	if x.price = policy.PriceOf(values); x.price.Known != weir.Priced {
		x.gate.env.Observer.Bounded(BoundCost)
	}
}

// expectTrailers looks at the names of the trailers that will follow an answer. If one of them will say the price, a
// client that leaves before that must not pay less. Trailers of gRPC are not announced, but always there.
func (x *exchange) expectTrailers(k *behind.Call) {
	if name := x.setup.costHeader; name != "" && x.price.Known == weir.Unpriced && x.hasEnd(k) {
		_, announced := k.Trailer[name]
		if announced || strings.HasPrefix(k.Answer.Fields.Get("Content-Type"), "application/grpc") {
			x.price.Known = weir.Unanswered
		}
	}
	x.hideTrailers(k)
}

// hasEnd reports whether an answer has a body, after which trailers come.
func (x *exchange) hasEnd(k *behind.Call) bool {
	status := k.Answer.Status
	return x.r.Method != http.MethodHead && status != http.StatusNoContent && status != http.StatusNotModified &&
		k.Length != 0
}

// seeTrailers notes what the trailers of an answer that has ended say about the price. They are the last word: a
// service may not know before.
func (x *exchange) seeTrailers(k *behind.Call) {
	name := x.setup.costHeader
	if name == "" {
		x.hideTrailers(k)
		return
	}
	if x.price.Known == weir.Unanswered {
		x.price.Known = weir.Unpriced
	}
	if values := k.Trailer[name]; len(values) > 0 {
		if said := policy.PriceOf(values); said.Known == weir.Priced {
			x.price = said
		} else {
			x.gate.env.Observer.Bounded(BoundCost)
		}
	}
	x.hideTrailers(k)
}

// hideTrailers leaves trailers out that the client may not see as headers.
func (x *exchange) hideTrailers(k *behind.Call) {
	for _, name := range x.setup.response.remove {
		delete(k.Trailer, name)
	}
}

// finalPrice is what is known of the price in the end.
func (x *exchange) finalPrice() weir.Price {
	if x.setup.costHeader != "" && x.price.Known == weir.Unseen {
		return weir.Price{Known: weir.Unanswered}
	}
	return x.price
}

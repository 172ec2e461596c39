package refusal

import (
	"net/http"
	"strconv"
	"sync/atomic"

	"weir"
)

// A cause is what decides on all of a refusal but how much is left, when to come again, and for which request it is.
type cause struct {
	by, rule, unit string
	limit          int64
	window         weir.Window
	reason, why    weir.Reason
	own            bool
}

// A common is what all refusals of a cause say. It is not changed.
type common struct {
	cause
	doc Refusal
}

// remembered are some of those that were made before, by a part of their causes. In a flood most refusals have few
// causes, and sentences and JSON would take longer to make than everything else.
var remembered [64]atomic.Pointer[common]

// common returns what the refusals of a cause have in common.
func (c *cause) common() *common {
	place := &remembered[(uint64(c.limit)^uint64(len(c.rule))<<3^uint64(c.why)<<1)%uint64(len(remembered))]
	if known := place.Load(); known != nil && known.cause == *c {
		return known
	}
	made := &common{cause: *c}
	made.doc = made.refusal()
	place.Store(made)
	return made
}

func (c *common) refusal() Refusal {
	a := weir.Answer{Reason: c.reason, Figure: weir.Figure{By: c.by, Rule: c.rule, Unit: c.unit, Limit: c.limit,
		Window: c.window}}
	status := Status(&a, c.own)
	r := Refusal{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail(nil, &a, c.why),
		Policy: c.rule, Throttle: c.by, Reason: c.reason.String()}
	if c.reason != weir.NoReason {
		r.Type = "urn:weir:" + r.Reason
	}
	if c.unit != "" || c.limit > 0 { // otherwise the rule does not count anything
		r.Limit, r.Unit = &c.limit, c.unit
	}
	r.begins = string(r.appendCommon(nil))
	return r
}

// appendCommon writes the fields that all refusals of a cause share.
func (doc *Refusal) appendCommon(b []byte) []byte {
	b = appendText(append(b, `{"type":`...), doc.Type)
	b = appendText(append(b, `,"title":`...), doc.Title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(doc.Status), 10)
	b = appendText(append(b, `,"detail":`...), doc.Detail)
	for _, f := range [...]struct{ key, text string }{{`,"policy":`, doc.Policy}, {`,"throttle":`, doc.Throttle},
		{`,"reason":`, doc.Reason}} {
		if f.text != "" {
			b = appendText(append(b, f.key...), f.text)
		}
	}
	if doc.Limit != nil {
		b = strconv.AppendInt(append(b, `,"limit":`...), *doc.Limit, 10)
	}
	if doc.Unit != "" {
		b = appendText(append(b, `,"unit":`...), doc.Unit)
	}
	return b
}

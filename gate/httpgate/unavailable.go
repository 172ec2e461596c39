package httpgate

import (
	"log/slog"
	"net/http"

	"weir/gate/refusal"
	"weir/internal/words"
	behind "weir/upstream"
)

// unavailable answers a request that no server was given, as none may be asked now. It is not charged.
func (x *exchange) unavailable(none *behind.UnavailableError) {
	x.reached = false
	detail := words.Text("The service behind the gate is not available right now.")
	if none.Why == behind.NoneFree {
		detail = "The service behind the gate has as many requests as it can work on."
	}
	if g := x.gate; g.mayLog("the upstream is not available", g.env.Clock.Now()) {
		g.env.Log.LogAttrs(x.ctx, slog.LevelWarn, "the upstream is not available", slog.String("id", x.event.ID),
			slog.Any("error", none))
	}
	doc := refusal.Problem(http.StatusServiceUnavailable, string(detail))
	doc.RetryAfter = max(refusal.WholeSeconds(none.After), 1)
	x.answer(doc)
}

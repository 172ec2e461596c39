package httpgate

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/identify"
)

// log writes the line of the access log. The query is left out, as it may hold secrets, and the account is a
// fingerprint. The id is the one that the client was shown.
func (x *exchange) log(now time.Time) {
	g, a := x.gate, &x.pass.Answer
	switch *g.access.Load() {
	case AccessOff:
		return
	case AccessRefused:
		if a.Verdict == weir.Admit && !x.waited && !x.answered && x.status < 500 {
			return
		}
	}
	ctx := context.WithoutCancel(x.ctx)
	if !g.env.Log.Enabled(ctx, slog.LevelInfo) || !g.mayLog(x.lineName(), now) {
		return
	}
	by, rule, reason := a.By, a.Rule, a.Reason
	if a.Verdict == weir.Admit && x.waited { // the line says what it waited for
		by, rule, reason = x.waitedBy, x.waitedFor, weir.OverLimit
	}
	attrs := append(make([]slog.Attr, 0, 20), slog.String("id", x.event.ID),
		slog.String("source", x.event.Source.String()))
	if x.event.Account != "" {
		attrs = append(attrs, slog.String("account", identify.Mask(x.event.Account)))
	}
	attrs = append(attrs,
		slog.String("method", x.r.Method),
		slog.String("host", x.event.Route.Host),
		slog.String("path", maskSegments(x.r.URL.Path, x.event.Account)))
	if to := x.setup.route; to != nil {
		attrs = append(attrs, slog.String("route", to.name))
	}
	attrs = append(attrs,
		slog.Int("status", x.status),
		slog.Int64("in", x.in.Load()),
		slog.Int64("out", x.out),
		slog.String("verdict", a.Verdict.String()))
	if by != "" {
		attrs = append(attrs, slog.String("by", by), slog.String("rule", rule))
	}
	if reason != weir.NoReason {
		attrs = append(attrs, slog.String("reason", reason.String()))
	}
	waited := time.Duration(0)
	if x.waited {
		waited = x.onward.Sub(x.event.Time)
	}
	attrs = append(attrs, slog.Float64("waited_ms", milliseconds(waited)),
		slog.Float64("total_ms", milliseconds(now.Sub(x.event.Time))))
	g.env.Log.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
}

// Lines of the access log that are written in full, in a second: of each rule that turns requests away, and of all that
// pass.
const (
	maxRefused = 10
	maxPassed  = 1000
	passed     = "passed"
)

// lineName is what the request's line has in common with others.
func (x *exchange) lineName() string {
	switch a := &x.pass.Answer; {
	case x.judged && a.Verdict != weir.Admit:
		return strings.Trim(a.By+"/"+a.Rule, "/")
	case x.answered:
		return "answered by the gate"
	}
	return passed
}

// mayLog reports whether a line with such a name may be written. Others are counted, and reported once a second.
func (g *Gate) mayLog(name string, now time.Time) bool {
	most := maxRefused
	if name == passed {
		most = maxPassed
	}
	if g.lines.Pass(name, most, now.Unix()) {
		return true
	}
	if g.summing.CompareAndSwap(false, true) {
		g.env.Clock.AfterFunc(time.Second, g.sumUp)
	}
	return false
}

// sumUp reports the lines that were left out.
func (g *Gate) sumUp() {
	g.summing.Store(false)
	hidden := g.lines.Hidden()
	for _, name := range slices.Sorted(maps.Keys(hidden)) {
		g.env.Log.LogAttrs(g.Base, slog.LevelInfo, "more requests", slog.String("of", name),
			slog.Int64("requests", hidden[name]))
	}
}

// maskSegments replaces an account that is a segment of the path by its fingerprint.
func maskSegments(path, account string) string {
	if account == "" || !strings.Contains(path, account) {
		return path
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if s == account {
			segments[i] = identify.Mask(account)
		}
	}
	return strings.Join(segments, "/")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

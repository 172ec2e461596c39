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

// log writes the line of the access log. The path is logged without the query, which may hold secrets, and the account
// only as a fingerprint. The id is the one that the client was shown.
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
	if !g.env.Log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	if !g.mayLog(x.lineName(), now) {
		return
	}
	by, rule, reason := a.By, a.Rule, a.Reason
	if a.Verdict == weir.Admit && x.waited { // of interest is what it waited for
		by, rule, reason = x.waitedBy, x.waitedFor, weir.OverLimit
	}
	path := maskSegments(x.r.URL.Path, x.event.Account)
	attrs := make([]slog.Attr, 0, 20)
	attrs = append(attrs,
		slog.String("id", x.event.ID),
		slog.String("source", x.event.Source.String()))
	if x.event.Account != "" {
		attrs = append(attrs, slog.String("account", identify.Mask(x.event.Account)))
	}
	attrs = append(attrs,
		slog.String("method", x.r.Method),
		slog.String("host", x.event.Route.Host),
		slog.String("path", path),
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
	attrs = append(attrs,
		slog.Float64("waited_ms", milliseconds(waited)),
		slog.Float64("total_ms", milliseconds(now.Sub(x.event.Time))))
	g.env.Log.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
}

// Lines of the access log that are written in full, in a second: of each rule that turns requests away, and of all that
// pass.
const (
	maxRefused = 10
	maxPassed  = 1000
)

// A lineName is what lines have in common of which only so many are written in a second.
type lineName struct {
	name string
	most int
}

// lineName is the one of this request's line.
func (x *exchange) lineName() lineName {
	switch a := &x.pass.Answer; {
	case x.judged && a.Verdict != weir.Admit:
		return lineName{strings.Trim(a.By+"/"+a.Rule, "/"), maxRefused}
	case x.answered:
		return lineName{"answered by the gate", maxRefused}
	}
	return lineName{"passed", maxPassed}
}

// mayLog reports whether a line may be written. What may not is counted, and told of once a second.
func (g *Gate) mayLog(line lineName, now time.Time) bool {
	if g.lines.Pass(line.name, line.most, now.Unix()) {
		return true
	}
	if g.summing.CompareAndSwap(false, true) {
		g.env.Clock.AfterFunc(time.Second, g.sumUp)
	}
	return false
}

// sumUp tells of lines that were left out.
func (g *Gate) sumUp() {
	g.summing.Store(false)
	hidden := g.lines.Hidden()
	for _, name := range slices.Sorted(maps.Keys(hidden)) {
		g.env.Log.LogAttrs(g.Base, slog.LevelInfo, "more requests", slog.String("of", name),
			slog.Int64("requests", hidden[name]))
	}
}

// maskSegments hides an account that is a segment of the path.
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
